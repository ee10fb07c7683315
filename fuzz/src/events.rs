use fencepost_client::fuzzing::events as read;

/// A stream of events, as the client reads it: the same events whatever pieces it comes in, and each can be told. The first
/// byte says how long a piece is.
pub fn events(bytes: &[u8]) {
    let Some((size, bytes)) = bytes.split_first() else { return };
    let (whole, pieces) = (read([bytes]), read(bytes.chunks(usize::from(*size).max(1))));
    assert_eq!(whole, pieces, "events depend on the pieces they come in");
    for event in &whole.0 {
        let (words, json) = fencepost_cli::fuzzing::event(event);
        assert!(
            !words.contains('\n') || event.data.is_none(),
            "an event of {} lines: {words:?}",
            words.lines().count()
        );
        assert!(json.is_object(), "{json}");
    }
}

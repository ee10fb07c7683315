use fencepost_client::fuzzing::events as read;

pub fn taken() {
    let stream = b": still here\n\nid: 1-4\nevent: granted\ndata: {\"domain\":\"d\",\"lease\":\"11111111111111111111111111111111\",\
                   \"contract\":\"safety\",\"token\":\"7\",\"holder\":\"h\",\"waited_ms\":3}\n\nevent: new\ndata: {}\n\n";
    let (events, given_up) = read([&stream[..]]);
    assert_eq!(given_up, None);
    let read: Vec<_> =
        events.iter().map(|event| (event.name.as_str(), event.id.is_some(), event.data.is_some())).collect();
    assert_eq!(read, [("granted", true, true), ("new", false, false)]);
}

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

use fencepost_testkit::prove::Answer;

/// What a service under proof answers: read or refused, and the same whatever pieces it comes in. The first byte says how
/// long a piece is.
pub fn answer(bytes: &[u8]) {
    let Some((size, bytes)) = bytes.split_first() else { return };
    let whole = Answer::from_pieces([bytes]);
    let pieces = Answer::from_pieces(bytes.chunks(usize::from(*size).max(1)));
    assert_eq!(whole, pieces, "an answer depends on the pieces it comes in");
}

use fencepost_testkit::prove::{Answer, fuzzing::value};

/// What a service under proof answers: read or refused, and the same whatever pieces it comes in; and the value that is read
/// out of it. The first byte says how long a piece is.
pub fn answer(bytes: &[u8]) {
    let Some((size, bytes)) = bytes.split_first() else { return };
    let whole = Answer::from_pieces([bytes]);
    let pieces = Answer::from_pieces(bytes.chunks(usize::from(*size).max(1)));
    assert_eq!(whole, pieces, "an answer depends on the pieces it comes in");
    if let Ok(answer) = whole {
        for pointer in ["", "/value", "/a~1b/0", "value", "/~2"] {
            let read = value(pointer, &answer);
            assert!(read.is_none() || (200..300).contains(&answer.status), "a value is read out of a refusal");
        }
    }
}

use fencepost_testkit::prove::{Answer, fuzzing::value};

pub fn taken() {
    let json =
        Answer::from_pieces([&b"HTTP/1.1 200 OK\r\nContent-Length: 11\r\n\r\n{\"value\":7}"[..]]).expect("an answer");
    assert_eq!((json.status, value("/value", &json).as_deref()), (200, Some("7")));
    let stale =
        b"HTTP/1.1 412 x\r\nFencepost-Verdict: stale_token\r\nTransfer-Encoding: chunked\r\n\r\n2;x\r\nab\r\n0\r\n\r\n";
    let stale = Answer::from_pieces([&stale[..]]).expect("an answer");
    assert_eq!((stale.status, stale.verdict.as_deref()), (412, Some("stale_token")));
}

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

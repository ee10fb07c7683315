use std::{
    pin::pin,
    task::{Context, Poll, Waker},
};

use fencepost_testkit::proxy::fuzzing::passed_on;

pub fn taken() {
    let said = b"POST /v1/leases HTTP/1.1\r\ncontent-length: 3\r\n\r\nabcHTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n\
                 3;x=y\r\nabc\r\n0\r\n\r\n";
    assert_eq!(passed(said), said, "all of it is passed on");
}

/// What the proxy reads of a connection: it passes on what came, and nothing else.
pub fn relay(bytes: &[u8]) {
    assert!(bytes.starts_with(&passed(bytes)), "the proxy changes what it carries");
}

fn passed(bytes: &[u8]) -> Vec<u8> {
    let Poll::Ready((passed, _)) = pin!(passed_on(bytes)).poll(&mut Context::from_waker(Waker::noop())) else {
        panic!("the proxy waits for bytes that it has")
    };
    passed
}

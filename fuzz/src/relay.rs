use std::{
    pin::pin,
    task::{Context, Poll, Waker},
};

use fencepost_testkit::proxy::fuzzing::passed_on;

/// What the proxy reads of a connection: it passes on what came, and nothing else.
pub fn relay(bytes: &[u8]) {
    let Poll::Ready((passed, _)) = pin!(passed_on(bytes)).poll(&mut Context::from_waker(Waker::noop())) else {
        panic!("the proxy waits for bytes that it has")
    };
    assert!(bytes.starts_with(&passed), "the proxy changes what it carries");
}

//! A call that blocks, as a future that needs no runtime.

use std::{
    future::Future,
    pin::Pin,
    sync::{Arc, Mutex, PoisonError},
    task::{Context, Poll, Waker},
    thread,
};

struct Shared<T> {
    answer: Option<thread::Result<T>>,
    waker: Option<Waker>,
}

/// The answer of a call that runs on a thread of its own. Dropping it does not stop the call.
pub(crate) struct Blocking<T>(Arc<Mutex<Shared<T>>>);

/// Starts the call at once.
pub(crate) fn run<T: Send + 'static>(call: impl FnOnce() -> T + Send + 'static) -> Blocking<T> {
    let shared = Arc::new(Mutex::new(Shared { answer: None, waker: None }));
    let theirs = Arc::clone(&shared);
    thread::spawn(move || {
        let answer = std::panic::catch_unwind(std::panic::AssertUnwindSafe(call));
        let mut shared = theirs.lock().unwrap_or_else(PoisonError::into_inner);
        shared.answer = Some(answer);
        if let Some(waker) = shared.waker.take() {
            waker.wake();
        }
    });
    Blocking(shared)
}

impl<T> Future for Blocking<T> {
    type Output = T;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<T> {
        let mut shared = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match shared.answer.take() {
            Some(Ok(answer)) => Poll::Ready(answer),
            Some(Err(panic)) => std::panic::resume_unwind(panic),
            None => {
                shared.waker = Some(context.waker().clone());
                Poll::Pending
            }
        }
    }
}

use std::{
    future::poll_fn,
    sync::{Arc, Mutex, PoisonError},
    task::{Poll, Waker},
    thread,
};

enum Progress<T> {
    Running(Option<Waker>),
    Ended(thread::Result<T>),
    Taken,
}

/// Runs a call that waits for a lock or a disk on a thread of its own, from now on, and holds up no runtime. Dropping the
/// future does not stop the call; a panic of the call is the panic of whoever waits for it.
pub fn on_a_thread<T: Send + 'static>(call: impl FnOnce() -> T + Send + 'static) -> impl Future<Output = T> + Send {
    let progress = Arc::new(Mutex::new(Progress::Running(None)));
    let reported = Arc::clone(&progress);
    thread::spawn(move || {
        let ended = Progress::Ended(std::panic::catch_unwind(std::panic::AssertUnwindSafe(call)));
        let before = std::mem::replace(&mut *reported.lock().unwrap_or_else(PoisonError::into_inner), ended);
        if let Progress::Running(Some(waker)) = before {
            waker.wake();
        }
    });
    poll_fn(move |context| {
        let mut progress = progress.lock().unwrap_or_else(PoisonError::into_inner);
        if let Progress::Running(waker) = &mut *progress {
            *waker = Some(context.waker().clone());
            return Poll::Pending;
        }
        match std::mem::replace(&mut *progress, Progress::Taken) {
            Progress::Ended(Ok(answer)) => Poll::Ready(answer),
            Progress::Ended(Err(panic)) => std::panic::resume_unwind(panic),
            Progress::Running(_) | Progress::Taken => unreachable!("a future is not polled after its end"),
        }
    })
}

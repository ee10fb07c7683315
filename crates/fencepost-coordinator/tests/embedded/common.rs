//! What the stories of this folder share.

use std::{
    io::Write,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::{Duration, Instant},
};

use fencepost_coordinator::{
    AcquireRequest, Answered, CallError, Coordinator, Granted, SessionKey,
    embedded::{Embedded, Options, testing::ManualClock},
};
use fencepost_core::{
    Domain, Holder, RequestId, Token, Ttl, Wait,
    lease::{AcquireRefusal, Filter, LeaseView},
};

/// The outcome of an acquire.
pub(crate) type AcquireResult = Result<Answered<Granted>, CallError<Box<AcquireRefusal>>>;

/// The moment at which the clocks of the stories stand at first.
pub(crate) const NOON: u64 = 1_000_000;

/// Options with a clock that stands still.
pub(crate) fn on(clock: &Arc<ManualClock>) -> Options {
    Options { clock: Some(Arc::clone(clock) as _), ..Options::default() }
}

/// A clock that stands still, under boot 1.
pub(crate) fn clock() -> Arc<ManualClock> {
    Arc::new(ManualClock::new(1, NOON))
}

pub(crate) fn domain(name: &str) -> Domain {
    Domain::new(name).unwrap()
}

/// A request id nobody has used.
pub(crate) fn request() -> RequestId {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    let mut bytes = [0; 16];
    bytes[8..].copy_from_slice(&NEXT.fetch_add(1, Relaxed).to_be_bytes());
    RequestId::from_bytes(bytes)
}

/// A session with this TTL.
pub(crate) async fn session(coordinator: &Embedded, holder: &str, ttl_ms: u64) -> SessionKey {
    let ttl = Ttl::from_millis(ttl_ms).unwrap();
    coordinator.open_session(Holder::new(holder).unwrap(), ttl).await.unwrap().answer.key()
}

/// An acquire that waits this long.
pub(crate) fn waiting(key: &SessionKey, name: &str, wait_ms: u64) -> AcquireRequest {
    AcquireRequest { wait: Wait::from_millis(wait_ms).unwrap(), ..AcquireRequest::new(key, domain(name), request()) }
}

/// Acquires a free domain.
pub(crate) async fn acquire(coordinator: &Embedded, key: &SessionKey, name: &str) -> (Granted, RequestId) {
    let request = request();
    let granted = coordinator.acquire(AcquireRequest::new(key, domain(name), request)).await.unwrap();
    (granted.answer, request)
}

pub(crate) fn token(granted: &Granted) -> Token {
    granted.acquired.permission.grant().unwrap().token
}

/// Who holds a domain.
pub(crate) async fn holder(coordinator: &Embedded, name: &str) -> Option<LeaseView> {
    coordinator.list(Filter::Domain(domain(name)), None, 1).await.unwrap().rows.pop()
}

/// The error of an acquire that was refused.
pub(crate) fn refusal(result: AcquireResult) -> AcquireRefusal {
    match result {
        Err(CallError::Refused(refusal)) => *refusal,
        other => panic!("expected a refusal, got {other:?}"),
    }
}

/// Whether a call was answered that it cannot be served now, and may have happened or not as given.
pub(crate) fn is_unavailable<T, R>(result: &Result<T, CallError<R>>, may: bool) -> bool {
    matches!(result, Err(CallError::Unavailable { may_have_happened, .. }) if *may_have_happened == may)
}

/// Waits until a condition holds.
pub(crate) async fn until<F: Future<Output = bool>>(what: &str, mut condition: impl FnMut() -> F) {
    let began = Instant::now();
    while !condition().await {
        assert!(began.elapsed() < Duration::from_secs(20), "still waiting until {what}");
        tokio::time::sleep(Duration::from_millis(1)).await; // bounded: looks again, twenty seconds at most
    }
}

/// Says that a story could not be told here.
pub(crate) fn skip(name: &str, reason: &str) {
    let line = format!("SKIPPED: {name}: {}\n", reason.replace('\n', " "));
    eprint!("{line}");
    if let Some(path) = std::env::var_os("FENCEPOST_SKIPS") {
        let mut file = std::fs::OpenOptions::new().append(true).create(true).open(path).unwrap();
        file.write_all(line.as_bytes()).unwrap();
    }
}

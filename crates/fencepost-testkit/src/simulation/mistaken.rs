//! A deliberate mistake between the client and its driver.

use std::{
    collections::BTreeSet,
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
};

use fencepost_client::HttpCoordinator;
use fencepost_coordinator::{AcquireRequest, Answered, CallError, Coordinator, Granted, SessionKey};
use fencepost_core::{
    RequestId,
    lease::{AcquireRefusal, Claim, Heartbeat, HeartbeatRefusal},
};

use super::settings::Mistake;
use crate::pass_on;

/// Sends every retry of an acquire under a request id of its own, or panics in heartbeats.
pub(super) struct Mistaken {
    driver: HttpCoordinator,
    mistake: Mistake,
    sent: Mutex<BTreeSet<RequestId>>,
    drawn: AtomicU64,
}

impl Mistaken {
    /// `first` is a number that nobody else counts on from.
    pub(super) fn new(driver: HttpCoordinator, mistake: Mistake, first: u64) -> Self {
        Self { driver, mistake, sent: Mutex::default(), drawn: AtomicU64::new(first) }
    }
}

impl Coordinator for Mistaken {
    pass_on!(driver: open_session, read_session, end_session, release, break_lease, check, list, snapshot);

    async fn heartbeat(
        &self,
        key: &SessionKey,
        claim: Claim,
    ) -> Result<Answered<Heartbeat>, CallError<HeartbeatRefusal>> {
        let beats = self.drawn.fetch_add(1, Relaxed);
        assert!(self.mistake != Mistake::PanicInDriver || !beats.is_multiple_of(8), "as a mistake");
        self.driver.heartbeat(key, claim).await
    }

    async fn acquire(&self, request: AcquireRequest) -> Result<Answered<Granted>, CallError<Box<AcquireRefusal>>> {
        if self.mistake != Mistake::FreshRequestOnRetry {
            return self.driver.acquire(request).await;
        }
        let is_first = self.sent.lock().unwrap_or_else(PoisonError::into_inner).insert(request.request);
        let mut bytes = [0xff; 16];
        bytes[8..].copy_from_slice(&self.drawn.fetch_add(1, Relaxed).to_be_bytes());
        let id = if is_first { request.request } else { RequestId::from_bytes(bytes) };
        self.driver.acquire(AcquireRequest { request: id, ..request }).await
    }
}

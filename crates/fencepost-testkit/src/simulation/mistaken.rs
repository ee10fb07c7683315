//! A deliberate mistake between the client and its driver.

use std::{
    collections::BTreeSet,
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
};

use fencepost_client::HttpCoordinator;
use fencepost_coordinator::{AcquireRequest, Answered, CallError, Coordinator, Granted, Opened, Refused, SessionKey};
use fencepost_core::{
    Domain, Holder, LeaseId, Reason, RequestId, Secret, Token, Ttl,
    lease::{
        AcquireRefusal, BreakRefusal, Broken, Claim, Filter, Heartbeat, HeartbeatRefusal, LimitReached, LiveSnapshot,
        Page, ReleaseRefusal, Released, SessionRefusal, SessionView,
    },
};

use super::settings::Mistake;

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
    async fn open_session(&self, holder: Holder, ttl: Ttl) -> Result<Answered<Opened>, CallError<LimitReached>> {
        self.driver.open_session(holder, ttl).await
    }

    async fn heartbeat(
        &self,
        key: &SessionKey,
        claim: Claim,
    ) -> Result<Answered<Heartbeat>, CallError<HeartbeatRefusal>> {
        let beats = self.drawn.fetch_add(1, Relaxed);
        assert!(self.mistake != Mistake::PanicInDriver || !beats.is_multiple_of(8), "as a mistake");
        self.driver.heartbeat(key, claim).await
    }

    async fn read_session(&self, key: &SessionKey) -> Result<Answered<SessionView>, CallError<SessionRefusal>> {
        self.driver.read_session(key).await
    }

    async fn end_session(&self, key: &SessionKey) -> Result<(), CallError<SessionRefusal>> {
        self.driver.end_session(key).await
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

    async fn release(
        &self,
        secret: &Secret,
        lease: LeaseId,
        request: RequestId,
    ) -> Result<Released, CallError<ReleaseRefusal>> {
        self.driver.release(secret, lease, request).await
    }

    async fn break_lease(&self, lease: LeaseId, reason: Reason) -> Result<Broken, CallError<BreakRefusal>> {
        self.driver.break_lease(lease, reason).await
    }

    async fn check(&self, domain: Domain, token: Token) -> Result<bool, CallError<Refused>> {
        self.driver.check(domain, token).await
    }

    async fn list(&self, filter: Filter, after: Option<Domain>, limit: usize) -> Result<Page, CallError<Refused>> {
        self.driver.list(filter, after, limit).await
    }

    async fn snapshot(&self, prefix: String) -> Result<LiveSnapshot, CallError<Refused>> {
        self.driver.snapshot(prefix).await
    }
}

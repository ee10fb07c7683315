//! A coordinator of which every call about a session is noted: those that no worker makes by itself, but its session's
//! thread.

use fencepost_client::HttpCoordinator;
use fencepost_coordinator::{AcquireRequest, Answered, CallError, Coordinator, Granted, Opened, Refused, SessionKey};
use fencepost_core::{
    Domain, Holder, LeaseId, Reason, RequestId, Secret, Token, Ttl,
    lease::{
        AcquireRefusal, BreakRefusal, Broken, Claim, Filter, Heartbeat, HeartbeatRefusal, LimitReached, LiveSnapshot,
        Page, ReleaseRefusal, Released, SessionRefusal, SessionView,
    },
};
use fencepost_testkit::history::{Answer, Doing};

use crate::noted::{Shared, with};

#[derive(Clone)]
pub(crate) struct NotedSessions {
    pub(crate) inner: HttpCoordinator,
    pub(crate) recorder: Shared,
}

impl NotedSessions {
    async fn noted<T, R>(
        &self,
        doing: Doing,
        done: Answer,
        call: impl Future<Output = Result<T, CallError<R>>>,
    ) -> Result<T, CallError<R>> {
        let number = with(&self.recorder, |recorder| recorder.call_of_session(doing));
        let came = call.await;
        let got = match &came {
            Ok(_) => done,
            Err(error) if error.may_have_happened() => Answer::Unknown,
            Err(_) => Answer::Refused,
        };
        with(&self.recorder, |recorder| recorder.answer(number, got, |_| {}));
        came
    }
}

impl Coordinator for NotedSessions {
    async fn open_session(&self, holder: Holder, ttl: Ttl) -> Result<Answered<Opened>, CallError<LimitReached>> {
        self.noted(Doing::Open, Answer::Opened, self.inner.open_session(holder, ttl)).await
    }

    async fn heartbeat(
        &self,
        key: &SessionKey,
        claim: Claim,
    ) -> Result<Answered<Heartbeat>, CallError<HeartbeatRefusal>> {
        self.noted(Doing::Heartbeat, Answer::Renewed, self.inner.heartbeat(key, claim)).await
    }

    async fn read_session(&self, key: &SessionKey) -> Result<Answered<SessionView>, CallError<SessionRefusal>> {
        self.inner.read_session(key).await
    }

    async fn end_session(&self, key: &SessionKey) -> Result<(), CallError<SessionRefusal>> {
        self.noted(Doing::End, Answer::Ended, self.inner.end_session(key)).await
    }

    async fn acquire(&self, request: AcquireRequest) -> Result<Answered<Granted>, CallError<Box<AcquireRefusal>>> {
        self.inner.acquire(request).await
    }

    async fn release(
        &self,
        secret: &Secret,
        lease: LeaseId,
        request: RequestId,
    ) -> Result<Released, CallError<ReleaseRefusal>> {
        self.inner.release(secret, lease, request).await
    }

    async fn break_lease(&self, lease: LeaseId, reason: Reason) -> Result<Broken, CallError<BreakRefusal>> {
        self.inner.break_lease(lease, reason).await
    }

    async fn check(&self, domain: Domain, token: Token) -> Result<bool, CallError<Refused>> {
        self.inner.check(domain, token).await
    }

    async fn list(&self, filter: Filter, after: Option<Domain>, limit: usize) -> Result<Page, CallError<Refused>> {
        self.inner.list(filter, after, limit).await
    }

    async fn snapshot(&self, prefix: String) -> Result<LiveSnapshot, CallError<Refused>> {
        self.inner.snapshot(prefix).await
    }
}

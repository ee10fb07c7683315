use fencepost_coordinator::{
    AcquireRequest, Answered, CallError, Coordinator, Granted, HistoryQuery, Opened, Refused, RequestCaller, SessionKey,
};
use fencepost_core::{
    Domain, Holder, LeaseId, OperationId, Reason, RequestId, Secret, Token, Ttl,
    fence::Rejection,
    lease::{
        AcquireRefusal, BreakRefusal, Broken, Claim, Filter, Heartbeat, HeartbeatRefusal, LimitReached, LiveSnapshot,
        Page, ReleaseRefusal, Released, SessionRefusal, SessionView,
    },
};
use fencepost_wire::{
    AcquireAnswer, AcquireBody, BreakAnswer, BreakBody, CheckAnswer, CheckBody, HeartbeatAnswer, HeartbeatBody,
    HistoryList, HistoryListQuery, LeaseList, ListQuery, OpenSessionBody, PrefixQuery, QueueList, QueueQuery,
    RejectedData, RejectedReport, ReleaseAnswer, ReleaseBody, SessionAnswer, SessionOpenedAnswer, WorkFailedReport,
    parse_snapshot,
};
use http::Method;
use serde::Serialize;

use super::{
    HttpCoordinator,
    exchange::{Call, LARGE, NDJSON, SNAPSHOT, not_understood},
};

impl Coordinator for HttpCoordinator {
    async fn open_session(&self, holder: Holder, ttl: Ttl) -> Result<Answered<Opened>, CallError<LimitReached>> {
        let call = Call::post("/v1/sessions", &OpenSessionBody::new(&holder, ttl));
        let (_, answer) = self.call::<SessionOpenedAnswer, _>(call, &[201]).await?;
        if answer.holder != holder || answer.ttl_ms != ttl {
            return Err(CallError::Protocol { why: "it opened a session for somebody else".to_owned() });
        }
        Ok(answer.into())
    }

    async fn heartbeat(
        &self,
        key: &SessionKey,
        claim: Claim,
    ) -> Result<Answered<Heartbeat>, CallError<HeartbeatRefusal>> {
        let path = format!("{}/heartbeat", session_path(key));
        let call = Call { secret: Some(&key.secret), most: LARGE, ..Call::post(&path, &HeartbeatBody::from(claim)) };
        let (_, answer) = self.call::<HeartbeatAnswer, _>(call, &[200]).await?;
        Ok(answer.into())
    }

    async fn read_session(&self, key: &SessionKey) -> Result<Answered<SessionView>, CallError<SessionRefusal>> {
        let call = Call { secret: Some(&key.secret), ..Call::get(session_path(key), LARGE) };
        let (_, answer) = self.call::<SessionAnswer, _>(call, &[200]).await?;
        if answer.session != key.session {
            return Err(CallError::Protocol { why: "it describes another session".to_owned() });
        }
        Ok(answer.into())
    }

    async fn end_session(&self, key: &SessionKey) -> Result<(), CallError<SessionRefusal>> {
        let call = Call { method: Method::DELETE, secret: Some(&key.secret), ..Call::get(session_path(key), LARGE) };
        self.exchange(call).await?.expect(&[204], None).map(|_| ())
    }

    async fn acquire(&self, request: AcquireRequest) -> Result<Answered<Granted>, CallError<Box<AcquireRefusal>>> {
        let secret = match &request.caller {
            RequestCaller::Session { secret, .. } => secret.as_ref(),
            RequestCaller::Opening { .. } => None,
        };
        let call = Call { secret, wait: request.wait.get(), ..Call::post("/v1/leases", &AcquireBody::from(&request)) };
        let (status, answer) = self.call::<AcquireAnswer, _>(call, &[200, 201]).await?;
        answer.into_granted(&request, status == 200).map_err(not_understood)
    }

    async fn release(
        &self,
        secret: &Secret,
        lease: LeaseId,
        request: RequestId,
    ) -> Result<Released, CallError<ReleaseRefusal>> {
        let body = ReleaseBody::new(lease, request);
        let call = Call { secret: Some(secret), ..Call::post("/v1/leases/release", &body) };
        let (_, answer) = self.call::<ReleaseAnswer, _>(call, &[200]).await?;
        Ok(answer.into())
    }

    async fn break_lease(&self, lease: LeaseId, reason: Reason) -> Result<Broken, CallError<BreakRefusal>> {
        let call = Call::post("/v1/leases/break", &BreakBody::new(lease, &reason));
        let (_, answer) = self.call::<BreakAnswer, _>(call, &[200]).await?;
        Ok(answer.into())
    }

    async fn check(&self, domain: Domain, token: Token) -> Result<bool, CallError<Refused>> {
        let call = Call::post("/v1/leases/check", &CheckBody::new(&domain, token));
        let (_, answer) = self.call::<CheckAnswer, _>(call, &[200]).await?;
        Ok(answer.current)
    }

    async fn list(&self, filter: Filter, after: Option<Domain>, limit: usize) -> Result<Page, CallError<Refused>> {
        let query = ListQuery::new(&filter, after.as_ref(), limit).write();
        let (_, answer) = self.call::<LeaseList, _>(Call::get(with_query("/v1/leases", &query), LARGE), &[200]).await?;
        Page::try_from(answer).map_err(not_understood)
    }

    async fn snapshot(&self, prefix: String) -> Result<LiveSnapshot, CallError<Refused>> {
        let query = PrefixQuery { prefix: (!prefix.is_empty()).then_some(prefix) }.write();
        let reply = self.exchange(Call::get(with_query("/v1/leases/snapshot", &query), SNAPSHOT)).await?;
        reply.expect(&[200], Some(NDJSON))?;
        parse_snapshot(reply.body()).map_err(not_understood)
    }
}

impl HttpCoordinator {
    /// Who waits for a domain, at most `limit` rows (1 to 1000). A hint. Safe to repeat.
    ///
    /// # Errors
    /// When there is no answer, or none that this client understands.
    pub async fn queue(&self, domain: &Domain, limit: usize) -> Result<QueueList, CallError<Refused>> {
        let query = QueueQuery { domain: Some(domain.as_str().to_owned()), limit: Some(limit as u64) }.write();
        let (_, answer) = self.call::<QueueList, _>(Call::get(with_query("/v1/queue", &query), LARGE), &[200]).await?;
        if answer.domain != *domain {
            return Err(CallError::Protocol { why: "it describes the queue of another domain".to_owned() });
        }
        Ok(answer)
    }

    /// Reports that a receiver in this process has refused a write, so that the coordinator counts it, logs it and tells
    /// watchers. A hint: nothing depends on it, and one that is sent again is counted again.
    ///
    /// # Errors
    /// When there is no answer, or none that this client understands.
    pub async fn report_rejected(
        &self,
        domain: &Domain,
        rejection: &Rejection,
        lease: Option<LeaseId>,
        operation: Option<&OperationId>,
    ) -> Result<(), CallError<Refused>> {
        let data = RejectedData::new(domain.clone(), rejection, lease, operation.cloned());
        self.report("/v1/reports/rejected", &RejectedReport::new(&data)).await
    }

    /// Reports that the work done under a lease has failed, and not because the lease was lost. A hint, as above.
    ///
    /// # Errors
    /// When there is no answer, or none that this client understands.
    pub async fn report_work_failed(&self, domain: &Domain, lease: LeaseId) -> Result<(), CallError<Refused>> {
        self.report("/v1/reports/work-failed", &WorkFailedReport::new(domain, Some(lease))).await
    }

    async fn report(&self, path: &str, body: &impl Serialize) -> Result<(), CallError<Refused>> {
        self.exchange(Call::post(path, body)).await?.expect(&[204], None).map(|_| ())
    }

    /// What has happened, the newest first. A hint. Safe to repeat.
    ///
    /// # Errors
    /// When there is no answer, or none that this client understands.
    pub async fn history(&self, query: &HistoryQuery) -> Result<HistoryList, CallError<Refused>> {
        let query = HistoryListQuery::new(query).write();
        let call = Call::get(with_query("/v1/history", &query), LARGE);
        let (_, answer) = self.call::<HistoryList, _>(call, &[200]).await?;
        Ok(answer)
    }
}

fn session_path(key: &SessionKey) -> String {
    format!("/v1/sessions/{}", key.session)
}

pub(super) fn with_query(path: &str, query: &str) -> String {
    if query.is_empty() { path.to_owned() } else { format!("{path}?{query}") }
}

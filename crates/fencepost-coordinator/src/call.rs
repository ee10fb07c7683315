use std::{sync::Arc, time::Duration};

use fencepost_core::{
    BootId, Contract, Domain, Holder, LeaseId, Metadata, Reason, RequestId, Secret, SessionId, Token, Ttl, Wait,
    lease::{
        AcquireRefusal, Acquired, BreakRefusal, Broken, Claim, Event, Filter, Heartbeat, HeartbeatRefusal,
        LimitReached, LiveSnapshot, Page, ReleaseRefusal, Released, SessionRefusal, SessionView, Terms,
    },
};

use crate::{CallError, Refused};

/// What issues grants, wherever it runs.
///
/// Dropping the future of a call gives up the answer, not the effect: the call may have happened. Dropping a waiting
/// acquire gives up its connection; its place in the queue is kept for one TTL for a retry with the same request id.
pub trait Coordinator: Send + Sync + 'static {
    /// Opens a session. A retry after a lost answer opens a second one; the first ends after one TTL.
    fn open_session(
        &self,
        holder: Holder,
        ttl: Ttl,
    ) -> impl Future<Output = Result<Answered<Opened>, CallError<LimitReached>>> + Send;

    /// Renews the session and exactly the leases that the claim names.
    fn heartbeat(
        &self,
        key: &SessionKey,
        claim: Claim,
    ) -> impl Future<Output = Result<Answered<Heartbeat>, CallError<HeartbeatRefusal>>> + Send;

    /// Reads a session and its leases; renews nothing.
    fn read_session(
        &self,
        key: &SessionKey,
    ) -> impl Future<Output = Result<Answered<SessionView>, CallError<SessionRefusal>>> + Send;

    /// Ends a session and its leases, cleanly.
    fn end_session(&self, key: &SessionKey) -> impl Future<Output = Result<(), CallError<SessionRefusal>>> + Send;

    /// Acquires a domain. The grant is durable when this returns.
    fn acquire(
        &self,
        request: AcquireRequest,
    ) -> impl Future<Output = Result<Answered<Granted>, CallError<Box<AcquireRefusal>>>> + Send;

    /// Ends one hold. The end is durable when this returns.
    fn release(
        &self,
        secret: &Secret,
        lease: LeaseId,
        request: RequestId,
    ) -> impl Future<Output = Result<Released, CallError<ReleaseRefusal>>> + Send;

    /// Ends a lease against its holder's will and burns a token to fence it with.
    fn break_lease(
        &self,
        lease: LeaseId,
        reason: Reason,
    ) -> impl Future<Output = Result<Broken, CallError<BreakRefusal>>> + Send;

    /// Whether a token is the current one of a domain: a hint, never authority.
    fn check(&self, domain: Domain, token: Token) -> impl Future<Output = Result<bool, CallError<Refused>>> + Send;

    /// A page of live leases in byte order of their domains.
    fn list(
        &self,
        filter: Filter,
        after: Option<Domain>,
        limit: usize,
    ) -> impl Future<Output = Result<Page, CallError<Refused>>> + Send;

    /// The next token and every live lease of contract `safety`, in one consistent read that excludes grants in
    /// flight. What collection and receiver recovery start from.
    fn snapshot(&self, prefix: String) -> impl Future<Output = Result<LiveSnapshot, CallError<Refused>>> + Send;
}

/// A coordinator that tells what happens. Hints, never authority.
pub trait Watch: Coordinator {
    /// Everything that happens from now on, commit by commit. A slow reader misses some, and sees by the numbers how
    /// many events those were.
    fn watch(&self) -> tokio::sync::broadcast::Receiver<Arc<WatchedEvents>>;
}

/// What one commit brought about, in order. Within one run of the coordinator events are numbered without gaps.
#[derive(Clone, Debug)]
pub struct WatchedEvents {
    /// The number of the first event.
    pub first: u64,
    /// What happened; one event at least.
    pub events: Vec<Event>,
}

/// A session's public id with its secret.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SessionKey {
    /// The public id.
    pub session: SessionId,
    /// The secret.
    pub secret: Secret,
}

/// An answer with what a holder needs to compute its deadline.
///
/// The deadline of anything in it that has `remaining_ms` is: the moment this attempt was sent + `elapsed` +
/// `remaining_ms` - a margin.
#[derive(Clone, Debug)]
pub struct Answered<T> {
    /// The answer.
    pub answer: T,
    /// From receiving the call to deciding it.
    pub elapsed: Duration,
    /// The boot under which the coordinator runs.
    pub boot: BootId,
}

/// A session that was opened.
#[derive(Clone, Debug)]
pub struct Opened {
    /// The session; it has no leases yet.
    pub session: SessionView,
    /// Its secret, handed out this once.
    pub secret: Secret,
}

/// An acquire that was granted.
#[derive(Clone, Debug)]
pub struct Granted {
    /// The grant.
    pub acquired: Acquired,
    /// The session's secret, where this call opened the session or replaced a secret nobody had used.
    pub secret: Option<Secret>,
}

/// An acquire. See [`fencepost_core::lease::Acquire`] for the meaning of its fields.
#[derive(Clone, Debug)]
pub struct AcquireRequest {
    /// On whose behalf.
    pub caller: RequestCaller,
    /// The domain.
    pub domain: Domain,
    /// Names the hold: 128 random bits, the same on every retry.
    pub request: RequestId,
    /// What the lease is for.
    pub contract: Contract,
    /// Limits of the lease.
    pub terms: Terms,
    /// What to show beside the lease.
    pub metadata: Metadata,
    /// Force a greater token where the session holds the domain already.
    pub renew: bool,
    /// How long to stand in the queue.
    pub wait: Wait,
}

impl AcquireRequest {
    /// An acquire by an open session under contract `safety`, without limits, metadata or waiting.
    #[must_use]
    pub fn new(key: &SessionKey, domain: Domain, request: RequestId) -> Self {
        Self {
            caller: key.into(),
            domain,
            request,
            contract: Contract::default(),
            terms: Terms::default(),
            metadata: Metadata::default(),
            renew: false,
            wait: Wait::from_millis(0).expect("not to wait is allowed"),
        }
    }
}

impl Opened {
    /// What further calls of the session are made with.
    #[must_use]
    pub fn key(&self) -> SessionKey {
        SessionKey { session: self.session.session, secret: self.secret.clone() }
    }
}

/// On whose behalf an acquire is made.
#[derive(Clone, Debug)]
pub enum RequestCaller {
    /// An open session. The secret is missing where the caller sent none.
    Session {
        /// The session.
        session: SessionId,
        /// Its secret.
        secret: Option<Secret>,
    },
    /// A session that the grant opens.
    Opening {
        /// What the holder calls itself.
        holder: Holder,
        /// How long the session lives without a heartbeat.
        ttl: Ttl,
    },
}

impl From<&SessionKey> for RequestCaller {
    fn from(key: &SessionKey) -> Self {
        Self::Session { session: key.session, secret: Some(key.secret.clone()) }
    }
}

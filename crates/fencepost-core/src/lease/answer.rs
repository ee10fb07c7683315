//! What calls are answered with. Times are milliseconds from the moment of the decision, so that they mean the same on
//! every clock; the driver adds how long the call took until then.

use serde::{Deserialize, Serialize};

use crate::{BootId, Contract, Domain, Epoch, Holder, Issuer, LeaseId, Metadata, Permission, SessionId, Token, Ttl};

use super::Version;

/// What a call is answered with. The variant is that of the command.
#[derive(Clone, Debug)]
pub enum Answer {
    /// To `OpenSession`.
    Opened(Result<SessionView, LimitReached>),
    /// To `Heartbeat`.
    Heartbeat(Result<Heartbeat, HeartbeatRefusal>),
    /// To `ReadSession`.
    Session(Result<SessionView, SessionRefusal>),
    /// To `EndSession`.
    SessionEnded(Result<(), SessionRefusal>),
    /// To `Acquire`.
    Acquired(Result<Box<Acquired>, Box<AcquireRefusal>>),
    /// To `Release`.
    Released(Result<Released, ReleaseRefusal>),
    /// To `Break`.
    Broken(Result<Broken, BreakRefusal>),
    /// To `Query::Check`.
    Current(bool),
    /// To `Query::List`.
    Page(Page),
    /// To `Query::Snapshot`.
    Snapshot(LiveSnapshot),
    /// To `Query::Queue`.
    Queue(QueueView),
    /// To `Query::Counts`.
    Counts(Counts),
}

/// A live session.
#[derive(Clone, Debug)]
pub struct SessionView {
    /// Its public id.
    pub session: SessionId,
    /// What the holder calls itself.
    pub holder: Holder,
    /// How long it lives without a heartbeat.
    pub ttl: Ttl,
    /// Milliseconds until it ends unless a heartbeat comes.
    pub remaining_ms: u64,
    /// Its live leases.
    pub leases: Vec<ConfirmedLease>,
}

/// A heartbeat that was accepted: exactly what is named here was renewed.
#[derive(Clone, Debug)]
pub struct Heartbeat {
    /// The version of the claimed set.
    pub version: Version,
    /// The claimed leases; `None` when the heartbeat named the version and every one of them ends with the session.
    pub leases: Option<Vec<ConfirmedLease>>,
    /// Live leases of the session that it has not claimed: answers that may have been lost.
    pub unclaimed: Vec<ConfirmedLease>,
    /// Leases that were named and not renewed, with how they ended.
    pub ended: Vec<EndedLease>,
    /// Milliseconds until the session ends unless another heartbeat comes.
    pub remaining_ms: u64,
}

/// A live lease, and until when it lives unless it is renewed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfirmedLease {
    /// The lease.
    pub lease: LeaseId,
    /// Its domain.
    pub domain: Domain,
    /// Its token, under contract `safety` only.
    pub token: Option<Token>,
    /// Milliseconds until its end.
    pub remaining_ms: u64,
}

/// A lease that was named in a heartbeat and is not live.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EndedLease {
    /// The lease.
    pub lease: LeaseId,
    /// How it ended; `None` where that is no longer remembered, or the session never had it.
    pub end: Option<LeaseEnd>,
}

/// How a lease ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LeaseEnd {
    /// By its holder: its last hold was released, or its session was ended cleanly.
    Released,
    /// By time: it was not renewed, or it reached its greatest holding time.
    Expired,
    /// By an operator.
    Revoked,
    /// By a recovery of the coordinator.
    Recovered,
}

impl LeaseEnd {
    /// The name in JSON, metrics and logs.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Released => "released",
            Self::Expired => "expired",
            Self::Revoked => "revoked",
            Self::Recovered => "recovered",
        }
    }
}

/// How a session ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SessionEnd {
    /// By its holder.
    Ended,
    /// By time: no heartbeat came for one TTL.
    Expired,
    /// By a recovery of the coordinator.
    Recovered,
}

impl SessionEnd {
    /// The name in JSON, metrics and logs.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Ended => "ended",
            Self::Expired => "expired",
            Self::Recovered => "recovered",
        }
    }
}

/// An acquire that was granted.
#[derive(Clone, Debug)]
pub struct Acquired {
    /// The lease.
    pub lease: LeaseId,
    /// Its domain.
    pub domain: Domain,
    /// What is handed out under its contract.
    pub permission: Permission,
    /// The session that holds it.
    pub session: SessionId,
    /// The session's TTL.
    pub ttl: Ttl,
    /// Milliseconds until the lease ends unless it is renewed.
    pub remaining_ms: u64,
    /// Whether this answer repeats an earlier one.
    pub again: bool,
    /// Whether the fresh secret of the call became the session's.
    pub secret_taken: bool,
}

/// A release that was done, now or before.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Released {
    /// How the lease ended; `None` while other holds keep it.
    pub ended: Option<LeaseEnd>,
    /// How many holds the lease has left.
    pub holds_left: u32,
}

/// A lease that was broken, now or before.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Broken {
    /// The domain it was on.
    pub domain: Domain,
    /// The token to raise the domain's fence to, under contract `safety` only. Greater than the lease's, and never
    /// granted to anybody.
    pub fence_to: Option<Token>,
    /// Whether it had been broken before.
    pub already: bool,
}

/// Rows of a list.
#[derive(Clone, Debug)]
pub struct Page {
    /// The rows, in byte order of their domains.
    pub rows: Vec<LeaseView>,
    /// Where the next page starts, when there is one.
    pub next: Option<Domain>,
}

/// A live lease, for people.
#[derive(Clone, Debug)]
pub struct LeaseView {
    /// The lease.
    pub lease: LeaseId,
    /// Its domain.
    pub domain: Domain,
    /// Its contract.
    pub contract: Contract,
    /// Its token, under contract `safety` only.
    pub token: Option<Token>,
    /// The session that holds it.
    pub session: SessionId,
    /// What the holder calls itself.
    pub holder: Holder,
    /// Milliseconds since the grant.
    pub held_ms: u64,
    /// Milliseconds until its end unless it is renewed.
    pub remaining_ms: u64,
    /// How many holds it has.
    pub holds: u32,
    /// How many requests wait for the domain.
    pub queue: u32,
    /// What its holder wants to be shown.
    pub metadata: Metadata,
}

/// Who waits for a domain, for people.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QueueView {
    /// The domain.
    pub domain: Domain,
    /// Why nobody may have it yet, and for how many milliseconds more, where it is free and reserved.
    pub reserved: Option<(ReservedKind, u64)>,
    /// The first in line, in their order.
    pub waiters: Vec<WaiterView>,
    /// How many places there are, those that are not among the rows included.
    pub waiting: u32,
    /// How many of them have a connection. The others are kept for one time to live and passed over meanwhile.
    pub connected: u32,
}

/// A place in a queue, for people.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WaiterView {
    /// What the waiting process calls itself.
    pub holder: Holder,
    /// Its session, where it has one already.
    pub session: Option<SessionId>,
    /// Milliseconds since it came.
    pub waited_ms: u64,
    /// Milliseconds until it gives up; without a connection, until its place is given away.
    pub remaining_ms: u64,
    /// Whether somebody is there to take the grant. A place without a connection is passed over.
    pub connected: bool,
}

/// One consistent read of what is granted, which excludes grants in flight.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LiveSnapshot {
    /// The coordinator, as receivers know it.
    pub issuer: Issuer,
    /// No token at or above this one has been granted. `None` at the very end of the token space.
    pub next_token: Option<Token>,
    /// The coordinator's epoch.
    pub epoch: Epoch,
    /// The boot under which the coordinator runs.
    pub boot: BootId,
    /// Every live lease of contract `safety`, in byte order of domains.
    pub leases: Vec<crate::fence::LiveLease>,
}

/// How much the machine holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Live sessions.
    pub sessions: usize,
    /// Live leases.
    pub leases: usize,
    /// Requests that wait on an open connection.
    pub waiting: usize,
}

/// The caller is not who it says, or its session is gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SessionRefusal {
    /// The call carried no secret, or one that nobody has.
    #[error("the call carries no secret, or one that is not known")]
    Unauthenticated,
    /// The secret belongs to another session.
    #[error("the secret belongs to another session")]
    NotYours,
    /// There never was such a session, or it is long forgotten.
    #[error("there is no such session")]
    UnknownSession,
    /// The session has ended; open a new one.
    #[error("the session has ended ({})", .0.as_str())]
    SessionEnded(SessionEnd),
}

/// Why a heartbeat renewed nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HeartbeatRefusal {
    /// The caller's session does not allow it.
    #[error(transparent)]
    Session(#[from] SessionRefusal),
    /// The version is not the current one: send the list of held leases.
    #[error("the version is not the current one; name the held leases instead")]
    VersionUnknown,
}

/// Why an acquire granted nothing.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AcquireRefusal {
    /// The caller's session does not allow it.
    #[error(transparent)]
    Session(#[from] SessionRefusal),
    /// Another session holds the domain.
    #[error("the domain is held by {}", .0.holder)]
    Held(Box<HeldBy>),
    /// Nobody holds the domain, and it is not granted yet.
    #[error("the domain is reserved ({})", .0.kind.as_str())]
    Reserved(Reserved),
    /// The hold of this request id has ended; use a fresh id.
    #[error("the hold of this request id has ended; a new acquire needs a fresh id")]
    HoldEnded,
    /// The request id came before with other parameters.
    #[error("the request id was used with other parameters")]
    RequestConflict,
    /// The session holds the domain under another contract or other limits.
    #[error("the session holds the domain under another contract or other limits")]
    LeaseMismatch,
    /// The lease has as many holds as it may have.
    #[error("the lease has all the {limit} holds it may have")]
    ReentrancyLimit {
        /// How many it may have.
        limit: u32,
    },
    /// A newer connection has taken over this request's place in the queue.
    #[error("a newer connection has taken over this request")]
    Superseded,
    /// A limit of the coordinator is reached.
    #[error(transparent)]
    LimitReached(#[from] LimitReached),
    /// Every token of the epoch has been issued.
    #[error("every token of the epoch has been issued; only a new store with a greater epoch has more")]
    TokenSpaceExhausted,
}

/// A limit of the coordinator is reached. Nothing has changed; the same call may succeed later.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the limit {limit} is reached")]
pub struct LimitReached {
    /// Its name, such as `session_leases`.
    pub limit: &'static str,
}

/// Who holds a domain that was asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HeldBy {
    /// What the holder calls itself.
    pub holder: Holder,
    /// The lease, for the command that breaks it.
    pub lease: LeaseId,
    /// Its token, under contract `safety` only.
    pub token: Option<Token>,
    /// Milliseconds since the grant.
    pub held_ms: u64,
    /// Milliseconds until its end unless it is renewed.
    pub remaining_ms: u64,
    /// How many requests wait.
    pub queue: u32,
    /// How long this request has waited, in milliseconds.
    pub waited_ms: u64,
}

/// Why a domain that nobody holds is not granted yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reserved {
    /// The rule.
    pub kind: ReservedKind,
    /// For how many milliseconds more.
    pub remaining_ms: u64,
    /// How many requests wait.
    pub queue: u32,
    /// How long this request has waited, in milliseconds.
    pub waited_ms: u64,
}

/// The rule that reserves a domain.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ReservedKind {
    /// Its last lease asked for a least holding time.
    MinHold,
    /// Its last lease ended uncleanly and asked for a delay.
    LockDelay,
}

impl ReservedKind {
    /// The name in JSON, metrics and logs.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::MinHold => "min_hold",
            Self::LockDelay => "lock_delay",
        }
    }
}

/// Why a release changed nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReleaseRefusal {
    /// The caller's session does not allow it.
    #[error(transparent)]
    Session(#[from] SessionRefusal),
    /// The lease is another session's.
    #[error("the lease belongs to another session")]
    NotYours,
    /// There never was such a lease, or it is long forgotten.
    #[error("there is no such lease")]
    UnknownLease,
    /// The session never held the lease under this request id.
    #[error("the session never held the lease under this request id")]
    NeverHeld,
}

/// Why a break changed nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BreakRefusal {
    /// There never was such a lease, or it is long forgotten.
    #[error("there is no such lease")]
    UnknownLease,
    /// The lease has ended otherwise; nothing was burned.
    #[error("the lease has ended ({})", .0.as_str())]
    LeaseEnded(LeaseEnd),
    /// Every token of the epoch has been issued.
    #[error("every token of the epoch has been issued; only a new store with a greater epoch has more")]
    TokenSpaceExhausted,
}

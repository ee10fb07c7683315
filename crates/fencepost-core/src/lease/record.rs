use serde::{Deserialize, Serialize};

use crate::{
    BootId, Contract, Domain, Holder, LeaseId, Metadata, Moment, Reason, RequestId, SecretHash, Sequence, SessionId,
    Token, Ttl,
};

use super::{LeaseEnd, SessionEnd, Terms, command::RequestDigest};

/// One durable fact. The state after a crash is the last snapshot with the records after it applied in order.
///
/// The encoding is positional (postcard): variants and fields are only ever added at the end.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum Record {
    /// The coordinator started: sessions get their grace, and numbers below `next` are never issued again.
    Started {
        /// The start number, greater at every start.
        number: u64,
        /// The boot it runs under.
        boot: BootId,
        /// The moment of the start.
        at: Moment,
        /// The first number it may issue; `None` when the epoch has none left.
        next: Option<Sequence>,
    },
    /// Numbers up to `through` may be issued from now on; after a crash, none of them is.
    SequenceReserved {
        /// The last number of the block.
        through: Sequence,
    },
    /// A session was opened.
    SessionOpened {
        /// Its public id.
        session: SessionId,
        /// The digest of its secret.
        secret: SecretHash,
        /// What the holder calls itself.
        holder: Holder,
        /// How long it lives without a heartbeat.
        ttl: Ttl,
        /// The acquire that opened it.
        opened_by: Option<RequestId>,
        /// When.
        at: Moment,
    },
    /// The answer that carried the secret was lost: a retry got a new one.
    SecretReplaced {
        /// The session.
        session: SessionId,
        /// The digest of the new secret.
        secret: SecretHash,
    },
    /// The session's first authenticated call: its secret is settled.
    SessionClaimed {
        /// The session.
        session: SessionId,
    },
    /// The session's first heartbeat after a start: the grace of the start is over for what it named.
    SessionHeard {
        /// The session.
        session: SessionId,
        /// The leases it named.
        leases: Vec<LeaseId>,
    },
    /// A session ended, and every lease it still had with it.
    SessionEnded {
        /// The session.
        session: SessionId,
        /// How.
        end: SessionEnd,
        /// When.
        at: Moment,
    },
    /// A domain was granted.
    Granted {
        /// The lease.
        lease: LeaseId,
        /// The session that holds it.
        session: SessionId,
        /// The domain.
        domain: Domain,
        /// The token.
        token: Token,
        /// The contract.
        contract: Contract,
        /// The limits.
        terms: Terms,
        /// What to show beside it.
        metadata: Metadata,
        /// The first hold.
        hold: Hold,
        /// When.
        at: Moment,
    },
    /// The lease's holder asked for a greater token: earlier holds ended, this one began.
    Regranted {
        /// The lease.
        lease: LeaseId,
        /// The new token.
        token: Token,
        /// The only hold now.
        hold: Hold,
        /// When.
        at: Moment,
    },
    /// A reentrant acquire.
    HoldAdded {
        /// The lease.
        lease: LeaseId,
        /// The hold.
        hold: Hold,
    },
    /// A hold was released and others keep the lease.
    HoldEnded {
        /// The lease.
        lease: LeaseId,
        /// The hold's request id.
        request: RequestId,
        /// When.
        at: Moment,
    },
    /// A lease ended, with all its holds.
    LeaseEnded {
        /// The lease.
        lease: LeaseId,
        /// How.
        end: LeaseEnd,
        /// When.
        at: Moment,
    },
    /// A lease was broken: it ended, and a token was burned to fence it with.
    LeaseBroken {
        /// The lease.
        lease: LeaseId,
        /// The token that was burned.
        fence_to: Token,
        /// Why.
        reason: Reason,
        /// When.
        at: Moment,
    },
}

/// One acquire within a lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hold {
    /// Its request id.
    pub(super) request: RequestId,
    /// What a retry must repeat.
    pub(super) digest: RequestDigest,
}

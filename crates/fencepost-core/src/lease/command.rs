use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::{
    Contract, Domain, Holder, LeaseId, LockDelay, MaxHold, Metadata, MinHold, Reason, RequestId, SecretHash, SessionId,
    Token, Ttl, Wait,
};

/// Names one call to the machine, so that its answer finds its way back. The driver numbers its calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ticket(pub u64);

/// One call to the coordinator. Each is answered exactly once, under its ticket.
#[derive(Clone, Debug)]
pub enum Command {
    /// Opens a session without acquiring anything.
    OpenSession {
        /// A fresh id, drawn by the driver.
        session: SessionId,
        /// The digest of a fresh secret, drawn by the driver.
        secret: SecretHash,
        /// What the holder calls itself.
        holder: Holder,
        /// How long the session lives without a heartbeat.
        ttl: Ttl,
    },
    /// Renews the session and exactly the leases it names.
    Heartbeat {
        /// Who calls.
        caller: Credential,
        /// What the process holds.
        claim: Claim,
    },
    /// Reads a session and its leases; renews nothing.
    ReadSession {
        /// Who calls.
        caller: Credential,
    },
    /// Ends a session and all its leases, cleanly. Safe to repeat.
    EndSession {
        /// Who calls.
        caller: Credential,
    },
    /// Acquires a domain.
    Acquire(Box<Acquire>),
    /// Ends one hold, and its lease with the last one. Safe to repeat.
    Release {
        /// The digest of the secret that came with the call.
        secret: Option<SecretHash>,
        /// The lease.
        lease: LeaseId,
        /// The request id of the acquire whose hold ends.
        request: RequestId,
    },
    /// Ends a lease against its holder's will and burns a token to fence it with. Safe to repeat.
    Break {
        /// The lease: an id and not a domain, so that it can never hit the successor.
        lease: LeaseId,
        /// Why.
        reason: Reason,
    },
    /// Reads without changing anything.
    Query(Query),
}

/// The public id of a session with the proof that the caller owns it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Credential {
    /// The session.
    pub session: SessionId,
    /// The digest of the secret that came with the call.
    pub secret: Option<SecretHash>,
}

/// What a heartbeat says its process holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Claim {
    /// These leases and no others.
    Held(Vec<LeaseId>),
    /// The same as when the coordinator answered with this version.
    Unchanged(Version),
}

/// The version of the set of leases that a session has claimed. It changes whenever the set does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Version(pub u64);

/// An acquire.
#[derive(Clone, Debug)]
pub struct Acquire {
    /// On whose behalf.
    pub caller: Caller,
    /// The domain.
    pub domain: Domain,
    /// Names the hold; 128 random bits made by the client, the same on every retry.
    pub request: RequestId,
    /// What the lease is for.
    pub contract: Contract,
    /// Limits of the lease.
    pub terms: Terms,
    /// What to show beside the lease.
    pub metadata: Metadata,
    /// Where the session holds the domain already: force a greater token and end the lease's earlier holds.
    pub renew: bool,
    /// How long to stand in the queue.
    pub wait: Wait,
    /// Fresh ids, used where the acquire makes something new.
    pub fresh: Fresh,
}

/// On whose behalf an acquire is made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Caller {
    /// An open session.
    Session(Credential),
    /// A session that the grant opens.
    Opening {
        /// What the holder calls itself.
        holder: Holder,
        /// How long the session lives without a heartbeat.
        ttl: Ttl,
    },
}

/// The limits of a lease. A reentrant acquire must name the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Terms {
    /// The lease ends this long after the grant.
    pub max_hold: Option<MaxHold>,
    /// The domain is not granted again before this long after the grant.
    pub min_hold: Option<MinHold>,
    /// The domain is not granted again before this long after an unclean end.
    pub lock_delay: Option<LockDelay>,
    /// How many holds the lease may have.
    pub reentrancy_limit: u32,
}

impl Default for Terms {
    fn default() -> Self {
        Self { max_hold: None, min_hold: None, lock_delay: None, reentrancy_limit: 1 }
    }
}

/// Fresh ids for one acquire, drawn by the driver. Unused ones are thrown away.
#[derive(Clone, Copy, Debug)]
pub struct Fresh {
    /// For a new lease.
    pub lease: LeaseId,
    /// For a session that the grant opens.
    pub session: SessionId,
    /// The digest of a new secret.
    pub secret: SecretHash,
}

/// A read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Query {
    /// Whether a token is the current one of a domain. A hint, never authority.
    Check {
        /// The domain.
        domain: Domain,
        /// The token.
        token: Token,
    },
    /// A page of live leases in byte order of their domains.
    List {
        /// Which.
        filter: Filter,
        /// Only domains after this one.
        after: Option<Domain>,
        /// At most this many rows.
        limit: usize,
    },
    /// The next token and every live lease of contract `safety`, in one consistent read.
    Snapshot {
        /// Only domains that start with this.
        prefix: String,
    },
    /// Who waits for a domain, the first in line first.
    Queue {
        /// The domain.
        domain: Domain,
        /// At most this many rows.
        limit: usize,
    },
    /// Counts, for metrics.
    Counts,
}

/// Which leases a list shows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Filter {
    /// The lease on this domain.
    Domain(Domain),
    /// Leases on domains that start with this; the empty prefix means all.
    Prefix(String),
}

/// A digest of everything in an acquire that a retry must repeat: all but `wait`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct RequestDigest([u8; 16]);

impl Acquire {
    /// What a retry under the same request id must repeat.
    pub(super) fn digest(&self) -> RequestDigest {
        // One pass over one buffer: this is done for every acquire.
        let mut text = Vec::with_capacity(256);
        let mut field = |bytes: &[u8]| {
            text.extend_from_slice(&(bytes.len() as u64).to_be_bytes());
            text.extend_from_slice(bytes);
        };
        match &self.caller {
            Caller::Session(credential) => field(credential.session.as_bytes()),
            Caller::Opening { holder, ttl } => {
                field(holder.as_str().as_bytes());
                field(&ttl.as_millis().to_be_bytes());
            }
        }
        field(self.domain.as_str().as_bytes());
        field(self.contract.as_str().as_bytes());
        let Terms { max_hold, min_hold, lock_delay, reentrancy_limit } = self.terms;
        for limit in [max_hold.map(u64::from), min_hold.map(u64::from), lock_delay.map(u64::from)] {
            field(&limit.map_or([0xff; 8], u64::to_be_bytes));
        }
        field(&reentrancy_limit.to_be_bytes());
        field(&[u8::from(self.renew)]);
        for (name, value) in self.metadata.entries() {
            field(name.as_bytes());
            field(value.as_bytes());
        }
        let mut short = [0; 16];
        short.copy_from_slice(&Sha256::digest(&text)[..16]);
        RequestDigest(short)
    }
}

use serde::{Deserialize, Serialize};

use fencepost_core::{
    Contract, Domain, Epoch, Holder, LeaseId, OperationId, Reason, Token,
    fence::Rejection,
    lease::{Event, EventKind, LeaseEnd},
};

/// The data of one server-sent event of `GET /v1/events`; its name goes into the `event` line.
///
/// Hints, never authority: events can be missed, and a reader that must know reads the list.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum EventData {
    /// `rejected`: a receiver refused a write. The check was at work.
    Rejected(RejectedData),
    /// `granted`, `released`, `expired`, `revoked` or `recovered`.
    Lease(LeaseData),
    /// `epoch`: the coordinator's epoch, told at the start of every stream.
    Epoch {
        /// The epoch.
        epoch: Epoch,
    },
    /// `gap`: events are missing here.
    Gap {
        /// How many, where that is known.
        missed: Option<u64>,
    },
}

/// What happened to a lease.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LeaseData {
    /// The domain.
    pub domain: Domain,
    /// The lease.
    pub lease: LeaseId,
    /// Its contract.
    pub contract: Contract,
    /// Its token, under contract `safety` only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub token: Option<Token>,
    /// What the holder calls itself.
    pub holder: Holder,
    /// Milliseconds between arrival and grant, of a grant.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waited_ms: Option<u64>,
    /// Milliseconds between grant and end, of an end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub held_ms: Option<u64>,
    /// The token to raise the fence to, where the lease was revoked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fence_to: Option<Token>,
    /// The operator's reason, where the lease was revoked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<Reason>,
}

/// A write that a receiver refused.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RejectedData {
    /// The domain that was written to.
    pub domain: Domain,
    /// The name of the rejection.
    pub rejected: String,
    /// The token presented, where one was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub presented: Option<Token>,
    /// The least token that would have been accepted, where the token was stale.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub least_accepted: Option<Token>,
    /// The lease that the grant named.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lease: Option<LeaseId>,
    /// The operation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub operation: Option<OperationId>,
}

impl RejectedData {
    /// The rejection of a write to `domain`.
    #[must_use]
    pub fn new(domain: Domain, rejection: &Rejection, lease: Option<LeaseId>, operation: Option<OperationId>) -> Self {
        let presented = rejection.presented();
        let least_accepted = rejection.stale().map(|stale| stale.least_accepted);
        Self { domain, rejected: rejection.code().to_owned(), presented, least_accepted, lease, operation }
    }
}

/// The name and the data of a coordinator's event.
#[must_use]
pub fn event_data(event: &Event) -> (&'static str, EventData) {
    let mut data = LeaseData {
        domain: event.domain.clone(),
        lease: event.lease,
        contract: event.contract,
        token: event.token,
        holder: event.holder.clone(),
        waited_ms: None,
        held_ms: None,
        fence_to: None,
        reason: None,
    };
    let name = match &event.kind {
        EventKind::Granted { waited_ms } => {
            data.waited_ms = Some(*waited_ms);
            "granted"
        }
        EventKind::Ended { end, fence_to, reason, held_ms } => {
            data.held_ms = Some(*held_ms);
            data.fence_to = *fence_to;
            data.reason = reason.clone();
            match end {
                LeaseEnd::Released => "released",
                LeaseEnd::Expired => "expired",
                LeaseEnd::Revoked => "revoked",
                LeaseEnd::Recovered => "recovered",
            }
        }
    };
    (name, EventData::Lease(data))
}

use std::time::Duration;

use serde::{Deserialize, Serialize};

use fencepost_coordinator::{Answered, Opened};
use fencepost_core::{
    BootId, Domain, Holder, Invalid, LeaseId, Rule, SessionId, Token, Ttl,
    lease::{Claim, ConfirmedLease, EndedLease, Heartbeat, LeaseEnd, SessionView, Version},
    limits,
};

use crate::{SentSecret, millis};

/// Body of `POST /v1/sessions`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OpenSessionBody {
    /// What the holder calls itself.
    pub holder: String,
    /// How long the session lives without a heartbeat.
    pub ttl_ms: u64,
}

impl OpenSessionBody {
    /// What to send.
    #[must_use]
    pub fn new(holder: &Holder, ttl: Ttl) -> Self {
        Self { holder: holder.as_str().to_owned(), ttl_ms: ttl.as_millis() }
    }

    /// What was asked for.
    ///
    /// # Errors
    /// Names the field, the rule and the limit.
    pub fn parse(self) -> Result<(Holder, Ttl), Invalid> {
        Ok((Holder::new(&self.holder)?, Ttl::from_millis(self.ttl_ms)?))
    }
}

/// Answer to `POST /v1/sessions`, with 201.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SessionOpenedAnswer {
    /// The public id.
    pub session: SessionId,
    /// The secret, told this once.
    pub secret: SentSecret,
    /// What the holder calls itself.
    pub holder: Holder,
    /// How long the session lives without a heartbeat.
    pub ttl_ms: Ttl,
    /// Milliseconds until it ends unless a heartbeat comes.
    pub remaining_ms: u64,
    /// Milliseconds from receiving the request to making the answer.
    pub elapsed_ms: u64,
    /// The boot under which the coordinator runs.
    pub boot: BootId,
}

impl From<&Answered<Opened>> for SessionOpenedAnswer {
    fn from(answered: &Answered<Opened>) -> Self {
        let Opened { session, secret } = &answered.answer;
        Self {
            session: session.session,
            secret: secret.clone().into(),
            holder: session.holder.clone(),
            ttl_ms: session.ttl,
            remaining_ms: session.remaining_ms,
            elapsed_ms: millis(answered.elapsed),
            boot: answered.boot,
        }
    }
}

impl From<SessionOpenedAnswer> for Answered<Opened> {
    fn from(answer: SessionOpenedAnswer) -> Self {
        Self {
            answer: Opened {
                session: SessionView {
                    session: answer.session,
                    holder: answer.holder,
                    ttl: answer.ttl_ms,
                    remaining_ms: answer.remaining_ms,
                    leases: Vec::new(),
                },
                secret: answer.secret.into(),
            },
            elapsed: Duration::from_millis(answer.elapsed_ms),
            boot: answer.boot,
        }
    }
}

/// Answer to `GET /v1/sessions/{session}`. Reading renews nothing.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SessionAnswer {
    /// The public id.
    pub session: SessionId,
    /// What the holder calls itself.
    pub holder: Holder,
    /// How long the session lives without a heartbeat.
    pub ttl_ms: Ttl,
    /// Milliseconds until it ends unless a heartbeat comes.
    pub remaining_ms: u64,
    /// Its live leases.
    pub leases: Vec<LeaseRow>,
    /// Milliseconds from receiving the request to making the answer.
    pub elapsed_ms: u64,
    /// The boot under which the coordinator runs.
    pub boot: BootId,
}

impl From<Answered<SessionView>> for SessionAnswer {
    fn from(answered: Answered<SessionView>) -> Self {
        let SessionView { session, holder, ttl, remaining_ms, leases } = answered.answer;
        Self {
            session,
            holder,
            ttl_ms: ttl,
            remaining_ms,
            leases: rows(leases),
            elapsed_ms: millis(answered.elapsed),
            boot: answered.boot,
        }
    }
}

impl From<SessionAnswer> for Answered<SessionView> {
    fn from(answer: SessionAnswer) -> Self {
        Self {
            answer: SessionView {
                session: answer.session,
                holder: answer.holder,
                ttl: answer.ttl_ms,
                remaining_ms: answer.remaining_ms,
                leases: confirmed(answer.leases),
            },
            elapsed: Duration::from_millis(answer.elapsed_ms),
            boot: answer.boot,
        }
    }
}

/// A live lease, and until when it lives unless it is renewed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LeaseRow {
    /// The lease.
    pub lease: LeaseId,
    /// Its domain.
    pub domain: Domain,
    /// Its token, under contract `safety` only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub token: Option<Token>,
    /// Milliseconds until its end.
    pub remaining_ms: u64,
}

fn rows(leases: Vec<ConfirmedLease>) -> Vec<LeaseRow> {
    let row = |ConfirmedLease { lease, domain, token, remaining_ms }| LeaseRow { lease, domain, token, remaining_ms };
    leases.into_iter().map(row).collect()
}

fn confirmed(rows: Vec<LeaseRow>) -> Vec<ConfirmedLease> {
    let lease = |LeaseRow { lease, domain, token, remaining_ms }| ConfirmedLease { lease, domain, token, remaining_ms };
    rows.into_iter().map(lease).collect()
}

/// Body of `POST /v1/sessions/{session}/heartbeat`: either every held lease, or the version of an earlier answer.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HeartbeatBody {
    /// What the process holds: these leases and no others.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub held: Option<Vec<LeaseId>>,
    /// The same as when the coordinator answered with this version.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<u64>,
}

impl From<Claim> for HeartbeatBody {
    fn from(claim: Claim) -> Self {
        match claim {
            Claim::Held(held) => Self { held: Some(held), version: None },
            Claim::Unchanged(Version(version)) => Self { held: None, version: Some(version) },
        }
    }
}

impl HeartbeatBody {
    /// What was claimed.
    ///
    /// # Errors
    /// When both or neither of the two are there, or more leases are named than a session can have.
    pub fn parse(self) -> Result<Claim, Invalid> {
        match (self.held, self.version) {
            (Some(held), None) if held.len() > limits::HEARTBEAT_LEASES => {
                let (most, found) = (limits::HEARTBEAT_LEASES as u64, Some(held.len() as u64));
                Err(Invalid::new("held", Rule::Range { least: 0, most, found, unit: "leases" }))
            }
            (Some(held), None) => Ok(Claim::Held(held)),
            (None, Some(version)) => Ok(Claim::Unchanged(Version(version))),
            (None, None) | (Some(_), Some(_)) => {
                Err(Invalid::form("held", "given, or else version: exactly one of them"))
            }
        }
    }
}

/// Answer to a heartbeat: exactly what is named here was renewed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HeartbeatAnswer {
    /// The version of the claimed set, to send with the next heartbeat as long as nothing changes.
    pub version: u64,
    /// The claimed leases; absent when the heartbeat named the version and all of them end with the session.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub leases: Option<Vec<LeaseRow>>,
    /// Live leases of the session that it has not claimed.
    #[serde(default)]
    pub unclaimed: Vec<LeaseRow>,
    /// Leases that were named and not renewed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ended: Vec<EndedRow>,
    /// Milliseconds until the session ends unless another heartbeat comes.
    pub remaining_ms: u64,
    /// Milliseconds from receiving the request to making the answer.
    pub elapsed_ms: u64,
    /// The boot under which the coordinator runs.
    pub boot: BootId,
}

/// A lease that a heartbeat named and did not renew.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct EndedRow {
    /// The lease.
    pub lease: LeaseId,
    /// How it ended; `null` where that is no longer remembered, or the session never had it.
    pub reason: Option<LeaseEnd>,
}

impl From<Answered<Heartbeat>> for HeartbeatAnswer {
    fn from(answered: Answered<Heartbeat>) -> Self {
        let Heartbeat { version, leases, unclaimed, ended, remaining_ms } = answered.answer;
        Self {
            version: version.0,
            leases: leases.map(rows),
            unclaimed: rows(unclaimed),
            ended: ended.into_iter().map(|EndedLease { lease, end }| EndedRow { lease, reason: end }).collect(),
            remaining_ms,
            elapsed_ms: millis(answered.elapsed),
            boot: answered.boot,
        }
    }
}

impl From<HeartbeatAnswer> for Answered<Heartbeat> {
    fn from(answer: HeartbeatAnswer) -> Self {
        let ended = |EndedRow { lease, reason }| EndedLease { lease, end: reason };
        Self {
            answer: Heartbeat {
                version: Version(answer.version),
                leases: answer.leases.map(confirmed),
                unclaimed: confirmed(answer.unclaimed),
                ended: answer.ended.into_iter().map(ended).collect(),
                remaining_ms: answer.remaining_ms,
            },
            elapsed: Duration::from_millis(answer.elapsed_ms),
            boot: answer.boot,
        }
    }
}

use serde::{Deserialize, Serialize};

use fencepost_core::{
    Holder, Invalid, LeaseId, Token,
    lease::{LeaseEnd, ReservedKind, SessionEnd},
};

use crate::{ErrorCode, Malformed, decode};

/// The body of every error: `application/problem+json`.
///
/// `code` is for programs, `detail` and `fix` are for people. Members that do not apply are left out.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Problem {
    /// The path of the page about this code on the same server.
    #[serde(rename = "type")]
    pub page: String,
    /// One line for people, the same for every problem of this code.
    pub title: String,
    /// The HTTP status.
    pub status: u16,
    /// What is wrong in this case.
    pub detail: String,
    /// The stable name.
    pub code: ErrorCode,
    /// Whether the same call may succeed when it is made again, unchanged.
    pub retryable: bool,
    /// Whether the call may have taken effect all the same.
    pub may_have_happened: bool,
    /// What to do next.
    pub fix: String,
    /// When a retry makes sense, in milliseconds from now.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_after_ms: Option<u64>,
    /// The field that breaks a rule.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub field: Option<String>,
    /// How the session or the lease ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<EndReason>,
    /// The name of the limit that is reached.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<String>,
    /// How many holds the lease may have.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reentrancy_limit: Option<u32>,
    /// Who holds the domain.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub holder: Option<Holder>,
    /// The lease that holds the domain.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lease: Option<LeaseId>,
    /// Its token, under contract `safety` only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub token: Option<Token>,
    /// Milliseconds since its grant.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub held_ms: Option<u64>,
    /// Milliseconds until its end unless it is renewed, or until the reservation ends.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub remaining_ms: Option<u64>,
    /// How many requests wait for the domain.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queue: Option<u32>,
    /// How long this request has waited.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waited_ms: Option<u64>,
    /// Why a domain that nobody holds is not granted yet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reserved: Option<ReservedKind>,
}

/// How a session or a lease ended, in the words of the call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EndReason {
    /// The session was ended by its holder.
    Ended,
    /// The lease was released.
    Released,
    /// By time.
    Expired,
    /// By an operator.
    Revoked,
    /// By a recovery of the coordinator.
    Recovered,
}

impl From<SessionEnd> for EndReason {
    fn from(end: SessionEnd) -> Self {
        match end {
            SessionEnd::Ended => Self::Ended,
            SessionEnd::Expired => Self::Expired,
            SessionEnd::Recovered => Self::Recovered,
        }
    }
}

impl From<LeaseEnd> for EndReason {
    fn from(end: LeaseEnd) -> Self {
        match end {
            LeaseEnd::Released => Self::Released,
            LeaseEnd::Expired => Self::Expired,
            LeaseEnd::Revoked => Self::Revoked,
            LeaseEnd::Recovered => Self::Recovered,
        }
    }
}

impl EndReason {
    pub(crate) fn of_session(self) -> Option<SessionEnd> {
        match self {
            Self::Ended => Some(SessionEnd::Ended),
            Self::Expired => Some(SessionEnd::Expired),
            Self::Recovered => Some(SessionEnd::Recovered),
            Self::Released | Self::Revoked => None,
        }
    }

    pub(crate) fn of_lease(self) -> Option<LeaseEnd> {
        match self {
            Self::Released => Some(LeaseEnd::Released),
            Self::Expired => Some(LeaseEnd::Expired),
            Self::Revoked => Some(LeaseEnd::Revoked),
            Self::Recovered => Some(LeaseEnd::Recovered),
            Self::Ended => None,
        }
    }
}

impl Problem {
    /// The content type it is sent with.
    pub const CONTENT_TYPE: &'static str = "application/problem+json";

    /// A problem of this code, with what is wrong in this case.
    #[must_use]
    pub fn new(code: ErrorCode, detail: impl Into<String>) -> Self {
        Self {
            page: code.page(),
            title: code.title().to_owned(),
            status: code.status(),
            detail: detail.into(),
            code,
            retryable: code.is_retryable(),
            may_have_happened: code.may_have_happened(),
            fix: code.fix().to_owned(),
            retry_after_ms: None,
            field: None,
            reason: None,
            limit: None,
            reentrancy_limit: None,
            holder: None,
            lease: None,
            token: None,
            held_ms: None,
            remaining_ms: None,
            queue: None,
            waited_ms: None,
            reserved: None,
        }
    }

    /// Reads the body of an answer with an error status.
    ///
    /// # Errors
    /// When it is not a problem of this API: a proxy's page, or a code that this version does not know. Whether the
    /// call took effect is then unknown.
    pub fn parse(body: &[u8]) -> Result<Self, Malformed> {
        decode(body)
    }

    /// The JSON to send.
    #[must_use]
    pub fn to_json(&self) -> Vec<u8> {
        serde_json::to_vec(self).expect("a struct of strings and numbers is JSON")
    }

    /// The same with another next step.
    #[must_use]
    pub fn fixed_by(self, fix: impl Into<String>) -> Self {
        Self { fix: fix.into(), ..self }
    }

    /// The same with when a retry makes sense.
    #[must_use]
    pub fn after_ms(self, retry_after_ms: u64) -> Self {
        Self { retry_after_ms: Some(retry_after_ms), ..self }
    }

    /// The same, knowing whether the call may have taken effect.
    #[must_use]
    pub fn happened(self, may_have_happened: bool) -> Self {
        Self { may_have_happened, ..self }
    }
}

impl From<Invalid> for Problem {
    fn from(invalid: Invalid) -> Self {
        let problem = Self::new(ErrorCode::InvalidInput, invalid.to_string());
        Self { field: Some(invalid.field().to_owned()), ..problem }
    }
}

impl From<Malformed> for Problem {
    fn from(malformed: Malformed) -> Self {
        let problem = Self::new(ErrorCode::InvalidInput, malformed.to_string());
        let field = malformed.field();
        Self { field: Some(if field.is_empty() { "body" } else { field }.to_owned()), ..problem }
    }
}

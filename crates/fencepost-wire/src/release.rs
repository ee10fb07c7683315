use serde::{Deserialize, Serialize};

use fencepost_core::{
    Domain, Invalid, LeaseId, Reason, RequestId, Token,
    lease::{Broken, LeaseEnd, Released},
};

/// Body of `POST /v1/leases/release`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ReleaseBody {
    /// The lease.
    pub lease: String,
    /// The request id of the acquire whose hold ends.
    pub request_id: String,
}

impl ReleaseBody {
    /// What to send.
    #[must_use]
    pub fn new(lease: LeaseId, request: RequestId) -> Self {
        Self { lease: lease.to_string(), request_id: request.to_string() }
    }

    /// What was asked for.
    ///
    /// # Errors
    /// Names the field and its form.
    pub fn parse(&self) -> Result<(LeaseId, RequestId), Invalid> {
        Ok((self.lease.parse()?, self.request_id.parse()?))
    }
}

/// Answer to `POST /v1/leases/release`; the same on a retry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReleaseAnswer {
    /// How the lease ended; `null` while other holds keep it.
    pub ended: Option<LeaseEnd>,
    /// How many holds it has left.
    pub holds_left: u32,
}

impl From<Released> for ReleaseAnswer {
    fn from(Released { ended, holds_left }: Released) -> Self {
        Self { ended, holds_left }
    }
}

impl From<ReleaseAnswer> for Released {
    fn from(ReleaseAnswer { ended, holds_left }: ReleaseAnswer) -> Self {
        Self { ended, holds_left }
    }
}

/// Body of `POST /v1/leases/break`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BreakBody {
    /// The lease: an id, so that its successor can never be hit.
    pub lease: String,
    /// Why; kept in the log.
    pub reason: String,
}

impl BreakBody {
    /// What to send.
    #[must_use]
    pub fn new(lease: LeaseId, reason: &Reason) -> Self {
        Self { lease: lease.to_string(), reason: reason.as_str().to_owned() }
    }

    /// What was asked for.
    ///
    /// # Errors
    /// Names the field, the rule and the limit.
    pub fn parse(&self) -> Result<(LeaseId, Reason), Invalid> {
        Ok((self.lease.parse()?, Reason::new(&self.reason)?))
    }
}

/// Answer to `POST /v1/leases/break`; a repeated call gets the same token.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BreakAnswer {
    /// The domain that the lease was on.
    pub domain: Domain,
    /// The token to raise the domain's fence to; `null` where the lease was not under contract `safety`.
    pub fence_to: Option<Token>,
    /// Whether it had been broken before.
    pub already: bool,
}

impl From<Broken> for BreakAnswer {
    fn from(Broken { domain, fence_to, already }: Broken) -> Self {
        Self { domain, fence_to, already }
    }
}

impl From<BreakAnswer> for Broken {
    fn from(BreakAnswer { domain, fence_to, already }: BreakAnswer) -> Self {
        Self { domain, fence_to, already }
    }
}

/// Body of `POST /v1/leases/check`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CheckBody {
    /// The domain.
    pub domain: String,
    /// The token as a decimal string.
    pub token: String,
}

impl CheckBody {
    /// What to send.
    #[must_use]
    pub fn new(domain: &Domain, token: Token) -> Self {
        Self { domain: domain.as_str().to_owned(), token: token.to_decimal() }
    }

    /// What was asked for.
    ///
    /// # Errors
    /// Names the field, the rule and the limit. A token is never rounded, trimmed or taken with a sign.
    pub fn parse(&self) -> Result<(Domain, Token), Invalid> {
        Ok((Domain::new(&self.domain)?, Token::from_decimal(&self.token)?))
    }
}

/// Answer to `POST /v1/leases/check`: a hint, never authority.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CheckAnswer {
    /// Whether the token was the current one of the domain.
    pub current: bool,
}

use serde::{Deserialize, Serialize};

use fencepost_core::{Domain, Invalid, LeaseId, OperationId, Token, fence::Rejection};

use crate::RejectedData;

/// Body of `POST /v1/reports/rejected`: a receiver elsewhere has refused a write.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RejectedReport {
    /// The domain that was written to.
    pub domain: String,
    /// The name of the rejection, as verdicts have it.
    pub rejected: String,
    /// The token presented, as a decimal string.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub presented: Option<String>,
    /// The least token that would have been accepted, as a decimal string.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub least_accepted: Option<String>,
    /// The lease that the grant named.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lease: Option<String>,
    /// The operation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub operation: Option<String>,
}

impl RejectedReport {
    /// What to send.
    #[must_use]
    pub fn new(data: &RejectedData) -> Self {
        Self {
            domain: data.domain.as_str().to_owned(),
            rejected: data.rejected.clone(),
            presented: data.presented.map(|token| token.to_decimal()),
            least_accepted: data.least_accepted.map(|token| token.to_decimal()),
            lease: data.lease.map(|lease| lease.to_string()),
            operation: data.operation.as_ref().map(|operation| operation.as_str().to_owned()),
        }
    }

    /// What was reported, and the rejection's name as one of [`Rejection::CODES`].
    ///
    /// # Errors
    /// Names the field, the rule and the limit.
    pub fn parse(self) -> Result<(RejectedData, &'static str), Invalid> {
        let code = Rejection::CODES.into_iter().find(|code| *code == self.rejected);
        let code = code.ok_or_else(|| Invalid::form("rejected", "the name of a rejection, such as stale"))?;
        let token = |field, text: Option<String>| {
            text.map(|text| Token::from_decimal(&text)).transpose().map_err(|invalid| invalid.named(field))
        };
        let data = RejectedData {
            domain: Domain::new(&self.domain)?,
            rejected: self.rejected,
            presented: token("presented", self.presented)?,
            least_accepted: token("least_accepted", self.least_accepted)?,
            lease: self.lease.map(|lease| lease.parse()).transpose()?,
            operation: self.operation.map(|operation| OperationId::new(&operation)).transpose()?,
        };
        Ok((data, code))
    }
}

/// Body of `POST /v1/reports/work-failed`: what was done under a lease has failed, and not because of the lease.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WorkFailedReport {
    /// The domain.
    pub domain: String,
    /// The lease.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lease: Option<String>,
}

impl WorkFailedReport {
    /// What to send.
    #[must_use]
    pub fn new(domain: &Domain, lease: Option<LeaseId>) -> Self {
        Self { domain: domain.as_str().to_owned(), lease: lease.map(|lease| lease.to_string()) }
    }

    /// What was reported.
    ///
    /// # Errors
    /// Names the field, the rule and the limit.
    pub fn parse(&self) -> Result<(Domain, Option<LeaseId>), Invalid> {
        let lease = self.lease.as_ref().map(|lease| lease.parse()).transpose()?;
        Ok((Domain::new(&self.domain)?, lease))
    }
}

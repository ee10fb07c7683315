use serde::{Deserialize, Serialize};

use fencepost_core::{Contract, Domain, Grant, Issuer, LeaseId, SessionId, Token};

use crate::{Malformed, decode};

/// A grant as one line of JSON, as `FENCEPOST_GRANT` carries it until grants are signed.
///
/// It holds no secret: whoever reads it can present the token, which a receiver compares, and cannot use the session.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GrantJson {
    /// The coordinator that issued it.
    pub issuer: Issuer,
    /// What it gives authority over.
    pub domain: Domain,
    /// The number that is compared.
    pub token: Token,
    /// The lease it belongs to.
    pub lease: LeaseId,
    /// The public id of the session that holds the lease.
    pub session: SessionId,
    /// Always `safety`: nothing else has a grant.
    pub contract: Contract,
}

impl GrantJson {
    /// Reads the line.
    ///
    /// # Errors
    /// Names the field that is missing or wrong. A grant of another contract than `safety` is none.
    pub fn parse(json: &str) -> Result<Grant, Malformed> {
        decode::<Self>(json.as_bytes())?.try_into()
    }

    /// The line, without a line end.
    #[must_use]
    pub fn to_line(&self) -> String {
        serde_json::to_string(self).expect("a struct of strings is JSON")
    }
}

impl From<&Grant> for GrantJson {
    fn from(grant: &Grant) -> Self {
        let Grant { issuer, domain, token, lease, session } = grant.clone();
        Self { issuer, domain, token, lease, session, contract: Contract::Safety }
    }
}

impl TryFrom<GrantJson> for Grant {
    type Error = Malformed;

    fn try_from(json: GrantJson) -> Result<Self, Malformed> {
        let GrantJson { issuer, domain, token, lease, session, contract } = json;
        match contract {
            Contract::Safety => Ok(Self { issuer, domain, token, lease, session }),
            Contract::Admission | Contract::Advisory => {
                Err(Malformed::new("contract", "must be safety: no other contract has a grant"))
            }
        }
    }
}

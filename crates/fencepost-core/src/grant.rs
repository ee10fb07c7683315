use std::fmt;

use serde::{Deserialize, Serialize};

use crate::{Contract, Domain, Issuer, LeaseId, SessionId, Token};

/// What an acquire under [`Contract::Safety`] returns and every fenced write presents.
///
/// It carries no end that a receiver must enforce: order decides, clocks do not. It is no secret and proves
/// nothing by itself; a receiver trusts an unsigned grant to name its own domain.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Grant {
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
}

/// What a lease of contract [`Contract::Admission`] hands out to tell its runs apart.
///
/// Deliberately not in token form, so that no receiver can take it for one.
#[derive(Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Correlation(String);

impl Correlation {
    /// The correlation of a lease.
    #[must_use]
    pub fn of(lease: LeaseId) -> Self {
        Self(format!("run-{lease}"))
    }

    /// The text, e.g. `run-00112233445566778899aabbccddeeff`.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Correlation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for Correlation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// What an acquire hands out, by contract. Only one of the three can reach a receiver.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Permission {
    /// A grant with a token.
    Safety(Grant),
    /// A name for this run, nothing to write with.
    Admission(Correlation),
    /// Nothing.
    Advisory,
}

impl Permission {
    /// The contract it was given under.
    #[must_use]
    pub fn contract(&self) -> Contract {
        match self {
            Self::Safety(_) => Contract::Safety,
            Self::Admission(_) => Contract::Admission,
            Self::Advisory => Contract::Advisory,
        }
    }

    /// The grant, where there is one.
    #[must_use]
    pub fn grant(&self) -> Option<&Grant> {
        match self {
            Self::Safety(grant) => Some(grant),
            Self::Admission(_) | Self::Advisory => None,
        }
    }
}

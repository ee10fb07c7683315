use crate::{Contract, Domain, Epoch, Grant, Invalid, Issuer, Token};

use super::{Closure, Fingerprint, Operation, RejectedBy, Rejection};

/// What a caller brings to a write, an advance or a fenced read.
#[derive(Clone, Debug)]
pub struct Presented<'a> {
    /// The issuer that the grant names.
    pub issuer: &'a Issuer,
    /// The domain that the grant names.
    pub domain: &'a Domain,
    /// The contract that the grant names.
    pub contract: Contract,
    /// The token, where one came along.
    pub token: Option<Token>,
    /// What is known about the grant's signature.
    pub proof: Proof,
    /// The operation, where the write names one.
    pub operation: Option<&'a Operation>,
}

impl<'a> Presented<'a> {
    /// An unsigned grant of contract `safety`, without an operation: an advance, a fenced read or a plain write.
    #[must_use]
    pub fn token(issuer: &'a Issuer, domain: &'a Domain, token: Token) -> Self {
        Self { issuer, domain, contract: Contract::Safety, token: Some(token), proof: Proof::Unsigned, operation: None }
    }

    /// An unsigned grant.
    #[must_use]
    pub fn grant(grant: &'a Grant) -> Self {
        Self::token(&grant.issuer, &grant.domain, grant.token)
    }

    /// The same, for one operation.
    #[must_use]
    pub fn with_operation(self, operation: &'a Operation) -> Self {
        Self { operation: Some(operation), ..self }
    }
}

/// What is known about a grant's signature.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Proof {
    /// It has none.
    Unsigned,
    /// It verifies.
    Verified,
    /// It has one that does not verify.
    Wrong,
}

/// Whether a receiver insists on signed grants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SignatureRule {
    /// Unsigned grants are accepted; a wrong signature never is.
    Optional,
    /// Only grants that verify are accepted.
    Required,
}

/// Whether a receiver accepts anything at all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Condition {
    /// It decides by its records.
    Open,
    /// It refuses everything.
    Closed(Closure),
}

/// What the receiver's own records say about one domain, read under the domain's lock.
///
/// `None` for a floor or the horizon means that it was never raised. A record that should be there and is not is
/// [`Condition::Closed`], never `None`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Standing {
    /// Whether anything is accepted.
    pub condition: Condition,
    /// The issuer that the domain belongs to here.
    pub issuer: Issuer,
    /// The domain that is about to be changed.
    pub domain: Domain,
    /// Whether grants must be signed.
    pub signature: SignatureRule,
    /// The greatest epoch accepted.
    pub known_epoch: Epoch,
    /// The least token accepted for any domain.
    pub floor: Option<Token>,
    /// The least token accepted for a domain without a fence.
    pub unfenced_floor: Option<Token>,
    /// The highest token that the domain's fence was raised to.
    pub fence: Option<Token>,
    /// The bound below which operation records may have been collected.
    pub horizon: Option<Token>,
    /// The fingerprint recorded for the presented operation id in this domain.
    pub recorded: Option<Fingerprint>,
}

impl Standing {
    /// A domain that nobody has written to, at an open receiver that takes unsigned grants.
    #[must_use]
    pub fn open(issuer: Issuer, domain: Domain, known_epoch: Epoch) -> Self {
        Self {
            condition: Condition::Open,
            issuer,
            domain,
            signature: SignatureRule::Optional,
            known_epoch,
            floor: None,
            unfenced_floor: None,
            fence: None,
            horizon: None,
            recorded: None,
        }
    }
}

/// What the receiver is to do, all of it in the transaction in which the standing was read.
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use]
pub enum Decision {
    /// Raise the fence to the presented token if `raise`, mutate, record the operation, commit.
    Apply {
        /// Whether the token is greater than the fence.
        raise: bool,
    },
    /// Answer with the recorded result and run nothing; raise the fence first if `raise`.
    Replay {
        /// Whether the token is acceptable and greater than the fence.
        raise: bool,
    },
    /// Change nothing.
    Reject(Rejection),
}

/// Decides in the order of `docs/guarantees.md`, and nowhere else.
///
/// # Errors
/// When `born` is above the presented token: nobody can have named an operation under a token not yet granted.
pub fn decide(presented: &Presented<'_>, standing: &Standing) -> Result<Decision, Invalid> {
    if let Condition::Closed(why) = standing.condition {
        return Ok(Decision::Reject(Rejection::Closed(why)));
    }
    let Some(token) = presented.token else {
        return Ok(Decision::Reject(Rejection::Missing));
    };
    if presented.operation.and_then(|operation| operation.born).is_some_and(|born| born > token) {
        return Err(Invalid::form("born", "at most the presented token"));
    }
    if let Some(rejection) = wrong_grant(presented, standing) {
        return Ok(Decision::Reject(rejection));
    }
    let order = out_of_order(token, standing);
    let raise = standing.fence.is_none_or(|fence| token > fence);
    Ok(match presented.operation.map(|operation| remembered(operation, standing)) {
        Some(Remembered::Conflicting) => Decision::Reject(Rejection::OperationConflict),
        Some(Remembered::TooOld) => Decision::Reject(Rejection::OperationTooOld),
        Some(Remembered::Done) => Decision::Replay { raise: raise && order.is_none() },
        Some(Remembered::New) | None => match order {
            Some(rejection) => Decision::Reject(rejection),
            None => Decision::Apply { raise },
        },
    })
}

/// Steps 2 and 3: the grant is for something else, or does not verify.
fn wrong_grant(presented: &Presented<'_>, standing: &Standing) -> Option<Rejection> {
    if *presented.issuer != standing.issuer {
        return Some(Rejection::WrongIssuer);
    }
    if *presented.domain != standing.domain {
        return Some(Rejection::WrongDomain);
    }
    match presented.contract {
        Contract::Safety => {}
        Contract::Admission | Contract::Advisory => return Some(Rejection::WrongContract),
    }
    match (presented.proof, standing.signature) {
        (Proof::Verified, _) | (Proof::Unsigned, SignatureRule::Optional) => None,
        (Proof::Wrong, _) | (Proof::Unsigned, SignatureRule::Required) => Some(Rejection::Unverified),
    }
}

enum Remembered {
    New,
    Done,
    Conflicting,
    TooOld,
}

/// Step 4: what the operation records say. It stands before staleness, because an effect that happened stays
/// happened whoever asks.
fn remembered(operation: &Operation, standing: &Standing) -> Remembered {
    match standing.recorded {
        Some(fingerprint) if fingerprint == operation.fingerprint => Remembered::Done,
        Some(_) => Remembered::Conflicting,
        None if operation.born.is_some_and(|born| standing.horizon.is_some_and(|horizon| born < horizon)) => {
            Remembered::TooOld
        }
        None => Remembered::New,
    }
}

/// Step 5: the order of tokens. An equal token is the same owner and passes.
fn out_of_order(presented: Token, standing: &Standing) -> Option<Rejection> {
    if presented.epoch() > standing.known_epoch {
        return Some(Rejection::UnknownEpoch { presented, known: standing.known_epoch });
    }
    let unfenced_floor = standing.unfenced_floor.filter(|_| standing.fence.is_none());
    let bounds = [
        (standing.floor, RejectedBy::Floor),
        (standing.fence, RejectedBy::Fence),
        (unfenced_floor, RejectedBy::UnfencedFloor),
    ];
    let (least_accepted, by) =
        bounds.into_iter().filter_map(|(bound, by)| Some((bound?, by))).max_by_key(|(bound, _)| *bound)?;
    (presented < least_accepted).then_some(Rejection::Stale { presented, least_accepted, by })
}

#[cfg(test)]
#[path = "decide_tests.rs"]
mod tests;

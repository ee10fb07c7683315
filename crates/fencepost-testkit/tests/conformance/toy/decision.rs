//! What the toy decides, and how it can get that wrong.

use std::sync::{MutexGuard, atomic::Ordering};

use fencepost_core::{
    Contract, Domain, Invalid, OperationId, Token,
    fence::{Closure, Decision, Fingerprint, Presented, Proof, RejectedBy, Rejection},
};

use super::{Open, State};
use crate::mutants::Mutant;

impl Open {
    pub(super) fn is(&self, mutant: Mutant) -> bool {
        self.mutant == Some(mutant)
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }

    pub(super) fn older(&self, a: Token, b: Token) -> bool {
        match self.mutant {
            Some(Mutant::TokensAsTexts) => a.to_string() < b.to_string(),
            Some(Mutant::TokensAsFloats) => (a.as_u64() as f64) < (b.as_u64() as f64),
            Some(Mutant::TokensIn32Bits) => (a.as_u64() as u32) < (b.as_u64() as u32),
            Some(Mutant::SequencesWithoutEpoch) => a.sequence() < b.sequence(),
            _ => a < b,
        }
    }

    pub(super) fn key(&self, domain: &Domain) -> String {
        let name = domain.as_str();
        match self.mutant {
            Some(Mutant::OneFenceForAll) => String::new(),
            Some(Mutant::DomainsWithoutCase) => name.to_lowercase(),
            Some(Mutant::DomainsWithoutSpaces) => name.trim().to_owned(),
            Some(Mutant::DomainsCut) => name.chars().take(127).collect(),
            _ => name.to_owned(),
        }
    }

    pub(super) fn record_key(&self, domain: &Domain, id: &OperationId) -> (String, OperationId) {
        match self.mutant {
            Some(Mutant::RecordsWithoutDomain) => (String::new(), id.clone()),
            Some(Mutant::OperationsWithoutCase) => {
                (domain.to_string(), OperationId::new(&id.as_str().to_lowercase()).unwrap_or_else(|_| id.clone()))
            }
            _ => (domain.to_string(), id.clone()),
        }
    }

    pub(super) fn closed(&self, state: &State) -> Option<Closure> {
        let missing = !self.is(Mutant::MissingStateIsAFirstWrite);
        if missing && !state.there {
            Some(Closure::MetadataMissing)
        } else if missing && state.fences.len() < state.counted {
            Some(Closure::FenceMissing)
        } else if state.counter < self.seen.load(Ordering::Acquire) && !self.is(Mutant::RestoreTakenForItself) {
            Some(Closure::WentBack)
        } else {
            None
        }
    }

    /// The decision, in its order.
    pub(super) fn judge(
        &self,
        state: &State,
        target: &Domain,
        presented: &Presented<'_>,
        recorded: Option<Fingerprint>,
    ) -> Result<Decision, Invalid> {
        if let Some(why) = self.closed(state) {
            return Ok(Decision::Reject(Rejection::Closed(why)));
        }
        let Some(token) = presented.token else {
            return Ok(match self.is(Mutant::MissingTokenIsNotFenced) {
                true => Decision::Apply { raise: false },
                false => Decision::Reject(Rejection::Missing),
            });
        };
        let born = presented.operation.and_then(|operation| operation.born);
        if born.is_some_and(|born| born > token) && !self.is(Mutant::BornNotChecked) {
            return Err(Invalid::form("born", "at most the presented token"));
        }
        if *presented.issuer != state.issuer && !self.is(Mutant::IssuerIgnored) {
            return Ok(Decision::Reject(Rejection::WrongIssuer));
        }
        if presented.domain != target && !self.is(Mutant::GrantsDomainIgnored) {
            return Ok(Decision::Reject(Rejection::WrongDomain));
        }
        if presented.contract != Contract::Safety && !self.is(Mutant::ContractIgnored) {
            return Ok(Decision::Reject(Rejection::WrongContract));
        }
        if presented.proof == Proof::Wrong && !self.is(Mutant::WrongSignatureTaken) {
            return Ok(Decision::Reject(Rejection::Unverified));
        }
        let order = self.out_of_order(state, target, token);
        let fence = state.fences.get(&self.key(target)).copied();
        let raise = fence.is_none_or(|fence| token > fence);
        let staleness_first = self.is(Mutant::ReplayAfterStaleness);
        if let Some(operation) = presented.operation {
            match recorded {
                Some(_) if staleness_first && order.is_some() => {}
                Some(found) if found != operation.fingerprint && !self.is(Mutant::FingerprintIgnored) => {
                    return Ok(Decision::Reject(Rejection::OperationConflict));
                }
                Some(_) => return Ok(Decision::Replay { raise: raise && order.is_none() }),
                None if born.is_some_and(|born| state.horizon.is_some_and(|horizon| born < horizon)) => {
                    return Ok(Decision::Reject(Rejection::OperationTooOld));
                }
                None => {}
            }
        }
        Ok(match order {
            Some(rejection) => Decision::Reject(rejection),
            None => Decision::Apply { raise },
        })
    }

    pub(super) fn out_of_order(&self, state: &State, target: &Domain, token: Token) -> Option<Rejection> {
        if token.epoch() > state.known_epoch && !self.is(Mutant::UnknownEpochAccepted) {
            return Some(Rejection::UnknownEpoch { presented: token, known: state.known_epoch });
        }
        let fence = state.fences.get(&self.key(target)).copied();
        let floor = state.floor.filter(|_| fence.is_none() || !self.is(Mutant::FloorOnlyWithoutFence));
        let unfenced = state.unfenced_floor.filter(|_| fence.is_none());
        let bounds = [(floor, RejectedBy::Floor), (fence, RejectedBy::Fence), (unfenced, RejectedBy::UnfencedFloor)];
        let (least_accepted, by) =
            bounds.into_iter().filter_map(|(bound, by)| Some((bound?, by))).max_by_key(|(bound, _)| *bound)?;
        let stale = match self.mutant {
            Some(Mutant::EqualTokenRefused) => {
                token <= least_accepted && by == RejectedBy::Fence || token < least_accepted
            }
            Some(Mutant::EqualityInsteadOfOrder) => token != least_accepted,
            Some(Mutant::LastCallerWins) => false,
            _ => self.older(token, least_accepted),
        };
        stale.then_some(Rejection::Stale { presented: token, least_accepted, by })
    }
}

//! The toy as the suite calls it.

use std::sync::atomic::Ordering;

use fencepost_core::{
    Domain, Epoch, Grant, Token,
    fence::{Decision, LiveLease, Operation, Presented, Rejection, Verdict},
};
use fencepost_receiver::{AdvanceError, Cause, ReceiverSeed, WriteError};
use fencepost_testkit::conformance::{Handle, Written};

use super::{End, Open, gap};
use crate::mutants::Mutant;

impl Handle for Open {
    fn write(&mut self, target: &Domain, grant: &Grant, operation: Option<&Operation>, value: &[u8]) -> Written {
        self.ask(target, &Presented { operation, ..Presented::grant(grant) }, value, End::Commits)
    }

    fn write_then_fail(&mut self, grant: &Grant, operation: Option<&Operation>, value: &[u8]) -> Written {
        self.ask(&grant.domain, &Presented { operation, ..Presented::grant(grant) }, value, End::Fails)
    }

    fn write_and_lose_the_answer(&mut self, grant: &Grant, operation: &Operation, value: &[u8]) -> Written {
        self.ask(&grant.domain, &Presented::grant(grant).with_operation(operation), value, End::LosesTheAnswer)
    }

    fn present(&mut self, target: &Domain, presented: &Presented<'_>, value: &[u8]) -> Written {
        self.ask(target, presented, value, End::Commits)
    }

    fn write_all(&mut self, grants: &[Grant], operation: Option<&Operation>, value: &[u8]) -> Written {
        let named = operation.map(|operation| match self.is(Mutant::SetOfDomainsForgotten) || grants.len() == 1 {
            true => operation.clone(),
            false => {
                let over = operation.fingerprint.over(grants.iter().map(|grant| &grant.domain));
                Operation { fingerprint: over, ..operation.clone() }
            }
        });
        let presented = |grant| Presented { operation: named.as_ref(), ..Presented::grant(grant) };
        if !self.is(Mutant::DomainsOneByOne) {
            let state = self.lock();
            for grant in grants {
                let key = named.as_ref().map(|named| self.record_key(&grant.domain, &named.id));
                let recorded = key.and_then(|key| state.operations.get(&key)).map(|record| record.fingerprint);
                if let Decision::Reject(rejection) = self.judge(&state, &grant.domain, &presented(grant), recorded)? {
                    return Ok(Verdict::Rejected(rejection));
                }
            }
        }
        let mut last = Ok(Verdict::Rejected(Rejection::Missing));
        for grant in grants {
            last = self.ask(&grant.domain, &presented(grant), value, End::Commits);
            if matches!(last, Ok(Verdict::Rejected(_)) | Err(_)) {
                break;
            }
        }
        last
    }

    fn advance(&mut self, grant: &Grant) -> Result<Verdict<()>, AdvanceError> {
        if self.is(Mutant::AdvanceDoesNothing) {
            return Ok(Verdict::Applied(()));
        }
        Ok(self.advance_in(&mut self.lock(), grant)?)
    }

    fn value(&mut self, domain: &Domain) -> Result<Option<Vec<u8>>, Cause> {
        let value = self.lock().values.get(domain).cloned();
        if self.is(Mutant::AdvanceDoesNothing) {
            gap();
        }
        Ok(value)
    }

    fn read(&mut self, grant: &Grant) -> Result<Verdict<Option<Vec<u8>>>, WriteError<Cause>> {
        let mut state = self.lock();
        let before = state.fences.clone();
        let verdict = self.advance_in(&mut state, grant)?;
        if self.is(Mutant::ReadDoesNotRaise) {
            state.counted = before.len();
            state.fences = before;
        }
        Ok(verdict.map(|()| state.values.get(&grant.domain).cloned()))
    }

    fn collect(&mut self, next: Token, live: &[LiveLease], horizon: Option<Token>) -> Result<(), Cause> {
        let mut state = self.lock();
        if let Some(why) = self.closed(&state) {
            return Err(why.to_string().into());
        }
        if self.is(Mutant::CollectionInTwoSteps) {
            state.fences.clear();
            state.counted = 0;
            drop(state);
            gap();
            state = self.lock();
        }
        self.collect_in(&mut state, next, live, horizon);
        Ok(())
    }

    fn tell(&mut self, epoch: Epoch, floor: Token) -> Result<(), Cause> {
        let mut state = self.lock();
        if self.is(Mutant::TellSets) {
            (state.known_epoch, state.floor) = (epoch, Some(floor));
        } else {
            state.known_epoch = state.known_epoch.max(epoch);
            state.floor = state.floor.max(Some(floor));
        }
        self.changed(&mut state);
        Ok(())
    }

    fn recover(&mut self, seed: &ReceiverSeed) -> Result<(), Cause> {
        let next = seed.next.ok_or("a seed with a snapshot")?;
        let mut state = self.lock();
        if !state.there && !self.is(Mutant::RecoveryWithoutHorizon) {
            state.horizon = state.horizon.max(Some(next));
        }
        state.there = true;
        state.known_epoch = state.known_epoch.max(seed.known_epoch);
        state.counted = state.fences.len();
        state.counter = self.seen.load(Ordering::Acquire);
        if self.is(Mutant::RecoveryOnlyOpens) {
            self.changed(&mut state);
        } else {
            self.collect_in(&mut state, next, &seed.live, None);
        }
        Ok(())
    }
}

//! What follows from the toy's decisions, and how that can go wrong.

use std::sync::{MutexGuard, atomic::Ordering};

use fencepost_core::{
    Domain, Grant, Invalid, Token,
    fence::{Decision, LiveLease, Presented, RecordedResult, Rejection, Verdict},
};
use fencepost_receiver::WriteError;
use fencepost_testkit::conformance::Written;

use super::{End, Open, Record, State, gap};
use crate::mutants::Mutant;

impl Open {
    pub(super) fn raise(&self, state: &mut State, domain: &Domain, token: Token) {
        let first = state.fences.insert(self.key(domain), token).is_none();
        state.counted += usize::from(first);
    }

    pub(super) fn changed(&self, state: &mut State) {
        state.counter += 1;
        self.seen.fetch_max(state.counter, Ordering::AcqRel);
    }

    pub(super) fn ask(&self, target: &Domain, presented: &Presented<'_>, value: &[u8], end: End) -> Written {
        let key = presented.operation.map(|operation| self.record_key(target, &operation.id));
        let look =
            |state: &State| key.as_ref().and_then(|key| state.operations.get(key)).map(|record| record.fingerprint);
        let mut state = self.lock();
        let mut recorded = look(&state);
        let mut decision = self.judge(&state, target, presented, recorded);
        if self.is(Mutant::CheckOutsideTheTransaction) || self.is(Mutant::RecordsLookedAtOutside) {
            drop(state);
            gap();
            state = self.lock();
            if self.is(Mutant::RecordsLookedAtOutside) {
                decision = self.judge(&state, target, presented, recorded);
            }
        }
        recorded = look(&state);
        match decision? {
            Decision::Reject(rejection) => {
                let conflict = rejection == Rejection::OperationConflict && self.is(Mutant::ConflictRaises);
                let greater = presented.token > state.fences.get(&self.key(target)).copied();
                if let (true, Some(token)) = (conflict && greater, presented.token) {
                    self.raise(&mut state, target, token);
                }
                if let (true, None, Some(token)) = (self.is(Mutant::RefusedIsRecorded), recorded, presented.token) {
                    self.record(&mut state, target, presented, token, value);
                }
                Ok(Verdict::Rejected(rejection))
            }
            Decision::Replay { raise } => {
                let result = key.and_then(|key| state.operations.get(&key).map(|record| record.result.clone()));
                let raise = raise && !self.is(Mutant::ReplayDoesNotRaise) || self.is(Mutant::ReplayLowers);
                if let (true, Some(token)) = (raise, presented.token) {
                    self.raise(&mut state, target, token);
                    self.changed(&mut state);
                }
                Ok(Verdict::Replayed(result.unwrap_or_default()))
            }
            Decision::Apply { raise } => self.apply(state, target, presented, value, (raise, end)),
        }
    }

    pub(super) fn apply<'a>(
        &'a self,
        mut state: MutexGuard<'a, State>,
        target: &Domain,
        presented: &Presented<'_>,
        value: &[u8],
        (raise, end): (bool, End),
    ) -> Written {
        let fails = end == End::Fails;
        if !fails || self.is(Mutant::HalfOfAFailureStays) {
            state.values.insert(target.clone(), value.to_vec());
        }
        if fails {
            return Err(WriteError::Mutation("no".into()));
        }
        let raise = raise || self.is(Mutant::LastCallerWins);
        if let (true, Some(token)) = (raise, presented.token) {
            self.raise(&mut state, target, token);
        }
        self.changed(&mut state);
        if self.is(Mutant::RecordInASecondStep) {
            drop(state);
            gap();
            state = self.lock();
        }
        let unrecorded = end == End::LosesTheAnswer && self.is(Mutant::LostAnswerNotRecorded);
        if let (Some(token), false) = (presented.token, unrecorded) {
            self.record(&mut state, target, presented, token, value);
        }
        let result = RecordedResult::new(value)?.into_bytes();
        match (end, presented.operation) {
            (End::LosesTheAnswer, Some(operation)) => {
                Err(WriteError::Unknown { operation: Some(operation.id.clone()), source: "cut".into() })
            }
            _ => Ok(Verdict::Applied(if self.is(Mutant::OneResultForAll) { b"done".to_vec() } else { result })),
        }
    }

    pub(super) fn record(
        &self,
        state: &mut State,
        target: &Domain,
        presented: &Presented<'_>,
        under: Token,
        value: &[u8],
    ) {
        let Some(operation) = presented.operation.filter(|_| !self.is(Mutant::OperationsNotRecorded)) else { return };
        let result = if self.is(Mutant::OneResultForAll) { b"done".to_vec() } else { value.to_vec() };
        let record = Record { fingerprint: operation.fingerprint, born: operation.born, under, result };
        state.operations.insert(self.record_key(target, &operation.id), record);
    }

    pub(super) fn advance_in(&self, state: &mut State, grant: &Grant) -> Result<Verdict<()>, Invalid> {
        let decision = self.judge(state, &grant.domain, &Presented::grant(grant), None)?;
        match decision {
            Decision::Reject(Rejection::Stale { .. }) if self.is(Mutant::AdvanceNotMonotone) => {
                self.raise(state, &grant.domain, grant.token);
                Ok(Verdict::Applied(()))
            }
            Decision::Reject(rejection) => Ok(Verdict::Rejected(rejection)),
            Decision::Apply { raise } | Decision::Replay { raise } => {
                if raise || self.is(Mutant::LastCallerWins) {
                    self.raise(state, &grant.domain, grant.token);
                    self.changed(state);
                }
                Ok(Verdict::Applied(()))
            }
        }
    }

    pub(super) fn collect_in(&self, state: &mut State, next: Token, live: &[LiveLease], horizon: Option<Token>) {
        state.floor = state.floor.max(next.begin_of_epoch());
        if !self.is(Mutant::CollectionForgetsLiveLeases) {
            for lease in live {
                let issuer = state.issuer.clone();
                let presented = Presented::token(&issuer, &lease.domain, lease.token);
                let decision = self.judge(state, &lease.domain, &presented, None);
                if matches!(decision, Ok(Decision::Apply { raise: true }))
                    || self.is(Mutant::CollectionInsertsUnchecked)
                {
                    self.raise(state, &lease.domain, lease.token);
                }
            }
        }
        state.unfenced_floor = match self.mutant {
            Some(Mutant::CollectionRaisesNoFloor) => state.unfenced_floor,
            Some(Mutant::CollectionSetsTheFloor) => Some(next),
            _ => state.unfenced_floor.max(Some(next)),
        };
        let live: Vec<String> = live.iter().map(|lease| self.key(&lease.domain)).collect();
        state.fences.retain(|domain, fence| *fence >= next || live.contains(domain));
        state.counted = state.fences.len();
        if let Some(horizon) = horizon {
            let before = state.horizon;
            let raised = if self.is(Mutant::HorizonSet) { Some(horizon) } else { state.horizon.max(Some(horizon)) };
            state.operations.retain(|_, record| Some(record.born.unwrap_or(record.under)) >= raised);
            state.horizon = if self.is(Mutant::RecordsGoWithoutHorizon) { before } else { raised };
        }
        self.changed(state);
    }
}

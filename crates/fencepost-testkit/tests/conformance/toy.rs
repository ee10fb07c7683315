//! A receiver that keeps everything in a map, written out step by step so that each step can be got wrong.
//!
//! Without a mutant it conforms. It does not show its records, so that a fault has to show in what it answers.

use std::{
    collections::BTreeMap,
    sync::{
        Arc, Mutex, MutexGuard, Weak,
        atomic::{AtomicU64, Ordering},
    },
    thread,
    time::Duration,
};

use fencepost_core::{
    Contract, Domain, Epoch, Grant, Invalid, Issuer, OperationId, Token,
    fence::{
        Closure, Decision, Fingerprint, LiveLease, Operation, Presented, Proof, RecordedResult, RejectedBy, Rejection,
        Verdict,
    },
};
use fencepost_receiver::{AdvanceError, Cause, ReceiverSeed, WriteError};
use fencepost_testkit::conformance::{Ability, Adapter, Handle, Written};

use crate::mutants::Mutant;

#[derive(Default)]
pub(crate) struct Toy {
    mutant: Option<Mutant>,
    stores: Mutex<BTreeMap<String, Store>>,
}

struct Store {
    state: Arc<Mutex<State>>,
    /// The greatest counter that callers have seen.
    seen: Arc<AtomicU64>,
    backup: Option<State>,
    /// Alive while a handle is open.
    open: Weak<()>,
}

#[derive(Clone)]
struct State {
    issuer: Issuer,
    /// Whether the receiver's own records are there.
    there: bool,
    known_epoch: Epoch,
    floor: Option<Token>,
    unfenced_floor: Option<Token>,
    horizon: Option<Token>,
    fences: BTreeMap<String, Token>,
    /// How many fences there have to be.
    counted: usize,
    operations: BTreeMap<(String, OperationId), Record>,
    values: BTreeMap<Domain, Vec<u8>>,
    counter: u64,
}

#[derive(Clone)]
struct Record {
    fingerprint: Fingerprint,
    born: Option<Token>,
    under: Token,
    result: Vec<u8>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum End {
    Commits,
    Fails,
    LosesTheAnswer,
}

impl Toy {
    pub(crate) fn with(mutant: Mutant) -> Self {
        Self { mutant: Some(mutant), stores: Mutex::default() }
    }
}

impl Adapter for Toy {
    fn name(&self) -> String {
        match self.mutant {
            Some(mutant) => format!("toy: {mutant:?}"),
            None => "toy:".to_owned(),
        }
    }

    fn lacks(&self) -> &[(Ability, &'static str)] {
        &[
            (Ability::Inspection, "a fault has to show in what it answers"),
            (Ability::Processes, "it lives in one process"),
        ]
    }

    fn create(&self, seed: &ReceiverSeed, _: &[Domain]) -> Result<String, Cause> {
        let state = State {
            issuer: seed.issuer.clone(),
            there: true,
            known_epoch: seed.known_epoch,
            floor: seed.floor,
            unfenced_floor: seed.next,
            horizon: None,
            fences: BTreeMap::new(),
            counted: 0,
            operations: BTreeMap::new(),
            values: BTreeMap::new(),
            counter: 0,
        };
        let mut stores = self.stores.lock().unwrap();
        let place = stores.len().to_string();
        let state = Arc::new(Mutex::new(state));
        stores.insert(place.clone(), Store { state, seen: Arc::default(), backup: None, open: Weak::new() });
        Ok(place)
    }

    fn open(&self, place: &str) -> Result<Box<dyn Handle>, Cause> {
        let mut stores = self.stores.lock().unwrap();
        let store = stores.get_mut(place).ok_or("there is no such place")?;
        let open = store.open.upgrade().unwrap_or_else(|| {
            forget_what_was_in_memory(&mut store.state.lock().unwrap(), self.mutant);
            Arc::new(())
        });
        store.open = Arc::downgrade(&open);
        Ok(Box::new(Open {
            mutant: self.mutant,
            state: Arc::clone(&store.state),
            seen: Arc::clone(&store.seen),
            _open: open,
        }))
    }

    fn write_without_token(&self, place: &str, domain: &Domain, value: &[u8]) -> Result<(), Cause> {
        if self.mutant != Some(Mutant::GuardDropped) {
            return Err("no domain is entered".into());
        }
        let stores = self.stores.lock().unwrap();
        stores[place].state.lock().unwrap().values.insert(domain.clone(), value.to_vec());
        Ok(())
    }

    fn lose_records(&self, place: &str, way: usize) -> Result<Option<&'static str>, Cause> {
        let stores = self.stores.lock().unwrap();
        let mut state = stores[place].state.lock().unwrap();
        match way {
            0 => {
                state.fences.clear();
                Ok(Some("the fences"))
            }
            1 => {
                state.there = false;
                state.fences.clear();
                state.operations.clear();
                (state.floor, state.unfenced_floor, state.horizon) = (None, None, None);
                Ok(Some("every record"))
            }
            _ => Ok(None),
        }
    }

    fn back_up(&self, place: &str) -> Result<(), Cause> {
        let mut stores = self.stores.lock().unwrap();
        let store = stores.get_mut(place).ok_or("there is no such place")?;
        store.backup = Some(store.state.lock().unwrap().clone());
        Ok(())
    }

    fn restore(&self, place: &str) -> Result<(), Cause> {
        let stores = self.stores.lock().unwrap();
        *stores[place].state.lock().unwrap() = stores[place].backup.clone().ok_or("there is no backup")?;
        Ok(())
    }
}

fn forget_what_was_in_memory(state: &mut State, mutant: Option<Mutant>) {
    match mutant {
        Some(Mutant::FencesKeptInMemory) => {
            state.fences.clear();
            state.counted = 0;
        }
        Some(Mutant::FloorsKeptInMemory) => {
            (state.floor, state.unfenced_floor, state.horizon) = (None, None, None);
        }
        Some(Mutant::OperationsKeptInMemory) => state.operations.clear(),
        _ => {}
    }
}

struct Open {
    mutant: Option<Mutant>,
    state: Arc<Mutex<State>>,
    seen: Arc<AtomicU64>,
    _open: Arc<()>,
}

/// Room for somebody else, where a mutant leaves a gap.
fn gap() {
    // bounded: a millisecond, in a mutant
    thread::sleep(Duration::from_millis(1));
}

impl Open {
    fn is(&self, mutant: Mutant) -> bool {
        self.mutant == Some(mutant)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }

    fn older(&self, a: Token, b: Token) -> bool {
        match self.mutant {
            Some(Mutant::TokensAsTexts) => a.to_string() < b.to_string(),
            Some(Mutant::TokensAsFloats) => (a.as_u64() as f64) < (b.as_u64() as f64),
            Some(Mutant::TokensIn32Bits) => (a.as_u64() as u32) < (b.as_u64() as u32),
            Some(Mutant::SequencesWithoutEpoch) => a.sequence() < b.sequence(),
            _ => a < b,
        }
    }

    fn key(&self, domain: &Domain) -> String {
        let name = domain.as_str();
        match self.mutant {
            Some(Mutant::OneFenceForAll) => String::new(),
            Some(Mutant::DomainsWithoutCase) => name.to_lowercase(),
            Some(Mutant::DomainsWithoutSpaces) => name.trim().to_owned(),
            Some(Mutant::DomainsCut) => name.chars().take(127).collect(),
            _ => name.to_owned(),
        }
    }

    fn record_key(&self, domain: &Domain, id: &OperationId) -> (String, OperationId) {
        match self.mutant {
            Some(Mutant::RecordsWithoutDomain) => (String::new(), id.clone()),
            Some(Mutant::OperationsWithoutCase) => {
                (domain.to_string(), OperationId::new(&id.as_str().to_lowercase()).unwrap_or_else(|_| id.clone()))
            }
            _ => (domain.to_string(), id.clone()),
        }
    }

    fn closed(&self, state: &State) -> Option<Closure> {
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
    fn judge(
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

    fn out_of_order(&self, state: &State, target: &Domain, token: Token) -> Option<Rejection> {
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

    fn raise(&self, state: &mut State, domain: &Domain, token: Token) {
        let first = state.fences.insert(self.key(domain), token).is_none();
        state.counted += usize::from(first);
    }

    fn changed(&self, state: &mut State) {
        state.counter += 1;
        self.seen.fetch_max(state.counter, Ordering::AcqRel);
    }

    fn ask(&self, target: &Domain, presented: &Presented<'_>, value: &[u8], end: End) -> Written {
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

    fn apply<'a>(
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

    fn record(&self, state: &mut State, target: &Domain, presented: &Presented<'_>, under: Token, value: &[u8]) {
        let Some(operation) = presented.operation.filter(|_| !self.is(Mutant::OperationsNotRecorded)) else { return };
        let result = if self.is(Mutant::OneResultForAll) { b"done".to_vec() } else { value.to_vec() };
        let record = Record { fingerprint: operation.fingerprint, born: operation.born, under, result };
        state.operations.insert(self.record_key(target, &operation.id), record);
    }

    fn advance_in(&self, state: &mut State, grant: &Grant) -> Result<Verdict<()>, Invalid> {
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

    fn collect_in(&self, state: &mut State, next: Token, live: &[LiveLease], horizon: Option<Token>) {
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

//! A receiver that keeps everything in a map, written out step by step so that each step can be got wrong.
//!
//! Without a mutant it conforms. It does not show its records, so that a fault has to show in what it answers.

mod decision;
mod effects;
mod handle;

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, Weak, atomic::AtomicU64},
    thread,
    time::Duration,
};

use fencepost_core::{Domain, Epoch, Issuer, OperationId, Token, fence::Fingerprint};
use fencepost_receiver::{Cause, ReceiverSeed};
use fencepost_testkit::conformance::{Ability, Adapter, Handle};

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
            floor: seed.least_accepted(),
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

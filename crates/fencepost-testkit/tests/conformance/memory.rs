//! The memory receiver, which is the reference: here it shows that the suite asks nothing that cannot be had.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex},
};

use fencepost_core::{
    Domain, Epoch, Grant, Invalid, Token,
    fence::{LiveLease, Operation, Presented, RecordedResult, Verdict},
};
use fencepost_receiver::{AdvanceError, Cause, MemoryReceiver, ReceiverSeed, WriteError};
use fencepost_testkit::conformance::{self, Ability, Adapter, Handle, Records, Written};

#[derive(Default)]
pub(crate) struct Memory(Mutex<BTreeMap<String, Held>>);

#[derive(Clone)]
struct Held {
    receiver: Arc<MemoryReceiver>,
    values: Arc<Mutex<BTreeMap<Domain, Vec<u8>>>>,
}

impl Adapter for Memory {
    fn name(&self) -> String {
        "memory:".to_owned()
    }

    fn lacks(&self) -> &[(Ability, &'static str)] {
        &[
            (Ability::WriteAll, "its register is written one domain at a time"),
            (Ability::LostAnswer, "a call inside one process has an answer"),
            (Ability::Guard, "its value is reached through a grant only"),
            (Ability::LostRecords, "its records cannot go missing"),
            (Ability::RestoredBackup, "it has no storage"),
            (Ability::Processes, "it lives in one process"),
        ]
    }

    fn create(&self, seed: &ReceiverSeed, _: &[Domain]) -> Result<String, Cause> {
        let mut all = self.0.lock().unwrap();
        let place = all.len().to_string();
        all.insert(place.clone(), Held { receiver: Arc::new(MemoryReceiver::guard(seed)), values: Arc::default() });
        Ok(place)
    }

    fn open(&self, place: &str) -> Result<Box<dyn Handle>, Cause> {
        Ok(Box::new(self.0.lock().unwrap()[place].clone()))
    }
}

impl Held {
    fn ask(
        &self,
        target: &Domain,
        presented: &Presented<'_>,
        value: &[u8],
        end: Result<(), &'static str>,
    ) -> Result<Verdict<Vec<u8>>, WriteError<Cause>> {
        let mutation = || -> Result<RecordedResult, Failed> {
            let mut values = self.values.lock().unwrap();
            end.map_err(Failed::Mutation)?;
            values.insert(target.clone(), value.to_vec());
            Ok(RecordedResult::new(value)?)
        };
        match self.receiver.register().write(target, presented, mutation) {
            Ok(verdict) => Ok(verdict.map(RecordedResult::into_bytes)),
            Err(Failed::Invalid(invalid)) => Err(WriteError::Invalid(invalid)),
            Err(Failed::Mutation(why)) => Err(WriteError::Mutation(why.into())),
        }
    }
}

enum Failed {
    Invalid(Invalid),
    Mutation(&'static str),
}

impl From<Invalid> for Failed {
    fn from(invalid: Invalid) -> Self {
        Self::Invalid(invalid)
    }
}

impl Handle for Held {
    fn write(&mut self, target: &Domain, grant: &Grant, operation: Option<&Operation>, value: &[u8]) -> Written {
        self.ask(target, &Presented { operation, ..Presented::grant(grant) }, value, Ok(()))
    }

    fn write_then_fail(&mut self, grant: &Grant, operation: Option<&Operation>, value: &[u8]) -> Written {
        self.ask(&grant.domain, &Presented { operation, ..Presented::grant(grant) }, value, Err("no"))
    }

    fn present(&mut self, target: &Domain, presented: &Presented<'_>, value: &[u8]) -> Written {
        self.ask(target, presented, value, Ok(()))
    }

    fn advance(&mut self, grant: &Grant) -> Result<Verdict<()>, AdvanceError> {
        Ok(self.receiver.advance_now(grant)?)
    }

    fn value(&mut self, domain: &Domain) -> Result<Option<Vec<u8>>, Cause> {
        Ok(self.values.lock().unwrap().get(domain).cloned())
    }

    fn read(&mut self, grant: &Grant) -> Result<Verdict<Option<Vec<u8>>>, WriteError<Cause>> {
        let mut register = self.receiver.register();
        let verdict = register.advance(&grant.domain, &Presented::grant(grant))?;
        Ok(verdict.map(|()| self.values.lock().unwrap().get(&grant.domain).cloned()))
    }

    fn collect(&mut self, next: Token, live: &[LiveLease], horizon: Option<Token>) -> Result<(), Cause> {
        let mut register = self.receiver.register();
        if let Verdict::Rejected(rejection) = register.collect(next, live) {
            return Err(rejection.into());
        }
        if let Some(horizon) = horizon {
            register.collect_operations(horizon);
        }
        Ok(())
    }

    fn tell(&mut self, epoch: Epoch, floor: Token) -> Result<(), Cause> {
        self.receiver.register().tell(epoch, floor);
        Ok(())
    }

    fn recover(&mut self, seed: &ReceiverSeed) -> Result<(), Cause> {
        let next = seed.next.ok_or("a seed with a snapshot")?;
        self.receiver.register().recover(seed.known_epoch, next, &seed.live);
        Ok(())
    }

    fn records(&mut self, domain: &Domain) -> Result<Records, Cause> {
        let standing = self.receiver.register().standing(domain, None);
        Ok(Records {
            condition: standing.condition,
            known_epoch: standing.known_epoch,
            floor: standing.floor,
            unfenced_floor: standing.unfenced_floor,
            fence: standing.fence,
            horizon: standing.horizon,
        })
    }
}

/// One by one, as the macro makes them.
mod one_by_one {
    fencepost_testkit::conformance_tests!(super::Memory::default());
}

#[test]
fn the_memory_receiver_conforms() {
    let report = conformance::run_with(&Memory::default(), &crate::settings());
    println!("{report}");
    report.must_pass();
}

//! Mutants of every receiver there is, made of what passes between the suite and the receiver: one for each capability that
//! a receiver may declare. A receiver counts with a capability only if it is caught without it.

use std::process::Command;

use fencepost_core::{
    Domain, Epoch, Grant, Issuer, Token,
    fence::{LiveLease, Operation, Presented, Verdict},
};
use fencepost_receiver::{AdvanceError, Cause, ReceiverSeed, WriteError};
use fencepost_testkit::conformance::{self, Ability, Adapter, Handle, Outcome, Records, Settings, Written};

use crate::sabotage::DEFECTS;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fault {
    OperationsAreNotNamed,
    ReadsRaiseNothing,
    LiveLeasesAreForgotten,
    DomainsOneByOne,
    RestoresAreReopened,
}

/// What is taken away, how, in words, and the scenario that has to catch it.
const FAULTS: &[(Ability, Fault, &str, &str)] = &[
    (
        Ability::OperationRecords,
        Fault::OperationsAreNotNamed,
        "operations are not named to it",
        "a_retry_is_replayed_and_runs_nothing",
    ),
    (
        Ability::FencedRead,
        Fault::ReadsRaiseNothing,
        "a fenced read is a plain one",
        "a_fenced_read_shuts_out_older_tokens",
    ),
    (
        Ability::Collection,
        Fault::LiveLeasesAreForgotten,
        "a collection is not told of live leases",
        "a_live_holder_who_has_not_written_yet_survives_a_collection",
    ),
    (
        Ability::WriteAll,
        Fault::DomainsOneByOne,
        "several domains are asked for one by one",
        "a_write_over_two_domains_is_applied_under_both_tokens_or_none",
    ),
    (
        Ability::RestoredBackup,
        Fault::RestoresAreReopened,
        "a restored backup is opened again at once",
        "a_restored_backup_closes_the_receiver",
    ),
];

/// The rows of the documentation's table.
pub(crate) fn rows() -> Vec<String> {
    FAULTS.iter().map(|(ability, _, what, scenario)| format!("| {ability} | {what} | `{scenario}` |")).collect()
}

/// A receiver between which and its callers something is lost; without a fault it is the receiver.
struct Faulty<'a> {
    adapter: &'a dyn Adapter,
    fault: Option<Fault>,
}

struct Open {
    handle: Box<dyn Handle>,
    fault: Option<Fault>,
}

impl Adapter for Faulty<'_> {
    fn name(&self) -> String {
        self.adapter.name()
    }

    fn lacks(&self) -> &[(Ability, &'static str)] {
        self.adapter.lacks()
    }

    fn create(&self, seed: &ReceiverSeed, domains: &[Domain]) -> Result<String, Cause> {
        self.adapter.create(seed, domains)
    }

    fn open(&self, place: &str) -> Result<Box<dyn Handle>, Cause> {
        Ok(Box::new(Open { handle: self.adapter.open(place)?, fault: self.fault }))
    }

    fn write_without_token(&self, place: &str, domain: &Domain, value: &[u8]) -> Result<(), Cause> {
        self.adapter.write_without_token(place, domain, value)
    }

    fn lose_records(&self, place: &str, way: usize) -> Result<Option<&'static str>, Cause> {
        self.adapter.lose_records(place, way)
    }

    fn back_up(&self, place: &str) -> Result<(), Cause> {
        self.adapter.back_up(place)
    }

    fn restore(&self, place: &str) -> Result<(), Cause> {
        self.adapter.restore(place)?;
        if self.fault == Some(Fault::RestoresAreReopened) {
            let first: Token = "0.1".parse()?;
            let live = vec![LiveLease { domain: Domain::new("d")?, token: first }];
            let seed = ReceiverSeed::new(Issuer::new("prod")?, Epoch::new(1)?).with_snapshot(first, live);
            self.adapter.open(place)?.recover(&seed)?;
        }
        Ok(())
    }

    fn process(&self) -> Result<Command, Cause> {
        self.adapter.process()
    }
}

impl Open {
    fn named<'a>(&self, operation: Option<&'a Operation>) -> Option<&'a Operation> {
        operation.filter(|_| self.fault != Some(Fault::OperationsAreNotNamed))
    }
}

impl Handle for Open {
    fn write(&mut self, target: &Domain, grant: &Grant, operation: Option<&Operation>, value: &[u8]) -> Written {
        let operation = self.named(operation);
        self.handle.write(target, grant, operation, value)
    }

    fn advance(&mut self, grant: &Grant) -> Result<Verdict<()>, AdvanceError> {
        self.handle.advance(grant)
    }

    fn value(&mut self, domain: &Domain) -> Result<Option<Vec<u8>>, Cause> {
        self.handle.value(domain)
    }

    fn read(&mut self, grant: &Grant) -> Result<Verdict<Option<Vec<u8>>>, WriteError<Cause>> {
        if self.fault == Some(Fault::ReadsRaiseNothing) {
            return Ok(Verdict::Applied(self.handle.value(&grant.domain).map_err(WriteError::Unavailable)?));
        }
        self.handle.read(grant)
    }

    fn write_all(&mut self, grants: &[Grant], operation: Option<&Operation>, value: &[u8]) -> Written {
        if self.fault != Some(Fault::DomainsOneByOne) {
            let operation = self.named(operation);
            return self.handle.write_all(grants, operation, value);
        }
        let mut verdict = Verdict::Applied(Vec::new());
        for grant in grants {
            verdict = self.handle.write(&grant.domain, grant, operation, value)?;
            if matches!(verdict, Verdict::Rejected(_)) {
                break;
            }
        }
        Ok(verdict)
    }

    fn write_then_fail(&mut self, grant: &Grant, operation: Option<&Operation>, value: &[u8]) -> Written {
        let operation = self.named(operation);
        self.handle.write_then_fail(grant, operation, value)
    }

    fn write_and_lose_the_answer(&mut self, grant: &Grant, operation: &Operation, value: &[u8]) -> Written {
        self.handle.write_and_lose_the_answer(grant, operation, value)
    }

    fn present(&mut self, target: &Domain, presented: &Presented<'_>, value: &[u8]) -> Written {
        self.handle.present(target, presented, value)
    }

    fn collect(&mut self, next: Token, live: &[LiveLease], horizon: Option<Token>) -> Result<(), Cause> {
        let live = if self.fault == Some(Fault::LiveLeasesAreForgotten) { &[] } else { live };
        self.handle.collect(next, live, horizon)
    }

    fn tell(&mut self, epoch: Epoch, floor: Token) -> Result<(), Cause> {
        self.handle.tell(epoch, floor)
    }

    fn recover(&mut self, seed: &ReceiverSeed) -> Result<(), Cause> {
        self.handle.recover(seed)
    }

    fn records(&mut self, domain: &Domain) -> Result<Records, Cause> {
        self.handle.records(domain)
    }
}

fn is_caught(adapter: &dyn Adapter, fault: Option<Fault>, scenario: &str) -> bool {
    match conformance::tell(&Faulty { adapter, fault }, &Settings::default(), scenario) {
        Outcome::Failed(failure) => {
            println!("{}: {fault:?}\n{failure}", adapter.name());
            true
        }
        Outcome::Passed => false,
        Outcome::NotTried(lacking) => panic!("{}: {scenario} was not tried: {lacking:?}", adapter.name()),
    }
}

/// Mutants: a row of [`FAULTS`] that is taken out; a scenario that no longer asks for what its fault takes away.
#[test]
fn each_capability_that_a_receiver_declares_has_a_mutant_that_is_caught() {
    for (receiver, declared, adapter) in crate::receivers() {
        let is_declared = declared.into_iter().filter(|(is_declared, _)| *is_declared);
        for ability in is_declared.map(|(_, ability)| ability) {
            // Switched on in a process of its own, where its own test catches it.
            let guard = (receiver, "guard_dropped", "a_write_without_a_token_is_refused");
            if ability == Ability::Guard && DEFECTS.contains(&guard) {
                continue;
            }
            let faults: Vec<_> = FAULTS.iter().filter(|(of, ..)| *of == ability).collect();
            assert!(!faults.is_empty(), "{receiver} has no mutant for: {ability}");
            for (_, fault, what, scenario) in faults {
                assert!(is_caught(adapter.as_ref(), Some(*fault), scenario), "{receiver}, not caught: {what}");
                assert!(!is_caught(adapter.as_ref(), None, scenario), "{receiver}, without a fault: {scenario}");
            }
        }
    }
}

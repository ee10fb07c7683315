//! The suite for receivers, told to the receivers there are, and to faulty ones, which it has to find out.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod example;
mod faults;
mod file;
mod memory;
mod mutants;
mod sabotage;
mod sqlite;
mod toy;

use std::{
    path::{Path, PathBuf},
    process::Command,
};

use fencepost_core::{Epoch, Issuer};
use fencepost_receiver::{Capabilities, Cause, MemoryReceiver, Receiver as _, ReceiverSeed, file::FileReceiver};
use fencepost_rusqlite::SqliteFile;
use fencepost_testkit::conformance::{self, Ability, Adapter, Settings};

/// Which adapter a child is to use.
const KIND: &str = "FENCEPOST_CONFORMANCE_KIND";

/// What the suite's processes do; in a run of the tests there is nothing to do.
#[test]
fn child() {
    match std::env::var(KIND).as_deref() {
        Ok("sqlite") => conformance::child(&sqlite::Sqlite::new()),
        Ok("sqlite, two transactions") => conformance::child(&sqlite::Sqlite::in_two_transactions()),
        Ok("file") => conformance::child(&file::Files::new()),
        Ok(other) => panic!("there is no adapter {other}"),
        Err(_) => {}
    }
}

/// What a receiver declares to those who compose with it, or not, by the name that its adapter has for it.
type Declared = [(bool, Ability); 6];

fn declared(capabilities: Capabilities) -> Declared {
    [
        (capabilities.operation_records, Ability::OperationRecords),
        (capabilities.fenced_read, Ability::FencedRead),
        (capabilities.guard, Ability::Guard),
        (capabilities.collection, Ability::Collection),
        (capabilities.several_domains, Ability::WriteAll),
        (capabilities.incarnation, Ability::RestoredBackup),
    ]
}

/// The receivers there are, with what they declare and how they are attacked.
fn receivers() -> Vec<(&'static str, Declared, Box<dyn Adapter>)> {
    let seed = ReceiverSeed::new(Issuer::new("test").unwrap(), Epoch::ZERO);
    vec![
        ("memory", declared(MemoryReceiver::guard(&seed).capabilities()), Box::new(memory::Memory::default())),
        ("sqlite", declared(SqliteFile::new("shop.db").capabilities()), Box::new(sqlite::Sqlite::new())),
        ("file", declared(FileReceiver::new("report").capabilities()), Box::new(file::Files::new())),
    ]
}

#[test]
fn a_receiver_is_attacked_for_what_it_declares_and_for_nothing_else() {
    for (receiver, declared, adapter) in receivers() {
        for (is_declared, ability) in declared {
            let is_attacked = !adapter.lacks().iter().any(|(lacking, _)| *lacking == ability);
            assert_eq!(is_declared, is_attacked, "{receiver}: {ability}");
        }
    }
}

/// The usual amount, or as many random scripts as `FENCEPOST_SCRIPTS` says, from the seed in `FENCEPOST_SEED` on.
fn settings() -> Settings {
    let told = |name: &str| std::env::var(name).ok().map(|text| text.parse::<u64>().unwrap());
    let usual = Settings::default();
    let scripts = told("FENCEPOST_SCRIPTS").map_or(usual.scripts, |scripts| scripts as usize);
    Settings { seed: told("FENCEPOST_SEED").unwrap_or(usual.seed), scripts, ..usual }
}

fn this_binary(kind: &str) -> Result<Command, Cause> {
    let mut command = Command::new(std::env::current_exe()?);
    command.args(["--exact", "child", "--nocapture"]).env(KIND, kind);
    Ok(command)
}

/// Where memory is a file system, because the suite makes hundreds of resources; else the ordinary place.
fn in_memory() -> PathBuf {
    let memory = Path::new("/dev/shm");
    if memory.is_dir() { memory.to_owned() } else { std::env::temp_dir() }
}

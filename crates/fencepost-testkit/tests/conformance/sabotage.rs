//! Mutants of the receivers there are: defects that are compiled in for tests and switched on in processes of their own,
//! a database that was meddled with, and an adapter that uses its receiver wrongly.

use std::process::{Command, Stdio};

use fencepost_testkit::conformance::{self, Adapter, Outcome, Settings};

use crate::{file::Files, sqlite::Sqlite};

/// Which defect is switched on, for the core of this process.
const DEFECT: &str = "FENCEPOST_SABOTAGE";
/// `RECEIVER SCENARIO`, for a process that tells one.
const ATTACK: &str = "FENCEPOST_CONFORMANCE_ATTACK";

const CAUGHT: &str = "the scenario failed";
const SURVIVED: &str = "the scenario passed";

/// Receiver, defect, and the scenario that has to catch it.
pub(crate) const DEFECTS: &[(&str, &str, &str)] = &[
    ("sqlite", "equal_token_refused", "an_equal_token_is_the_same_owner"),
    ("sqlite", "no_advance", "an_advance_raises_the_fence_and_never_lowers_it"),
    ("sqlite", "guard_dropped", "a_write_without_a_token_is_refused"),
    ("sqlite", "replay_after_staleness", "a_retry_is_replayed_to_the_next_owner_and_to_the_last"),
    ("sqlite", "check_outside_transaction", "owners_who_write_at_once_leave_the_newest_value"),
    ("sqlite", "check_outside_transaction", "processes_that_write_at_once_leave_the_newest_value"),
    ("file", "equal_token_refused", "an_equal_token_is_the_same_owner"),
    ("file", "no_advance", "an_advance_raises_the_fence_and_never_lowers_it"),
    ("file", "no_advance", "a_fenced_read_shuts_out_older_tokens"),
    ("file", "replay_after_staleness", "a_retry_is_replayed_to_the_next_owner_and_to_the_last"),
    ("file", "check_outside_transaction", "owners_who_write_at_once_leave_the_newest_value"),
];

/// The scenarios that a mutant here needs, and none of those in one process can show.
pub(crate) const CAUGHT_BY: [&str; 2] =
    ["processes_that_write_at_once_leave_the_newest_value", "a_write_cut_off_by_a_kill_is_settled_by_a_retry"];

/// What a process under a defect does.
#[test]
fn attack() {
    let Ok(told) = std::env::var(ATTACK) else { return };
    let (receiver, scenario) = told.split_once(' ').unwrap();
    let adapter: Box<dyn Adapter> = match receiver {
        "sqlite" => Box::new(Sqlite::new()),
        "file" => Box::new(Files::new()),
        other => panic!("there is no adapter {other}"),
    };
    match conformance::tell(adapter.as_ref(), &Settings::default(), scenario) {
        Outcome::Failed(failure) => println!("{CAUGHT}\n{failure}"),
        Outcome::Passed => println!("{SURVIVED}"),
        Outcome::NotTried(lacking) => panic!("not tried: {lacking:?}"),
    }
}

fn is_caught(receiver: &str, defect: &str, scenario: &str) -> bool {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "sabotage::attack", "--nocapture"]).stderr(Stdio::inherit());
    let output = command.env(ATTACK, format!("{receiver} {scenario}")).env(DEFECT, defect).output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    println!("{receiver} under {defect}:\n{said}");
    assert!(said.contains(CAUGHT) || said.contains(SURVIVED), "the process told nothing");
    said.contains(CAUGHT)
}

#[test]
fn each_defect_of_the_real_receivers_is_caught() {
    let survived: Vec<_> =
        DEFECTS.iter().filter(|(receiver, defect, scenario)| !is_caught(receiver, defect, scenario)).collect();
    assert!(survived.is_empty(), "{survived:#?}");
}

/// The same processes without a defect, so that what is caught above is the defect and not the process.
#[test]
fn without_a_defect_the_same_processes_find_nothing() {
    let mut told: Vec<_> = DEFECTS.iter().map(|(receiver, _, scenario)| (receiver, scenario)).collect();
    told.dedup();
    let found: Vec<_> = told.into_iter().filter(|(receiver, scenario)| is_caught(receiver, "none", scenario)).collect();
    assert!(found.is_empty(), "{found:#?}");
}

fn fails(adapter: &dyn Adapter, scenario: &str) -> bool {
    match conformance::tell(adapter, &Settings::default(), scenario) {
        Outcome::Failed(failure) => {
            println!("{failure}");
            true
        }
        Outcome::Passed | Outcome::NotTried(_) => false,
    }
}

/// Whoever drops the triggers by hand has no guard.
#[test]
fn a_database_without_its_triggers_is_caught() {
    for event in ["insert", "update"] {
        let adapter = Sqlite::meddled_with(match event {
            "insert" => "DROP TRIGGER fencepost_guard_insert_held",
            _ => "DROP TRIGGER fencepost_guard_update_held",
        });
        assert!(fails(&adapter, "a_write_without_a_token_is_refused"), "{event}");
    }
}

/// An adapter that commits the effect first and the record after it. Only a kill between the two can show it.
#[test]
fn an_effect_and_its_record_in_two_transactions_are_caught() {
    let scenario = "a_write_cut_off_by_a_kill_is_settled_by_a_retry";
    assert!(fails(&Sqlite::in_two_transactions(), scenario));
    assert!(!fails(&Sqlite::new(), scenario));
}

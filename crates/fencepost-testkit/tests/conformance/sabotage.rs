//! Mutants of the receivers there are: defects that are compiled in for tests and switched on in processes of their own,
//! a database that was meddled with, and an adapter that uses its receiver wrongly.

use std::{
    collections::BTreeSet,
    process::{Command, Stdio},
    thread,
};

use fencepost_testkit::conformance::{self, Ability, Adapter, Outcome, Settings};

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
    ("sqlite", "replay_raises_nothing", "a_replay_raises_the_fence"),
    ("sqlite", "fingerprint_ignored", "one_id_for_two_requests_is_refused"),
    ("sqlite", "operations_not_recorded", "a_retry_is_replayed_and_runs_nothing"),
    ("sqlite", "unknown_epoch_accepted", "an_unknown_epoch_is_refused_and_shuts_nobody_out"),
    ("sqlite", "floor_spares_fenced_domains", "what_a_recovery_tells_binds_every_domain_and_only_rises"),
    ("sqlite", "other_issuer_accepted", "a_grant_of_another_issuer_changes_nothing"),
    ("sqlite", "other_domain_accepted", "a_grant_for_another_domain_changes_nothing"),
    ("sqlite", "live_fences_collected", "a_live_holder_who_has_not_written_yet_survives_a_collection"),
    ("sqlite", "collection_raises_no_floor", "unfenced_floors_survive_reopening"),
    ("sqlite", "records_collected_early", "an_operation_whose_record_was_collected_is_too_old"),
    ("sqlite", "horizon_ignored", "an_operation_whose_record_was_collected_is_too_old"),
    ("sqlite", "restore_not_noticed", "a_restored_backup_closes_the_receiver"),
    ("sqlite", "recovery_only_opens", "a_restored_backup_closes_the_receiver"),
    ("sqlite", "read_raises_nothing", "a_fenced_read_shuts_out_older_tokens"),
    ("sqlite", "first_domain_only", "a_write_over_two_domains_is_applied_under_both_tokens_or_none"),
    ("sqlite", "lost_records_not_noticed", "lost_records_close_the_receiver"),
    ("sqlite", "lost_records_leave_no_horizon", "lost_records_close_the_receiver"),
    ("sqlite", "telling_not_monotone", "what_a_recovery_tells_binds_every_domain_and_only_rises"),
    ("sqlite", "late_collection_lowers_floor", "a_late_collection_lets_no_older_token_in"),
    ("sqlite", "live_fences_unchecked", "a_late_collection_lets_no_older_token_in"),
    ("file", "equal_token_refused", "an_equal_token_is_the_same_owner"),
    ("file", "no_advance", "an_advance_raises_the_fence_and_never_lowers_it"),
    ("file", "no_advance", "a_fenced_read_shuts_out_older_tokens"),
    ("file", "replay_after_staleness", "a_retry_is_replayed_to_the_next_owner_and_to_the_last"),
    ("file", "check_outside_transaction", "owners_who_write_at_once_leave_the_newest_value"),
    ("file", "replay_raises_nothing", "a_replay_raises_the_fence"),
    ("file", "fingerprint_ignored", "one_id_for_two_requests_is_refused"),
    ("file", "operations_not_recorded", "a_retry_is_replayed_and_runs_nothing"),
    ("file", "unknown_epoch_accepted", "an_unknown_epoch_is_refused_and_shuts_nobody_out"),
    ("file", "floor_spares_fenced_domains", "what_a_recovery_tells_binds_every_domain_and_only_rises"),
    ("file", "other_issuer_accepted", "a_grant_of_another_issuer_changes_nothing"),
    ("file", "other_domain_accepted", "a_grant_for_another_domain_changes_nothing"),
    ("file", "live_fences_collected", "a_live_holder_who_has_not_written_yet_survives_a_collection"),
    ("file", "collection_raises_no_floor", "unfenced_floors_survive_reopening"),
    ("file", "records_collected_early", "an_operation_whose_record_was_collected_is_too_old"),
    ("file", "horizon_ignored", "an_operation_whose_record_was_collected_is_too_old"),
    ("file", "restore_not_noticed", "a_restored_backup_closes_the_receiver"),
    ("file", "recovery_only_opens", "a_restored_backup_closes_the_receiver"),
    ("file", "lost_records_not_noticed", "lost_records_close_the_receiver"),
    ("file", "lost_records_leave_no_horizon", "lost_records_close_the_receiver"),
    ("file", "telling_not_monotone", "what_a_recovery_tells_binds_every_domain_and_only_rises"),
    ("file", "late_collection_lowers_floor", "a_late_collection_lets_no_older_token_in"),
    ("file", "live_fences_unchecked", "a_late_collection_lets_no_older_token_in"),
];

/// The scenarios that a mutant here needs, and none of those in one process can show.
pub(crate) const CAUGHT_BY: [&str; 2] =
    ["processes_that_write_at_once_leave_the_newest_value", "a_write_cut_off_by_a_kill_is_settled_by_a_retry"];

/// The defects, each of which takes a declared capability away inside of the receiver itself.
const OF_CAPABILITY: &[(Ability, &[&str])] = &[
    (Ability::OperationRecords, &["operations_not_recorded"]),
    (Ability::FencedRead, &["read_raises_nothing", "no_advance"]),
    (Ability::Guard, &["guard_dropped"]),
    (Ability::Collection, &["live_fences_collected"]),
    (Ability::WriteAll, &["first_domain_only"]),
    (Ability::RestoredBackup, &["restore_not_noticed"]),
];

/// What a receiver does by its own records and not by the decision that all of them share: each has to be got wrong inside of
/// each receiver with a storage.
const OF_ITS_OWN: &[(&str, &[&str])] = &[
    ("lost_records_close_the_receiver", &["lost_records_not_noticed", "lost_records_leave_no_horizon"]),
    ("what_a_recovery_tells_binds_every_domain_and_only_rises", &["telling_not_monotone"]),
    ("a_late_collection_lets_no_older_token_in", &["late_collection_lowers_floor", "live_fences_unchecked"]),
];

#[test]
fn what_a_receiver_does_by_its_own_records_has_a_defect_inside_of_each_receiver_with_a_storage() {
    for (scenario, defects) in OF_ITS_OWN {
        for pair in defects.iter().flat_map(|defect| ["sqlite", "file"].map(|receiver| (receiver, *defect, *scenario)))
        {
            assert!(DEFECTS.contains(&pair), "{pair:?}");
        }
    }
}

/// The memory receiver is a lock around the core's register, so there is nothing inside of it to get wrong.
#[test]
fn each_capability_of_a_receiver_with_a_storage_has_a_defect_inside_of_it() {
    for (receiver, declared, _) in crate::receivers().into_iter().filter(|(receiver, ..)| *receiver != "memory") {
        for ability in declared.into_iter().filter(|(is_declared, _)| *is_declared).map(|(_, ability)| ability) {
            let (_, takes_it) = OF_CAPABILITY.iter().find(|(of, _)| *of == ability).unwrap();
            let has = DEFECTS.iter().any(|(of, defect, _)| *of == receiver && takes_it.contains(defect));
            assert!(has, "{receiver}: {ability}");
        }
    }
}

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

/// Those for which it holds. Each is a process of its own, so two are told at one time.
fn of_these<T: Copy + Send + Sync>(all: &[T], holds: impl Fn(T) -> bool + Sync) -> Vec<T> {
    let some = |these: &[T]| these.iter().copied().filter(|one| holds(*one)).collect::<Vec<_>>();
    let (one_half, other_half) = all.split_at(all.len() / 2);
    thread::scope(|scope| {
        let others = scope.spawn(|| some(other_half));
        let mut found = some(one_half);
        found.extend(others.join().unwrap());
        found
    })
}

#[test]
fn each_defect_of_the_real_receivers_is_caught() {
    let told: Vec<_> = DEFECTS.iter().collect();
    let survived = of_these(&told, |(receiver, defect, scenario)| !is_caught(receiver, defect, scenario));
    assert!(survived.is_empty(), "{survived:#?}");
}

/// The same processes without a defect, so that what is caught above is the defect and not the process.
#[test]
fn without_a_defect_the_same_processes_find_nothing() {
    let told: BTreeSet<_> = DEFECTS.iter().map(|(receiver, _, scenario)| (receiver, scenario)).collect();
    let told: Vec<_> = told.into_iter().collect();
    let found = of_these(&told, |(receiver, scenario)| is_caught(receiver, "none", scenario));
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

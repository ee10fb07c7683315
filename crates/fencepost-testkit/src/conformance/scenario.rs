use std::time::Instant;

use super::{
    Ability::{
        self, Collection, FailingMutation, FencedRead, Guard, LostAnswer, LostRecords, OperationRecords, Presentation,
        Processes, RestoredBackup, SeveralDomains, Telling, WriteAll,
    },
    Adapter, Outcome, Report, Row,
    script::random_scripts_are_answered_as_the_reference_answers_them,
    stage::{Teller, Told},
    stories::{
        collection::*, guarding::*, names::*, operations::*, order::*, processes::*, races::*, storage::*, together::*,
    },
};

/// How much of each is done. The default takes some seconds with a receiver that syncs to a disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Where the random scripts begin; the same seed tells the same scripts.
    pub seed: u64,
    /// How many random scripts are told.
    pub scripts: usize,
    /// How many steps each of them has.
    pub steps: usize,
    /// How many threads race.
    pub threads: usize,
    /// How often they race in each scenario.
    pub rounds: usize,
    /// How many processes are killed.
    pub kills: usize,
}

impl Default for Settings {
    fn default() -> Self {
        Self { seed: 1, scripts: 40, steps: 40, threads: 4, rounds: 25, kills: 5 }
    }
}

/// A story that every receiver is told.
#[derive(Clone, Copy)]
pub(super) struct Scenario {
    pub(super) name: &'static str,
    pub(super) needs: &'static [Ability],
    pub(super) tell: fn(&Teller<'_>) -> Told,
}

macro_rules! scenarios {
    ($($name:ident $([$($needs:ident),*])?;)*) => {
        &[$(Scenario { name: stringify!($name), needs: &[$($($needs),*)?], tell: $name }),*]
    };
}

pub(super) const SCENARIOS: &[Scenario] = scenarios! {
    an_equal_token_is_the_same_owner;
    an_older_token_is_refused_after_a_write;
    an_advance_raises_the_fence_and_never_lowers_it;
    a_fenced_read_shuts_out_older_tokens [FencedRead];
    tokens_are_ordered_as_integers;
    the_greatest_tokens_are_told_apart;
    an_unknown_epoch_is_refused_and_shuts_nobody_out;
    what_a_recovery_tells_binds_every_domain_and_only_rises [Telling];
    a_grant_of_another_issuer_changes_nothing;
    a_grant_for_another_domain_changes_nothing;
    domains_are_independent [SeveralDomains];
    what_is_no_grant_changes_nothing [Presentation];
    a_write_without_a_token_is_refused [Guard];
    a_retry_is_replayed_and_runs_nothing [OperationRecords];
    a_retry_is_replayed_to_the_next_owner_and_to_the_last [OperationRecords];
    a_replay_raises_the_fence [OperationRecords];
    a_replay_under_a_stale_token_lowers_nothing [OperationRecords];
    one_id_for_two_requests_is_refused [OperationRecords];
    a_refused_operation_is_not_recorded [OperationRecords];
    one_id_in_two_domains_is_two_operations [OperationRecords, SeveralDomains];
    each_operation_has_its_own_result [OperationRecords];
    an_operation_born_after_the_presented_token_is_invalid [OperationRecords];
    a_lost_answer_is_settled_by_a_retry [OperationRecords, LostAnswer];
    a_mutation_that_fails_leaves_nothing_behind [FailingMutation];
    a_write_over_two_domains_is_applied_under_both_tokens_or_none [SeveralDomains, WriteAll];
    a_live_holder_who_has_not_written_yet_survives_a_collection [Collection];
    a_collected_fence_lets_no_older_token_in [Collection];
    a_late_collection_lets_no_older_token_in [Collection];
    an_operation_whose_record_was_collected_is_too_old [OperationRecords, Collection];
    odd_and_long_domains_are_kept_apart;
    odd_and_long_operation_ids_are_kept_apart [OperationRecords];
    fences_survive_reopening;
    floors_survive_reopening [Telling];
    unfenced_floors_survive_reopening [Collection];
    lost_records_close_the_receiver [LostRecords];
    a_restored_backup_closes_the_receiver [RestoredBackup];
    random_scripts_are_answered_as_the_reference_answers_them;
    owners_who_write_at_once_leave_the_newest_value;
    one_operation_asked_for_at_once_happens_once [OperationRecords];
    two_requests_under_one_id_at_once_are_one_and_a_conflict [OperationRecords];
    a_value_read_after_the_advance_loses_no_update;
    a_collection_beside_writers_lets_nobody_old_in_and_shuts_nobody_out [Collection];
    processes_that_write_at_once_leave_the_newest_value [Processes];
    a_write_cut_off_by_a_kill_is_settled_by_a_retry [Processes, OperationRecords];
};

/// The names of all scenarios, in the order of the report.
#[must_use]
pub fn scenarios() -> Vec<&'static str> {
    SCENARIOS.iter().map(|scenario| scenario.name).collect()
}

/// Tells every scenario to resources of this adapter. It ends with a report and never with a panic of its own, so the
/// report has every failure and not only the first.
pub fn run(adapter: &dyn Adapter) -> Report {
    run_with(adapter, &Settings::default())
}

/// The same with other settings: more seeds, or fewer threads.
pub fn run_with(adapter: &dyn Adapter, settings: &Settings) -> Report {
    let teller = Teller { adapter, settings };
    let rows = SCENARIOS.iter().map(|scenario| row(scenario, &teller)).collect();
    Report { receiver: adapter.name(), rows, lacks: adapter.lacks().to_vec() }
}

/// Tells one scenario, for a test of its own.
///
/// # Returns
/// How it ended.
///
/// # Panics
/// When the receiver breaks a promise, with the story; when there is no scenario of that name.
pub fn check(adapter: &dyn Adapter, name: &str) -> Outcome {
    let outcome = tell(adapter, &Settings::default(), name);
    if let Outcome::Failed(failure) = &outcome {
        panic!("{}: {name}\n{failure}", adapter.name());
    }
    outcome
}

/// Tells one scenario.
///
/// # Panics
/// When there is no scenario of that name.
#[must_use]
pub fn tell(adapter: &dyn Adapter, settings: &Settings, name: &str) -> Outcome {
    let scenario = SCENARIOS.iter().find(|scenario| scenario.name == name);
    let scenario = scenario.unwrap_or_else(|| panic!("there is no scenario {name}"));
    row(scenario, &Teller { adapter, settings }).outcome
}

fn row(scenario: &Scenario, teller: &Teller<'_>) -> Row {
    let started = Instant::now();
    let lacking: Vec<_> = scenario.needs.iter().copied().filter(|ability| !teller.has(*ability)).collect();
    let outcome = if lacking.is_empty() {
        match (scenario.tell)(teller) {
            Ok(()) => Outcome::Passed,
            Err(failure) => Outcome::Failed(failure),
        }
    } else {
        Outcome::NotTried(lacking)
    };
    Row { scenario: scenario.name, outcome, took: started.elapsed() }
}

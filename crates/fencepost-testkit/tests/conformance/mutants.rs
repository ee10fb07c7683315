//! Faulty receivers. A scenario that lets its mutant pass is no scenario, and a mutant that no scenario catches is a hole.

use std::collections::BTreeSet;

use fencepost_testkit::conformance::{self, Outcome, Settings};

use crate::{faults, sabotage, toy::Toy};

macro_rules! mutants {
    ($($mutant:ident: $what:literal => $($scenario:ident)+;)*) => {
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub(crate) enum Mutant {
            $($mutant),*
        }

        /// Each mutant, what is wrong with it, and the scenarios that have to catch it.
        const MUTANTS: &[(Mutant, &str, &[&str])] = &[$((Mutant::$mutant, $what, &[$(stringify!($scenario)),+])),*];
    };
}

mutants! {
    EqualTokenRefused: "an equal token is refused" => an_equal_token_is_the_same_owner;
    EqualityInsteadOfOrder: "tokens are compared for equality" => an_older_token_is_refused_after_a_write;
    LastCallerWins: "the fence is what the last caller brought" => an_older_token_is_refused_after_a_write;
    CheckOutsideTheTransaction: "the fence is checked before the transaction" => owners_who_write_at_once_leave_the_newest_value;
    AdvanceDoesNothing: "an advance raises nothing"
        => an_advance_raises_the_fence_and_never_lowers_it a_value_read_after_the_advance_loses_no_update;
    AdvanceNotMonotone: "an advance lowers" => an_advance_raises_the_fence_and_never_lowers_it;
    ReadDoesNotRaise: "a fenced read raises nothing" => a_fenced_read_shuts_out_older_tokens;
    TokensAsTexts: "tokens are compared as texts" => tokens_are_ordered_as_integers;
    SequencesWithoutEpoch: "the epoch is not compared" => tokens_are_ordered_as_integers;
    TokensAsFloats: "tokens are floating-point numbers" => the_greatest_tokens_are_told_apart;
    TokensIn32Bits: "tokens are cut to 32 bits" => the_greatest_tokens_are_told_apart;
    UnknownEpochAccepted: "any epoch is taken" => an_unknown_epoch_is_refused_and_shuts_nobody_out;
    FloorOnlyWithoutFence: "the floor binds only domains without a fence"
        => what_a_recovery_tells_binds_every_domain_and_only_rises;
    TellSets: "epoch and floor are set, not raised" => what_a_recovery_tells_binds_every_domain_and_only_rises;
    IssuerIgnored: "the issuer is not looked at" => a_grant_of_another_issuer_changes_nothing;
    GrantsDomainIgnored: "the grant's domain is not looked at" => a_grant_for_another_domain_changes_nothing;
    OneFenceForAll: "one fence for all domains" => domains_are_independent;
    MissingTokenIsNotFenced: "no token means not fenced" => what_is_no_grant_changes_nothing;
    ContractIgnored: "the contract is not looked at" => what_is_no_grant_changes_nothing;
    WrongSignatureTaken: "a wrong signature counts as none" => what_is_no_grant_changes_nothing;
    GuardDropped: "a write without a token is let through" => a_write_without_a_token_is_refused;
    OperationsNotRecorded: "operations are not recorded" => a_retry_is_replayed_and_runs_nothing;
    OperationsKeptInMemory: "operation records are lost at reopen" => a_retry_is_replayed_and_runs_nothing;
    ReplayAfterStaleness: "staleness is checked before the records"
        => a_retry_is_replayed_to_the_next_owner_and_to_the_last;
    ReplayDoesNotRaise: "a replay does not raise" => a_replay_raises_the_fence;
    ReplayLowers: "a replay sets the fence" => a_replay_under_a_stale_token_lowers_nothing;
    FingerprintIgnored: "the fingerprint is not compared" => one_id_for_two_requests_is_refused;
    ConflictRaises: "a conflict raises the fence" => one_id_for_two_requests_is_refused;
    RefusedIsRecorded: "a refused operation is recorded" => a_refused_operation_is_not_recorded;
    RecordsWithoutDomain: "operation records have no domain" => one_id_in_two_domains_is_two_operations;
    OneResultForAll: "every operation has the same result" => each_operation_has_its_own_result;
    BornNotChecked: "an operation may be born later" => an_operation_born_after_the_presented_token_is_invalid;
    LostAnswerNotRecorded: "a commit whose answer is lost has no record" => a_lost_answer_is_settled_by_a_retry;
    HalfOfAFailureStays: "a failed mutation leaves its value" => a_mutation_that_fails_leaves_nothing_behind;
    DomainsOneByOne: "several domains are written one by one"
        => a_write_over_two_domains_is_applied_under_both_tokens_or_none;
    SetOfDomainsForgotten: "the set of domains is not in the fingerprint"
        => a_write_over_two_domains_is_applied_under_both_tokens_or_none;
    CollectionForgetsLiveLeases: "a collection gives live leases no fence"
        => a_live_holder_who_has_not_written_yet_survives_a_collection;
    CollectionRaisesNoFloor: "a collection raises no floor" => a_collected_fence_lets_no_older_token_in;
    CollectionInsertsUnchecked: "a late collection puts older fences in" => a_late_collection_lets_no_older_token_in;
    CollectionSetsTheFloor: "a late collection lowers the floor" => a_late_collection_lets_no_older_token_in;
    RecordsGoWithoutHorizon: "records are removed without a horizon"
        => an_operation_whose_record_was_collected_is_too_old;
    HorizonSet: "the horizon is set, not raised" => an_operation_whose_record_was_collected_is_too_old;
    DomainsWithoutCase: "domains are compared without case" => odd_and_long_domains_are_kept_apart;
    DomainsWithoutSpaces: "spaces around a domain are cut off" => odd_and_long_domains_are_kept_apart;
    DomainsCut: "domains are cut to 127 characters" => odd_and_long_domains_are_kept_apart;
    OperationsWithoutCase: "operation ids are compared without case" => odd_and_long_operation_ids_are_kept_apart;
    FencesKeptInMemory: "fences are lost at reopen" => fences_survive_reopening;
    FloorsKeptInMemory: "floors are lost at reopen"
        => floors_survive_reopening unfenced_floors_survive_reopening;
    MissingStateIsAFirstWrite: "missing state is a first write" => lost_records_close_the_receiver;
    RecoveryOnlyOpens: "a recovery opens and learns nothing"
        => lost_records_close_the_receiver a_restored_backup_closes_the_receiver;
    RecoveryWithoutHorizon: "lost operation records leave no horizon" => lost_records_close_the_receiver;
    RestoreTakenForItself: "a restored backup is not noticed" => a_restored_backup_closes_the_receiver;
    RecordInASecondStep: "effect and record are two steps" => one_operation_asked_for_at_once_happens_once;
    RecordsLookedAtOutside: "records are looked at before the transaction"
        => one_operation_asked_for_at_once_happens_once two_requests_under_one_id_at_once_are_one_and_a_conflict;
    CollectionInTwoSteps: "a collection is two steps"
        => a_collection_beside_writers_lets_nobody_old_in_and_shuts_nobody_out;
}

const RANDOM: &str = "random_scripts_are_answered_as_the_reference_answers_them";

#[test]
fn the_toy_without_a_mutant_conforms() {
    let report = conformance::run(&Toy::default());
    println!("{report}");
    report.must_pass();
}

fn fails(mutant: Mutant, scenario: &str) -> bool {
    let outcome = conformance::tell(&Toy::with(mutant), &Settings::default(), scenario);
    matches!(outcome, Outcome::Failed(_))
}

#[test]
fn each_mutant_is_caught_by_each_scenario_that_is_to_catch_it() {
    let mut survived = Vec::new();
    for (mutant, what, scenarios) in MUTANTS {
        for scenario in *scenarios {
            let caught = fails(*mutant, scenario);
            println!("{what}: {} by {scenario}", if caught { "caught" } else { "NOT CAUGHT" });
            if !caught {
                survived.push(format!("{what}: by {scenario}"));
            }
        }
    }
    assert!(survived.is_empty(), "{survived:#?}");
}

/// A scenario that catches nothing proves nothing.
#[test]
fn each_scenario_catches_a_mutant() {
    let named = MUTANTS.iter().flat_map(|(_, _, scenarios)| scenarios.iter().copied());
    let catching: BTreeSet<&str> = named.chain(sabotage::CAUGHT_BY).chain([RANDOM]).collect();
    let idle: Vec<_> = conformance::scenarios().into_iter().filter(|name| !catching.contains(name)).collect();
    assert!(idle.is_empty(), "{idle:#?}");
}

/// What one caller after the other cannot see, or what the scripts' few names, tokens and calls do not reach.
const NOT_IN_SCRIPTS: &[Mutant] = &[
    Mutant::CheckOutsideTheTransaction,
    Mutant::RecordInASecondStep,
    Mutant::RecordsLookedAtOutside,
    Mutant::TokensAsFloats,
    Mutant::DomainsWithoutCase,
    Mutant::DomainsWithoutSpaces,
    Mutant::DomainsCut,
    Mutant::OperationsWithoutCase,
    Mutant::MissingTokenIsNotFenced,
    Mutant::ContractIgnored,
    Mutant::WrongSignatureTaken,
    Mutant::GuardDropped,
    Mutant::OneResultForAll,
    Mutant::LostAnswerNotRecorded,
    Mutant::HalfOfAFailureStays,
    Mutant::DomainsOneByOne,
    Mutant::SetOfDomainsForgotten,
    Mutant::MissingStateIsAFirstWrite,
    Mutant::RecoveryOnlyOpens,
    Mutant::RecoveryWithoutHorizon,
    Mutant::RestoreTakenForItself,
];

/// Out of nothing but a seed, and told in few steps.
#[test]
fn random_scripts_find_what_shows_in_a_sequence_of_calls() {
    for (mutant, what, _) in MUTANTS.iter().filter(|(mutant, ..)| !NOT_IN_SCRIPTS.contains(mutant)) {
        let Outcome::Failed(failure) = conformance::tell(&Toy::with(*mutant), &Settings::default(), RANDOM) else {
            panic!("not found: {what}");
        };
        println!("{what}\n{failure}");
        assert!(failure.story.len() <= 6, "{what}: the story is not shrunk\n{failure}");
    }
}

/// The rows of a table in the documentation, where they are missing.
#[test]
fn the_tables_in_the_proofs_are_these() {
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/proofs.md");
    let page = std::fs::read_to_string(page).unwrap();
    let of_toy = MUTANTS.iter().map(|(_, what, scenarios)| {
        let scenarios: Vec<_> = scenarios.iter().map(|scenario| format!("`{scenario}`")).collect();
        format!("| {what} | {} |", scenarios.join(", "))
    });
    let of_defects = sabotage::DEFECTS
        .iter()
        .map(|(receiver, defect, scenario)| format!("| {receiver} | `{defect}` | `{scenario}` |"));
    let rows: Vec<String> = of_toy.chain(of_defects).chain(faults::rows()).collect();
    let missing: Vec<_> = rows.iter().filter(|row| !page.contains(row.as_str())).collect();
    assert!(missing.is_empty(), "docs/proofs.md lacks these rows: {missing:#?}");
    let found = MUTANTS.len() - NOT_IN_SCRIPTS.len();
    assert!(page.contains(&format!("Random scripts find {found} of them")), "docs/proofs.md: {found} by scripts");
}

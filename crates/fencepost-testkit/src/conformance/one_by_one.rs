/// One `#[test]` for each scenario, named like it, told to a fresh adapter: what is written in the brackets is evaluated in
/// each test. What the adapter lacks is printed by the test that would need it.
///
/// ```text
/// fencepost_testkit::conformance_tests!(MyAdapter::new());
/// ```
#[macro_export]
macro_rules! conformance_tests {
    ($adapter:expr) => {
        $crate::conformance_tests! {
            @each ($adapter)
            an_equal_token_is_the_same_owner
            an_older_token_is_refused_after_a_write
            an_advance_raises_the_fence_and_never_lowers_it
            a_fenced_read_shuts_out_older_tokens
            tokens_are_ordered_as_integers
            the_greatest_tokens_are_told_apart
            an_unknown_epoch_is_refused_and_shuts_nobody_out
            what_a_recovery_tells_binds_every_domain_and_only_rises
            a_grant_of_another_issuer_changes_nothing
            a_grant_for_another_domain_changes_nothing
            domains_are_independent
            what_is_no_grant_changes_nothing
            a_write_without_a_token_is_refused
            a_retry_is_replayed_and_runs_nothing
            a_retry_is_replayed_to_the_next_owner_and_to_the_last
            a_replay_raises_the_fence
            a_replay_under_a_stale_token_lowers_nothing
            one_id_for_two_requests_is_refused
            a_refused_operation_is_not_recorded
            one_id_in_two_domains_is_two_operations
            each_operation_has_its_own_result
            an_operation_born_after_the_presented_token_is_invalid
            a_lost_answer_is_settled_by_a_retry
            a_mutation_that_fails_leaves_nothing_behind
            a_write_over_two_domains_is_applied_under_both_tokens_or_none
            a_live_holder_who_has_not_written_yet_survives_a_collection
            a_collected_fence_lets_no_older_token_in
            a_late_collection_lets_no_older_token_in
            an_operation_whose_record_was_collected_is_too_old
            odd_and_long_domains_are_kept_apart
            odd_and_long_operation_ids_are_kept_apart
            fences_survive_reopening
            floors_survive_reopening
            unfenced_floors_survive_reopening
            lost_records_close_the_receiver
            a_restored_backup_closes_the_receiver
            random_scripts_are_answered_as_the_reference_answers_them
            owners_who_write_at_once_leave_the_newest_value
            one_operation_asked_for_at_once_happens_once
            two_requests_under_one_id_at_once_are_one_and_a_conflict
            a_value_read_after_the_advance_loses_no_update
            a_collection_beside_writers_lets_nobody_old_in_and_shuts_nobody_out
            processes_that_write_at_once_leave_the_newest_value
            a_write_cut_off_by_a_kill_is_settled_by_a_retry
        }
    };
    (@each ($adapter:expr) $($scenario:ident)+) => {
        $(
            #[test]
            fn $scenario() {
                let outcome = $crate::conformance::check(&$adapter, stringify!($scenario));
                if let $crate::conformance::Outcome::NotTried(lacking) = outcome {
                    eprintln!("not tried: {lacking:?}");
                }
            }
        )+

        /// A scenario that is added to the suite is told here too.
        #[test]
        fn no_scenario_is_left_out() {
            assert_eq!($crate::conformance::scenarios(), [$(stringify!($scenario)),+]);
        }
    };
}

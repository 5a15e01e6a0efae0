//! Small worlds, with all guards and without each of them.

use depguard_proof::{Guard, World, counterexample, counterexample_path, small, visit};

#[test]
fn all_properties_hold_in_the_small_worlds() {
    for world in small() {
        let name = world.name;
        let report = visit(world, 1);
        assert!(report.violations.is_empty(), "{name}: {:#?}", report.violations);
        assert_eq!(report.unreached, [""; 0], "{name}");
        assert!(report.states > 100, "{name}: {} states", report.states);
    }
}

/// Makes one test for each guard: the world without the guard has a counterexample.
macro_rules! needed {
    ($($name:ident: $guard:ident,)*) => {
        $(
            #[test]
            fn $name() {
                let (world, property) = counterexample(Guard::$guard);
                let (path, states) = counterexample_path(world, property);
                assert!(path.is_some_and(|path| !path.is_empty()), "no counterexample in {states} states");
            }
        )*

        #[test]
        fn there_is_a_test_for_each_guard() {
            let tested = [$(Guard::$guard),*];
            assert!(Guard::ALL.iter().all(|guard| tested.contains(guard)));
        }
    };
}

needed! {
    a_write_by_no_version_loses_marks: WriteByVersion,
    two_deletions_with_one_nonce_take_down_each_others_flag: FlagByEvaluation,
    two_creations_with_one_nonce_take_down_each_others_intent: IntentByEvaluation,
    a_target_that_was_read_before_the_intent_was_stored_may_be_gone: TargetReadAfterIntent,
    a_list_from_before_the_flag_misses_dependents: ListAfterFlag,
    a_flag_is_not_void_by_an_earlier_state_of_the_target: FlagReadBeforeProof,
    an_intent_is_not_void_by_an_earlier_state_of_the_dependent: IntentReadBeforeProof,
    without_take_down_refused_requests_leave_marks: TakeDown,
    merged_notes_that_are_judged_one_by_one_pass_together: JudgedAsWritten,
    the_name_of_a_dependent_does_not_say_that_its_creation_is_over: StoredByUid,
    the_uid_of_a_dependent_does_not_say_that_its_update_is_over: UpdateNotByUid,
    a_mark_is_younger_than_the_request_that_reads_it: TimeAfterRead,
    a_cleaner_that_writes_by_no_version_loses_marks: CleanByVersion,
    a_shared_mark_that_is_not_kept_closed_is_missed: SharedKeptClosed,
    a_shared_mark_that_was_read_before_the_review_may_be_gone: SharedReadAfterReview,
    a_new_register_that_is_open_misses_marks: ClosedWhenNew,
    a_terminating_target_is_as_good_as_gone: TerminatingRefuses,
    a_creation_whose_name_is_taken_must_not_pass_without_an_intent: TakenNameRefuses,
    a_mark_must_outlive_its_request: KeptLongerThanRequests,
    a_deletion_must_be_reviewed_again_if_the_target_has_changed: ReviewedAgain,
    once_the_time_of_marks_is_not_enough_after_a_rule_is_known: WaitTwiceAfterRule,
    a_deletion_without_a_review_leaves_dangling_references: Reviews,
    a_dependent_of_two_owners_stays_for_the_other: EachOwnerCounts,
    the_collector_finds_no_owner_of_an_unserved_version: OwnerIsServed,
    a_cluster_scoped_dependent_outlives_its_owner_in_a_namespace: OwnerInReach,
    a_deletion_that_orphans_leaves_owned_dependents: OrphaningCounts,
    a_terminating_target_that_orphans_takes_no_new_dependent_along: TerminatingOrphanRefuses,
    an_update_that_takes_the_owner_away_leaves_a_reference_behind: OwnersReviewed,
    a_dependent_of_a_target_that_is_gone_may_lose_its_owner: GoneOwnerCounts,
    a_second_deletion_that_orphans_leaves_owned_dependents: OrphaningReviewedAgain,
    an_override_that_orphans_hangs_if_the_collector_is_refused: LetGoPasses,
    a_register_opened_at_once_while_creations_are_reviewed_misses_marks: OpenedAtOnceOnlyUnused,
    replicas_with_two_keys_miss_each_others_marks: GenerationInPath,
    marks_of_a_former_generation_are_missed_by_the_next: FormerRegistersGo,
}

/// Coarse steps leave out nothing that matters, but for the guards that are about the moments in between.
#[test]
fn coarse_steps_find_the_same_counterexamples() {
    let within_steps = [
        Guard::WriteByVersion,
        Guard::CleanByVersion,
        Guard::TimeAfterRead,
        Guard::TargetReadAfterIntent,
        Guard::FlagReadBeforeProof,
        Guard::SharedReadAfterReview,
    ];
    for guard in Guard::ALL.into_iter().filter(|guard| !within_steps.contains(guard)) {
        let (world, property) = counterexample(guard);
        let coarse = World { is_coarse: true, zombies: false, ..world };
        let (path, states) = counterexample_path(coarse, property);
        assert!(path.is_some(), "{guard:?}: no counterexample in {states} states");
    }
}

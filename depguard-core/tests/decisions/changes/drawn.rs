//! Properties that hold of every creation and update, in every world.

use std::collections::BTreeMap;

use depguard_core::Rule;
use depguard_core::api::FailurePolicy;
use depguard_core::decision::AllowReason;
use proptest::prelude::*;
use proptest::sample::Index;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;
use serde_json::{Value, json};

use crate::generated::{ChangeCase, change_case};
use crate::naive::{NaiveVerdict, Said, missing};
use crate::properties::{anything, failure, in_some_order};
use crate::world::*;

fn outcome(ChangeCase { world, old, object }: &ChangeCase) -> Outcome {
    match old {
        Some(old) => world.updates(old, object),
        None => world.creates(object),
    }
}

fn review(ChangeCase { old, object, .. }: &ChangeCase) -> Value {
    old.as_ref().map_or_else(|| object.creation(), |old| object.update(old))
}

fn decided(outcome: &Outcome) -> (NaiveVerdict, Said) {
    (NaiveVerdict::from_decision(&outcome.decision), Said::from_decision(&outcome.decision))
}

fn naive(ChangeCase { world, old, object }: &ChangeCase) -> (NaiveVerdict, Said) {
    missing::decide(world, old.as_ref(), object)
}

/// Returns true if no rule is in error.
fn is_usable(world: &World) -> bool {
    world.rules.iter().all(|rule| Rule::parse(world.control_plane, rule).is_ok())
}

/// Returns the case with each dependency's outcome replaced.
fn with_outcomes(mut case: ChangeCase, outcome: impl Fn(&Value) -> Value) -> ChangeCase {
    for rule in &mut case.world.rules {
        for dependency in rule["spec"]["dependencies"].as_array_mut().unwrap() {
            dependency["onMissing"] = outcome(&dependency["onMissing"]);
        }
    }
    case
}

proptest! {
    // Each case runs several evaluations.
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn the_decision_is_the_naive_one(case in change_case()) {
        prop_assert_eq!(decided(&outcome(&case)), naive(&case));
    }

    #[test]
    fn an_object_less_never_turns_refuse_into_allow(case in change_case()) {
        let mut refused = false;
        for left in (0..=case.world.objects.len()).rev() {
            let fewer = ChangeCase { world: case.world.but(|world| world.objects.truncate(left)), ..case.clone() };
            let decided = decided(&outcome(&fewer));
            prop_assert!(!refused || !decided.0.allowed(), "without {left} of {:?}", case.world.objects);
            refused = !decided.0.allowed();
            prop_assert_eq!(decided, naive(&fewer));
        }
    }

    #[test]
    fn an_update_that_no_rule_reads_is_allowed_without_a_question(case in change_case()) {
        let ChangeCase { world, object, .. } = case;
        if !is_usable(&world) {
            return Ok(());
        }
        let changed = object.clone().annotated("example.com/unread", "b").set("/status", json!({"unread": 1}));
        let outcome = world.updates(&object, &changed);
        prop_assert!(outcome.decision.allowed() && outcome.asked.is_empty(), "{:?}", outcome.asked);
    }

    #[test]
    fn a_creation_is_an_update_of_an_object_without_references(case in change_case()) {
        let ChangeCase { world, object, .. } = case;
        let bare = object.clone().set("/spec", json!({})).set("/metadata/annotations", json!({}));
        let nothing = [AllowReason::NoNewReference, AllowReason::NoRule].map(NaiveVerdict::Allowed);
        if !nothing.contains(&decided(&world.creates(&bare)).0) {
            return Ok(());
        }
        let (created, updated) = (world.creates(&object), world.updates(&bare, &object));
        prop_assert_eq!(decided(&created), decided(&updated));
        prop_assert_eq!(created.asked, updated.asked);
    }

    #[test]
    fn a_reference_that_is_there_twice_counts_as_one(case in change_case()) {
        // From the object to itself nothing begins to count, whatever the old state was.
        let ChangeCase { world, old, object } = &case;
        if !is_usable(world) {
            return Ok(());
        }
        prop_assert!(world.updates(object, object).decision.allowed());
        if let Some(old) = old {
            // Where an owner is taken away, discovery may be read besides the targets.
            let targets = |outcome: Outcome| outcome.asked.iter().filter(|query| query.path.matches('/').count() > 3).count();
            let fewer = targets(world.updates(old, object));
            prop_assert!(fewer <= targets(world.creates(object)));
        }
    }

    #[test]
    fn nothing_but_a_deny_rule_ever_refuses(case in change_case(), at in any::<Index>(), failure in failure()) {
        let case = with_outcomes(case, |outcome| if *outcome == "Deny" { "Warn".into() } else { outcome.clone() });
        let asked = outcome(&case).asked;
        let at = if asked.is_empty() { None } else { Some(at.get(&asked).id) };
        let world = &case.world;
        let outcome = world.change_with(&review(&case), |query| {
            if Some(query.id) == at { failure.clone() } else { Some(world.reply(&query.path)) }
        });
        prop_assert!(outcome.decision.allowed());
    }

    #[test]
    fn one_failure_among_the_answers_never_lets_more_pass(case in change_case(), at in any::<Index>(), failure in failure()) {
        let straight = outcome(&case);
        if case.world.failure_policy == FailurePolicy::Ignore || straight.asked.is_empty() {
            return Ok(());
        }
        let (at, world) = (at.get(&straight.asked).id, &case.world);
        let outcome = world.change_with(&review(&case), |query| {
            if query.id == at { failure.clone() } else { Some(world.reply(&query.path)) }
        });
        prop_assert!(!outcome.decision.allowed() || straight.decision.allowed());
        // Each answer is needed: without one of them, something is unknown.
        prop_assert_ne!(outcome.decision.label(), "targets-exist");
    }

    #[test]
    fn pages_and_orders_do_not_matter(
        case in change_case(),
        page in 1..5usize,
        objects in any::<prop::sample::Selector>(),
        picks in prop::collection::vec(any::<Index>(), 1..20),
    ) {
        let shuffled = case.world.but(|world| {
            world.objects = in_some_order(&objects, &world.objects);
            world.bindings = in_some_order(&objects, &world.bindings);
            world.rules.reverse();
        });
        let mut picks = picks.iter().cycle();
        let paged = shuffled.but(|world| world.page = page);
        let outcome = shuffled.change_in_order(
            &review(&case),
            |open| picks.next().unwrap().index(open),
            |query| Some(if query.path.contains("apibindings") { &paged } else { &shuffled }.reply(&query.path)),
        );
        prop_assert_eq!(decided(&outcome), naive(&case));
    }

    #[test]
    fn whatever_is_answered_there_is_a_decision(
        case in change_case(),
        replies in prop::collection::vec(anything(), 0..12),
        picks in prop::collection::vec(any::<Index>(), 1..12),
    ) {
        let (mut replies, mut picks) = (replies.into_iter(), picks.iter().cycle());
        let outcome = case.world.change_in_order(
            &review(&case),
            |open| picks.next().unwrap().index(open),
            |query| replies.next().map(|reply| reply.unwrap_or_else(|| case.world.reply(&query.path))),
        );
        let review: Value = serde_json::from_slice(&outcome.decision.to_review("1")).unwrap();
        prop_assert_eq!(review["response"]["allowed"].as_bool(), Some(outcome.decision.allowed()));
        if let Some(denial) = outcome.decision.denial() {
            prop_assert!(denial.message().len() < 12_000);
        }
    }
}

/// Guards the properties above: they must meet changes of every sort.
#[test]
fn the_changes_are_of_every_sort() {
    let mut runner = TestRunner::deterministic();
    let mut seen = BTreeMap::new();
    for _ in 0..1500 {
        let case = change_case().new_tree(&mut runner).unwrap().current();
        let outcome = outcome(&case);
        *seen.entry(outcome.decision.label()).or_insert(0) += 1;
    }
    let rare: Vec<_> = seen.iter().filter(|(_, count)| **count < 5).collect();
    assert!(rare.is_empty() && seen.len() == 10, "{seen:?}");
}

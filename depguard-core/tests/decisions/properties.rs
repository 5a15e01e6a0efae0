//! Properties that hold in every world.

use std::collections::{BTreeMap, BTreeSet};

use depguard_core::api::FailurePolicy;
use depguard_core::decision::AllowReason;
use depguard_core::lookup::ListReader;
use depguard_core::scan::{Extractor, Item};
use depguard_core::{FieldPath, Query};
use proptest::prelude::*;
use proptest::sample::Index;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;
use serde_json::{Value, json};

use crate::generated::{Case, any_object, case, softened_case};
use crate::naive::{self, NaiveVerdict, Said};
use crate::world::*;

fn verdict(Case { world, target }: &Case) -> NaiveVerdict {
    NaiveVerdict::from_decision(&world.deletes(target).decision)
}

/// Generates answers that hold no knowledge.
pub(crate) fn failure() -> impl Strategy<Value = Option<Reply>> {
    let empty = |metadata: Value| Reply::ok(&json!({"metadata": metadata, "items": []}));
    prop_oneof![
        prop::sample::select(vec![301, 400, 401, 403, 429, 500, 503]).prop_map(|code| Some(Reply::Http(code, vec![]))),
        Just(Some(empty(json!({})))),
        Just(Some(empty(json!({"resourceVersion": ""})))),
        Just(Some(Reply::Http(200, b"{}".to_vec()))),
        Just(Some(Reply::Http(200, vec![]))),
        Just(Some(Reply::Cut)),
        Just(None),
    ]
}

/// Generates answers after which depguard can learn the same in another way.
fn detour() -> impl Strategy<Value = Reply> {
    prop_oneof![
        Just(Reply::Http(410, vec![])),
        Just(Reply::TooLarge),
        Just(Reply::not_found()),
        Just(Reply::Http(400, vec![]))
    ]
}

fn is_scope(query: &Query) -> bool {
    !query.path.contains('?') && (query.path.contains("/namespaces/") || query.path.contains("/logicalclusters/"))
}

fn is_discovery(query: &Query) -> bool {
    !query.path.contains('?')
}

/// Generates paths that lead to the same values, by names, wildcards and indexes.
fn paths() -> impl Strategy<Value = Vec<String>> {
    let step = prop::sample::select(vec![
        ".ref",
        ".refs",
        ".name",
        ".map",
        ".a",
        "['a']",
        "[*]",
        ".*",
        "[0]",
        "[1]",
        ".json",
        ".fromJSON()",
    ]);
    let steps = prop::collection::vec(step, 0..4)
        .prop_filter("at most four", |steps| steps.iter().filter(|step| step.contains('*')).count() <= 3)
        .prop_filter("at most one", |steps| steps.iter().filter(|step| step.contains("()")).count() <= 1);
    let start = prop::sample::select(vec![".spec", ".metadata", "[*]"]);
    prop::collection::vec((start, steps).prop_map(|(start, steps)| format!("{start}{}", steps.concat())), 1..6)
}

proptest! {
    #[test]
    fn each_of_several_paths_reads_what_stands_there(paths in paths(), objects in prop::collection::vec(any_object(), 0..5)) {
        let parsed: Vec<_> = paths.iter().map(|path| FieldPath::parse(path).unwrap()).collect();
        let items: Vec<_> = objects.iter().map(|object| &object.json).collect();
        let list = json!({"metadata": {"resourceVersion": "1"}, "items": items}).to_string();
        let mut read: Vec<Vec<Vec<String>>> = Vec::new();
        let each = |item: &Item<'_, '_>| {
            read.push((0..paths.len()).map(|path| item.values(path).map(str::to_owned).collect()).collect());
        };
        Extractor::new(&parsed).page(list.as_bytes(), each).unwrap();
        let strings = |object: &Value, path: &String| -> Vec<String> {
            let texts = |value: &Value| match value {
                Value::String(text) => vec![text.clone()],
                Value::Array(list) => list.iter().filter_map(|value| value.as_str().map(str::to_owned)).collect(),
                _ => Vec::new(),
            };
            naive::reference::at(object, path).into_iter().flat_map(|(_, value)| texts(value)).collect()
        };
        let expected: Vec<Vec<_>> =
            items.iter().map(|object| paths.iter().map(|path| strings(object, path)).collect()).collect();
        prop_assert_eq!(read, expected);
    }
}

proptest! {
    // Each case runs several evaluations.
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn the_decision_is_the_naive_one(case in prop_oneof![case().boxed(), softened_case().boxed()]) {
        let decision = case.world.deletes(&case.target).decision;
        prop_assert_eq!((NaiveVerdict::from_decision(&decision), Said::from_decision(&decision)), naive::decide(&case.world, &case.target));
    }

    #[test]
    fn lists_that_are_shared_decide_as_ones_of_their_own(
        case in softened_case(), others in prop::collection::vec(any_object(), 0..5), page in 1..5usize,
    ) {
        let world = case.world.but(|world| {
            world.page = page;
            // In a real server, each name belongs to one object.
            let mut seen = BTreeSet::new();
            world.objects.retain(|Object { kind, json }| {
                let [namespace, name] = ["namespace", "name"].map(|field| json["metadata"][field].to_string());
                seen.insert((kind.group, kind.resource, namespace, name))
            });
        });
        let targets: Vec<_> = std::iter::once(case.target).chain(others).collect();
        for (target, together) in targets.iter().zip(world.deletes_together(&targets)) {
            let alone = world.deletes(target).decision;
            prop_assert_eq!(NaiveVerdict::from_decision(&together.decision), NaiveVerdict::from_decision(&alone));
            prop_assert_eq!(Said::from_decision(&together.decision), Said::from_decision(&alone));
        }
    }

    #[test]
    fn nothing_but_a_deny_rule_ever_refuses(case in softened_case(), at in any::<Index>(), failure in failure()) {
        let Case { mut world, target } = case;
        for rule in &mut world.rules {
            for dependency in rule["spec"]["dependencies"].as_array_mut().unwrap() {
                if dependency["onDelete"] == "Deny" || dependency["onDelete"].is_null() {
                    dependency["onDelete"] = "Warn".into();
                }
            }
        }
        let asked = world.deletes(&target).asked;
        let at = if asked.is_empty() { None } else { Some(at.get(&asked).id) };
        let outcome = world.review_with(&target.deletion(), |query| {
            if Some(query.id) == at { failure.clone() } else { Some(world.reply(&query.path)) }
        });
        prop_assert!(outcome.decision.allowed());
    }

    #[test]
    fn rules_that_are_ignored_when_they_fail_refuse_only_for_blockers(
        case in softened_case(), at in any::<Index>(), failure in failure(),
    ) {
        let Case { mut world, target } = case;
        for rule in &mut world.rules {
            rule["spec"]["failurePolicy"] = "Ignore".into();
        }
        world.failure_policy = FailurePolicy::Ignore;
        let asked = world.deletes(&target).asked;
        let at = if asked.is_empty() { None } else { Some(at.get(&asked).id) };
        let outcome = world.review_with(&target.deletion(), |query| {
            if Some(query.id) == at { failure.clone() } else { Some(world.reply(&query.path)) }
        });
        if let NaiveVerdict::Denied { blockers, problems } = NaiveVerdict::from_decision(&outcome.decision) {
            prop_assert!(!blockers.is_empty() && !problems);
        }
    }

    #[test]
    fn pages_and_orders_do_not_matter(
        case in softened_case(),
        page in 1..5usize,
        objects in any::<prop::sample::Selector>(),
        picks in prop::collection::vec(any::<Index>(), 1..20),
    ) {
        let Case { world, target } = &case;
        let shuffled = world.but(|world| {
            world.page = page;
            world.objects = in_some_order(&objects, &world.objects);
            world.bindings = in_some_order(&objects, &world.bindings);
            world.rules.reverse();
        });
        let mut picks = picks.iter().cycle();
        let outcome = shuffled.review_in_order(
            &target.deletion(),
            |open| picks.next().unwrap().index(open),
            |query| Some(shuffled.reply(&query.path)),
        );
        prop_assert_eq!(NaiveVerdict::from_decision(&outcome.decision), verdict(&case));
    }

    #[test]
    fn a_dependent_less_never_turns_allow_into_deny(case in softened_case(), more in any_object()) {
        let with = Case { world: case.world.with(more), ..case.clone() };
        let mut allowed = verdict(&with).allowed();
        for left in (0..with.world.objects.len()).rev() {
            let fewer = Case { world: with.world.but(|world| world.objects.truncate(left)), ..with.clone() };
            let fewer_allowed = verdict(&fewer).allowed();
            prop_assert!(fewer_allowed || !allowed, "removing {:?}", with.world.objects[left]);
            allowed = fewer_allowed;
        }
    }

    #[test]
    fn one_failure_among_the_answers_is_refused(case in case(), at in any::<Index>(), page in 1..4usize, failure in failure()) {
        let Case { world, target } = &case;
        let world = world.but(|world| world.page = page);
        let Outcome { decision, asked } = world.deletes(target);
        prop_assume!(!asked.is_empty());
        let at = at.get(&asked);
        // After this answer the list is read in full.
        let is_detour = at.path.contains("fieldSelector") && matches!(failure, Some(Reply::Http(400, _)));
        prop_assume!(!is_detour);
        let outcome = world.review_with(&target.deletion(), |query| {
            if query.id == at.id { failure.clone() } else { Some(world.reply(&query.path)) }
        });
        // Each query is necessary, so the decision cannot be known if any one answer is missing. The exception: of two
        // scopes that are torn down around the same object, one may suffice.
        let may_do_without = is_scope(at) && decision.allowed();
        prop_assert!(!outcome.decision.allowed() || may_do_without, "{:?}", asked);
    }

    #[test]
    fn one_detour_among_the_answers_never_lets_more_pass(
        case in case(), at in any::<Index>(), page in 1..4usize, detour in detour(),
    ) {
        let Case { world, target } = &case;
        let world = world.but(|world| world.page = page);
        let straight = world.deletes(target);
        // A kind that discovery does not find does not exist. Only this 404 holds knowledge.
        let leads_on = |query: &&Query| match detour {
            Reply::Http(400, _) => query.path.contains("fieldSelector"),
            _ => !is_discovery(query),
        };
        let lists: Vec<_> = straight.asked.iter().filter(leads_on).collect();
        prop_assume!(!lists.is_empty());
        let at = at.get(&lists).id;
        let outcome = world.review_with(&target.deletion(), |query| {
            Some(if query.id == at { detour.clone() } else { world.reply(&query.path) })
        });
        match detour {
            Reply::Http(404, _) => prop_assert!(!outcome.decision.allowed() || straight.decision.allowed()),
            _ => prop_assert_eq!(outcome.decision.verdict(), straight.decision.verdict()),
        }
    }

    #[test]
    fn whatever_is_answered_a_reading_ends(
        case in case(), tabled: bool, replies in prop::collection::vec(anything(), 0..12),
    ) {
        let world = case.world.but(|world| world.prints = |_| true);
        let (mut evaluation, lookups) = world.lookups(&case.target);
        for lookup in lookups {
            let tabled = tabled && lookup.columns().is_some();
            let mut reading = if tabled { ListReader::by_table(vec![lookup]) } else { ListReader::by_scan(vec![lookup]) }.unwrap();
            let mut replies = replies.clone().into_iter().flatten();
            let mut asked = 0;
            while let Some(request) = reading.next() {
                let reply = replies.next().unwrap_or_else(|| world.reply(&request.path));
                reading.answer(reply.as_answer());
                asked += 1;
                prop_assert!(asked < 1_000, "it asks without end");
            }
            let lookup = reading.into_lookups().remove(0);
            prop_assert!(lookup.has_ended() || tabled);
            evaluation.finish(lookup);
        }
        evaluation.decide();
    }

    #[test]
    fn a_list_that_fails_lets_none_of_those_go_who_share_it(case in case(), failure in failure()) {
        let (mut evaluation, lookups) = case.world.lookups(&case.target);
        prop_assume!(!lookups.is_empty());
        for lookup in lookups {
            let mut reading = ListReader::by_scan(vec![lookup]).unwrap();
            while reading.next().is_some() {
                match &failure {
                    Some(reply) => reading.answer(reply.as_answer()),
                    None => break,
                }
            }
            evaluation.finish(reading.into_lookups().remove(0));
        }
        prop_assert!(!evaluation.decide().allowed());
    }

    #[test]
    fn whatever_is_answered_there_is_a_decision(
        case in softened_case(),
        replies in prop::collection::vec(anything(), 0..12),
        picks in prop::collection::vec(any::<Index>(), 1..12),
    ) {
        let Case { world, target } = &case;
        let (mut replies, mut picks) = (replies.into_iter(), picks.iter().cycle());
        let outcome = world.review_in_order(
            &target.deletion(),
            |open| picks.next().unwrap().index(open),
            |query| replies.next().map(|reply| reply.unwrap_or_else(|| world.reply(&query.path))),
        );
        let review: Value = serde_json::from_slice(&outcome.decision.to_review("1")).unwrap();
        prop_assert_eq!(review["response"]["allowed"].as_bool(), Some(outcome.decision.allowed()));
        if let Some(denial) = outcome.decision.denial() {
            prop_assert!(denial.message().len() < 12_000);
        }
    }
}

pub(crate) fn in_some_order<T: Clone>(order: &prop::sample::Selector, all: &[T]) -> Vec<T> {
    let mut left: Vec<_> = (0..all.len()).collect();
    let mut ordered = Vec::new();
    while !left.is_empty() {
        let at = order.select(0..left.len());
        ordered.push(all[left.remove(at)].clone());
    }
    ordered
}

/// Generates any answer; `None` stands for the right one.
pub(crate) fn anything() -> impl Strategy<Value = Option<Reply>> {
    let status = prop::sample::select(vec![0, 200, 200, 200, 403, 404, 410, 500]);
    let fragments = prop::sample::select(vec![
        "{",
        "}",
        "[",
        "]",
        ",",
        ":",
        "null",
        "1e999",
        "\"items\"",
        "\"metadata\"",
        "\"continue\"",
        "\"resourceVersion\"",
        "\"versions\"",
        "\"resources\"",
        "\"name\"",
        "\"v1\"",
        "\"\\ud800\"",
        "\"\u{0}\"",
    ]);
    let body = prop_oneof![
        prop::collection::vec(any::<u8>(), 0..40),
        prop::collection::vec(fragments, 0..16).prop_map(|fragments| fragments.concat().into_bytes()),
        Just(br#"{"items":[],"metadata":{"resourceVersion":"1","continue":"x"}}"#.to_vec()),
        Just(br#"{"items":[{"metadata":{"name":"a"}}],"metadata":{"resourceVersion":"1"},"status":{}}"#.to_vec()),
        Just(br#"{"versions":[{"version":"v1"},{"version":"v9"}]}"#.to_vec()),
    ];
    prop_oneof![
        1 => Just(None),
        1 => Just(Some(Reply::TooLarge)),
        1 => Just(Some(Reply::Cut)),
        6 => (status, body).prop_map(|(status, body)| Some(Reply::Http(status, body))),
    ]
}

/// Guards the properties above: they must meet worlds of every sort.
#[test]
fn the_worlds_are_of_every_sort() {
    let mut runner = TestRunner::deterministic();
    let mut seen = BTreeMap::new();
    for _ in 0..1600 {
        let case = case().new_tree(&mut runner).unwrap().current();
        let sort = match verdict(&case) {
            NaiveVerdict::Allowed(AllowReason::NoRule) => "no rule",
            NaiveVerdict::Allowed(AllowReason::NotBound) => "not bound",
            NaiveVerdict::Allowed(AllowReason::Terminating) => "terminating",
            NaiveVerdict::Allowed(AllowReason::Unreferenced) => "unreferenced",
            NaiveVerdict::Allowed(AllowReason::TornDown) => "torn down",
            NaiveVerdict::Allowed(because) => panic!("{because:?}"),
            NaiveVerdict::Denied { blockers, problems } => match (blockers.len(), problems) {
                (0, _) => "undecided",
                (1, false) => "one blocker",
                (_, false) => "several blockers",
                (_, true) => "blockers and problems",
            },
        };
        *seen.entry(sort).or_insert(0) += 1;
    }
    assert!(seen.len() == 9 && seen.values().all(|count| *count >= 10), "{seen:?}");
}

//! Rules of a stranger, whom the consumer has not bound: they change neither the marks nor the queries of others.

use depguard_core::decision::AllowReason;
use depguard_core::interlocked::{InterlockedDeletion, InterlockedReferences};
use depguard_core::protocol::ObjectReview;
use depguard_core::{Context, Decision, Evaluation, Review, RuleSet};
use serde_json::{Value, json};

use crate::cast::*;
use crate::world::*;

const STRANGER: &str = "strang3r";
/// Numbers of dependencies of the stranger's rule: one, many, the most whose references a review may have, and more.
const DEPENDENCIES: [usize; 4] = [1, 100, 499, 600];
const HINT: &str = "/apis/apis.kcp.io/v1alpha2/apibindings?resourceVersion=0&limit=500";
const VPC_A: &str = "/apis/network.example.com/v1alpha1/namespaces/ns/vpcs/a";

/// Outcome of a review in the interlock: the queries, the part in it, and the decision.
#[derive(Debug)]
struct Reviewed<T> {
    asked: Vec<String>,
    part: Result<Option<T>, Decision>,
    decision: Decision,
}

fn interlocked() -> World {
    ruled(&bound(), "/spec/dependencies/0/onMissing", "Deny").with(vpc("ns", "a").set("/metadata/resourceVersion", "7"))
}

/// Returns a rule of the stranger, whose export has the group and resource of the VMs, about this many kinds of its own.
fn strange(dependencies: usize) -> Value {
    let mut rule = rule(STRANGER, VM, ".metadata.name", "root:strange", VPC);
    let dependency = rule["spec"]["dependencies"][0].clone();
    let about = |n| {
        let mut dependency = dependency.clone();
        dependency["resource"] = format!("k{n}s").into();
        dependency["apiExportRef"]["name"] = format!("strange.{NETWORK_GROUP}").into();
        dependency["onMissing"] = "Deny".into();
        dependency
    };
    rule["spec"]["dependencies"] = (0..dependencies).map(about).collect();
    rule
}

/// Returns the world with the stranger's rule in front of the others.
fn beside(world: &World, rule: Value) -> World {
    world.but(|world| {
        world.knows("root:strange", STRANGER);
        world.rules.insert(0, rule);
    })
}

fn context(world: &World) -> Context<'_> {
    Context::default().with_workspaces(&world.workspaces)
}

/// Answers all queries of the evaluation.
fn answer(world: &World, evaluation: &mut Evaluation, asked: &mut Vec<String>) {
    loop {
        let queries = evaluation.queries();
        if queries.is_empty() {
            return;
        }
        for query in queries {
            evaluation.answer(query.id, world.reply(&query.path).as_answer());
            asked.push(query.path);
        }
    }
}

/// Reviews a creation; `hint` is the world that the API server's cache shows.
fn creates(world: &World, hint: &World, object: &Object) -> Reviewed<InterlockedReferences> {
    let rules = RuleSet::load(world.control_plane, &world.rules);
    let review = object.clone().set("/metadata/uid", "m").creation().to_string();
    let review = ObjectReview::parse(review.as_bytes()).unwrap();
    let mut evaluation = rules.evaluate_references(&review, &context(world));
    let mut asked = Vec::new();
    if evaluation.seek_hint() {
        answer(hint, &mut evaluation, &mut asked);
    }
    let part = evaluation.interlocked_references(&review).map_err(|refused| *refused);
    answer(world, &mut evaluation, &mut asked);
    Reviewed { asked, part, decision: evaluation.decide() }
}

fn deletes(world: &World, object: &Object) -> Reviewed<InterlockedDeletion> {
    let rules = RuleSet::load(world.control_plane, &world.rules);
    let review = object.clone().set("/metadata/resourceVersion", "7").deletion().to_string();
    let review = Review::parse(review.as_bytes()).unwrap();
    let mut evaluation = rules.evaluate(&review, &context(world));
    let mut asked = Vec::new();
    answer(world, &mut evaluation, &mut asked);
    let bearing = evaluation.bearing_edges();
    let part = rules.interlocked_deletion(&review, &context(world), &bearing).map_err(|refused| *refused);
    Reviewed { asked, part, decision: evaluation.decide() }
}

#[test]
fn a_strangers_rule_changes_no_query_and_no_mark() {
    let honest = interlocked();
    let (machine, vpc) = (vm("ns", "m1", "a"), vpc("ns", "a"));
    let (created, deleted) = (creates(&honest, &honest, &machine), deletes(&honest, &vpc));
    assert_eq!(created.asked, [HINT, BINDINGS, VPC_A]);
    assert!(created.decision.allowed() && deleted.decision.allowed());
    assert!(matches!((&created.part, &deleted.part), (Ok(Some(_)), Ok(Some(_)))));
    for dependencies in DEPENDENCIES {
        let world = beside(&honest, strange(dependencies));
        assert_eq!(format!("{:?}", creates(&world, &world, &machine)), format!("{created:?}"), "{dependencies}");
        assert_eq!(format!("{:?}", deletes(&world, &vpc)), format!("{deleted:?}"), "{dependencies}");
        // The stranger's own consumer has all references checked and marked, or is refused.
        let bound = world.but(|world| world.bindings = vec![binding(STRANGER, "root:strange", VM)]);
        let part = creates(&bound, &bound, &machine).part;
        assert_eq!(part.is_err(), dependencies > 500, "{dependencies}");
        assert!(part.map_or(true, |part| part.is_some()));
    }
}

#[test]
fn a_deletion_leaves_no_mark_for_edges_to_another_providers_kind() {
    let honest = bound().with(vpc("ns", "a"));
    assert!(deletes(&honest, &vpc("ns", "a")).part.unwrap().is_none());
    let about = |provider: &str| {
        let mut rule = rule(STRANGER, VM, ".spec.vpcRef.name", provider, VPC);
        rule["spec"]["dependencies"][0]["onMissing"] = "Deny".into();
        beside(&honest, rule)
    };
    assert!(deletes(&about("root:strange"), &vpc("ns", "a")).part.unwrap().is_none());
    // Dependents may be bound while the deletion is under way.
    assert!(deletes(&about(PROVIDER), &vpc("ns", "a")).part.unwrap().is_some());
}

#[test]
fn the_other_side_is_read_through_the_export_that_is_bound() {
    let honest = interlocked();
    let stranger = {
        let mut rule = rule(STRANGER, VM, ".spec.vpcRef.name", PROVIDER, VPC);
        rule["spec"]["dependencies"][0]["onMissing"] = "Deny".into();
        rule["spec"]["dependent"]["version"] = "v9".into();
        rule
    };
    let kinds = |world: &World| {
        let part = deletes(world, &vpc("ns", "a")).part.unwrap().unwrap();
        format!("{:?}", part.review).split("rules:").next().map(str::to_owned)
    };
    assert_eq!(kinds(&beside(&honest, stranger)), kinds(&honest));
}

#[test]
fn a_rule_that_the_hint_did_not_show_refuses_by_its_name() {
    let world = interlocked();
    let machine = vm("ns", "m1", "a");
    let outdated = world.but(|world| world.bindings.clear());
    let refused = creates(&world, &outdated, &machine);
    assert!(refused.part.unwrap().is_none());
    assert!(!refused.decision.allowed());
    let why = refused.decision.message().unwrap_or_default().to_owned();
    assert!(why.contains("retry later; by rule c0mpute|rule"), "{why}");
    // A hint of too much costs a mark, and refuses nothing.
    let unbound = world.but(|world| drop(world.bindings.remove(0)));
    let reviewed = creates(&unbound, &world, &machine);
    assert!(reviewed.part.unwrap().is_some());
    assert!(matches!(reviewed.decision.verdict(), depguard_core::decision::Verdict::Allowed(AllowReason::NotBound)));
}

#[test]
fn bindings_that_the_cache_does_not_show_are_read_consistently() {
    let world = interlocked();
    let rules = RuleSet::load(world.control_plane, &world.rules);
    let review = vm("ns", "m1", "a").set("/metadata/uid", "m").creation().to_string();
    let review = ObjectReview::parse(review.as_bytes()).unwrap();
    let mut evaluation = rules.evaluate_references(&review, &context(&world));
    assert!(evaluation.seek_hint());
    let query = evaluation.queries().remove(0);
    evaluation.answer(query.id, Reply::Http(504, json!({}).to_string().into()).as_answer());
    let mut asked = vec![query.path];
    answer(&world, &mut evaluation, &mut asked);
    assert_eq!(asked, [HINT, BINDINGS]);
    assert!(evaluation.interlocked_references(&review).unwrap().is_some());
}

#[test]
fn references_by_many_strangers_rules_take_no_share_that_others_need() {
    let edge = |cluster: &str, on_missing: &str| {
        let mut rule = rule(cluster, VM, ".spec.refs[*].name", PROVIDER, VPC);
        rule["spec"]["dependencies"][0]["onMissing"] = on_missing.into();
        rule
    };
    let referring = |references: usize| {
        let refs: Value = (0..references).map(|n| json!({"name": format!("v{n}")})).collect();
        vm("ns", "m1", "a").set("/spec/refs", refs)
    };
    let with = |strangers: usize| {
        bound().but(|world| {
            world.objects.extend((0..700).map(|n| vpc("ns", &format!("v{n}"))));
            world.rules = (0..strangers).map(|n| edge(&format!("strang3r{n}"), "Deny")).collect();
            world.rules.push(edge(COMPUTE, "Deny"));
        })
    };
    for world in [with(0), with(200)] {
        world.creates(&referring(500)).allowed(AllowReason::TargetsExist);
        // No reference is left out in silence.
        let refused = world.creates(&referring(700)).decision;
        assert!(refused.message().unwrap().contains("references"), "{refused:?}");
    }
}

//! Tests of which webhook configuration may ask about which kinds.

use depguard_core::LogicalCluster;
use depguard_core::decision::AllowReason::*;

use crate::cast::*;
use crate::world::*;

/// Returns the same world, asked by the webhook configuration of a logical cluster; `""` stands for a plain Kubernetes.
fn asked_from(world: &World, scope: &str) -> World {
    world.but(|world| world.scope = Some((!scope.is_empty()).then(|| LogicalCluster::parse(scope).unwrap())))
}

/// Asserts a refusal that names no object.
#[track_caller]
fn outside(outcome: &Outcome) {
    outcome.undecided("find out who calls it");
    let message = outcome.decision.message().unwrap();
    assert!(!message.contains("m1") && !message.contains("Pod/p"), "{message}");
    assert!(outcome.decision.diagnostics().warnings().is_empty());
}

#[test]
fn a_provider_s_webhook_is_asked_about_its_own_kinds_only() {
    let world = bound().with(vm("ns", "m1", "a"));
    asked_from(&world, NETWORK).deletes(&vpc("ns", "a")).asked(&[BINDINGS, VMS]).blocked_by(&["VirtualMachine/m1"]);
    asked_from(&world, NETWORK).deletes(&vpc("ns", "b")).allowed(Unreferenced);
    // The workspace that has the objects may ask about all of them.
    asked_from(&world, CONSUMER).deletes(&vpc("ns", "a")).blocked_by(&["VirtualMachine/m1"]);
    for stranger in [COMPUTE, "str4nger", ""] {
        for name in ["a", "b"] {
            outside(&asked_from(&world, stranger).deletes(&vpc("ns", name)));
        }
    }
    // After such a refusal, depguard asks for no dependents.
    asked_from(&world, COMPUTE).deletes(&vpc("ns", "a")).asked(&[BINDINGS]);
    // An answer about a kind that no rule names tells nothing about others.
    asked_from(&world, COMPUTE).deletes(&zone("z")).asked(&[]).allowed(NoRule);
}

#[test]
fn a_binding_counts_on_whichever_page_and_of_the_last_reading_only() {
    let world = bound().with(vm("ns", "m1", "a")).but(|world| world.page = 1);
    asked_from(&world, NETWORK).deletes(&vpc("ns", "a")).blocked_by(&["VirtualMachine/m1"]);
    // The first reading finds the binding, the continue token expires, and the second reading finds no binding.
    let gone = world.but(|world| drop(world.bindings.remove(2)));
    let mut pages = 0;
    let outcome = asked_from(&world, NETWORK).review_with(&vpc("ns", "a").deletion(), |query| {
        pages += 1;
        Some(match pages {
            1..=3 => world.reply(&query.path),
            4 => Reply::Http(410, b"{}".to_vec()),
            _ => gone.reply(&query.path),
        })
    });
    assert!(pages > 4);
    outside(&outcome);
}

#[test]
fn a_local_rule_s_objects_are_for_their_own_workspace() {
    let world = local(CONSUMER).with(pod("ns", "p", "a"));
    asked_from(&world, CONSUMER).deletes(&config("ns", "a")).asked(&[PODS]).blocked_by(&["Pod/p"]);
    for stranger in [NETWORK, "str4nger", ""] {
        outside(&asked_from(&world, stranger).deletes(&config("ns", "a")));
        outside(&asked_from(&world, stranger).deletes(&config("ns", "b")));
    }
}

#[test]
fn what_is_found_before_the_bindings_are_known_is_not_told() {
    let world = asked_from(&local(CONSUMER), NETWORK);
    let world = (0..20).fold(world, |world, n| world.with(pod("ns", &format!("p{n}"), "a")));
    for reply in [None, Some(Reply::Cut), Some(Reply::Http(403, b"{}".to_vec()))] {
        let outcome = world.review_in_order(
            &config("ns", "a").deletion(),
            |open| open - 1,
            |query| if query.path == BINDINGS { reply.clone() } else { Some(world.reply(&query.path)) },
        );
        outcome.undecided("apibindings");
        assert!(!outcome.decision.message().unwrap().contains("Pod/p"));
    }
}

#[test]
fn a_plain_kubernetes_has_one_scope() {
    let world = plain().with(vm("ns", "m1", "a"));
    asked_from(&world, "").deletes(&vpc("ns", "a")).blocked_by(&["VirtualMachine/m1"]);
    asked_from(&world, "").deletes(&vpc("ns", "b")).allowed(Unreferenced);
    outside(&asked_from(&world, NETWORK).deletes(&vpc("ns", "b")));
}

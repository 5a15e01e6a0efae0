//! Tests of what a name in the rule itself costs (`fieldRef.value`).

use depguard_core::decision::AllowReason::*;
use serde_json::json;

use crate::cast::*;
use crate::world::*;

/// Returns a world with a rule by which each VM refers to VPC `a`, and with so many VMs, which name no VPC.
fn named_in_the_rule(world: &World, machines: usize) -> World {
    ruled(world, "/spec/dependencies/0/fieldRef", json!({"value": "a"}))
        .but(|world| world.objects = (0..machines).map(|n| Object::new(VM, "ns", &format!("m{n:03}"))).collect())
}

/// The lists of a world with two thousand VMs: the pages after the first one hold 500 VMs each.
const PAGES_OF_ALL: [&str; 5] = ["21", "500", "500", "500", "500"];

fn limits(outcome: &Outcome) -> Vec<&str> {
    let lists = outcome.asked.iter().filter(|query| query.path.contains("/virtualmachines?"));
    lists.map(|query| query.path.split_once("limit=").unwrap().1.split('&').next().unwrap()).collect()
}

#[test]
fn a_name_in_the_rule_costs_one_list_of_as_many_as_a_message_names() {
    let few = VMS.replace("500", "21");
    for machines in [1, 20, 21, 22, 2000] {
        let world = named_in_the_rule(&bound(), machines);
        let outcome = world.deletes(&vpc("ns", "a"));
        outcome.asked(&[BINDINGS, &few]);
        assert!(outcome.asked[1].accept.as_str().contains("PartialObjectMetadataList"));
        let named: Vec<_> = (0..machines.min(21)).map(|n| format!("VirtualMachine/m{n:03}")).collect();
        outcome.blocked_by(&named.iter().map(String::as_str).collect::<Vec<_>>());
        world.deletes(&vpc("ns", "b")).asked(&[BINDINGS]).allowed(Unreferenced);
    }
    named_in_the_rule(&bound(), 0).deletes(&vpc("ns", "a")).asked(&[BINDINGS, &few]).allowed(Unreferenced);
}

#[test]
fn a_name_in_the_rule_is_looked_for_in_full_pages_where_some_dependents_may_not_count() {
    let world = named_in_the_rule(&plain(), 2000);
    for (pointer, value) in [
        ("/spec/dependencies/0/when", json!({"path": ".spec.state", "in": ["Running"]})),
        ("/spec/dependencies/0/ownedDependents", json!("Ignore")),
        ("/spec/dependent/selector", json!({"matchLabels": {"tier": "prod"}})),
    ] {
        let narrowed = ruled(&world, pointer, value);
        let narrowed = narrowed.but(|world| world.objects.truncate(600)).deletes(&vpc("ns", "a"));
        assert_eq!(limits(&narrowed)[0], "500", "{pointer}");
    }
    // The VMs of the first page name another namespace.
    let elsewhere = ruled(&world, "/spec/dependencies/0/fieldRef/namespacePath", ".spec.namespace")
        .but(|world| world.objects.iter_mut().for_each(|vm| *vm = vm.clone().set("/spec/namespace", "other")));
    let outcome = elsewhere.deletes(&vpc("ns", "a"));
    outcome.allowed(Unreferenced);
    assert_eq!(limits(&outcome), PAGES_OF_ALL);
    let last = elsewhere.but(|world| world.objects[1999] = world.objects[1999].clone().set("/spec/namespace", "ns"));
    last.deletes(&vpc("ns", "a")).blocked_by(&["VirtualMachine/m1999"]);
}

/// Uses rules by which VMs and VPCs refer to each other: all dependents matter, since a teardown goes on only if it tears
/// down each of them.
#[test]
fn a_name_in_the_rule_is_looked_for_among_all_that_a_teardown_may_exempt() {
    let cycle = named_in_the_rule(&torn_down(), 2000);
    let outcome = cycle.deletes(&vpc("ns", "a"));
    outcome.allowed(TornDown);
    assert_eq!(limits(&outcome), PAGES_OF_ALL);
    let outcome = cycle.but(|world| world.going.clear()).deletes(&vpc("ns", "a"));
    assert_eq!((outcome.decision.allowed(), limits(&outcome)), (false, PAGES_OF_ALL.to_vec()));
}

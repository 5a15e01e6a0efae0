//! Tests of the referrers that a decision names.

use depguard_core::decision::AllowReason::*;
use serde_json::json;

use crate::cast::*;
use crate::world::*;

#[test]
fn a_dependent_that_names_the_target_blocks() {
    for world in [bound(), plain()] {
        world.with(vm("ns", "m1", "a")).deletes(&vpc("ns", "a")).blocked_by(&["VirtualMachine/m1"]);
        world.with(vm("ns", "m1", "b")).deletes(&vpc("ns", "a")).allowed(Unreferenced);
    }
}

#[test]
fn each_blocker_is_named_once_and_in_order() {
    let twice = bound().but(|world| {
        world.rules.push(rule(COMPUTE, VM, ".spec.other", PROVIDER, VPC));
        set(&mut world.rules[1], "/spec/dependent/version", "v1".into());
    });
    let both = vm("ns", "m1", "a").set("/spec/other", "a");
    let world = twice.with(vm("ns", "m2", "b").set("/spec/other", "a")).with(both);
    world.deletes(&vpc("ns", "a")).blocked_by(&["VirtualMachine/m1", "VirtualMachine/m2"]);
    world.deletes(&vpc("ns", "b")).blocked_by(&["VirtualMachine/m2"]);
    world.deletes(&vpc("ns", "c")).allowed(Unreferenced);
}

#[test]
fn only_a_string_at_the_path_is_a_reference() {
    for (spec, blocks) in [
        (json!({"vpcRef": {"name": "a"}}), true),
        (json!({"vpcRef": {"name": ["b", "a"]}}), true),
        (json!({"vpcRef": {"name": [["a"]]}}), false),
        (json!({"vpcRef": {"name": {"a": "a"}}}), false),
        (json!({"vpcRef": {"name": null}}), false),
        (json!({"vpcRef": [{"name": "a"}]}), false),
        (json!({"vpcRef": "a"}), false),
        (json!({"vpcRef": {"name": "a "}}), false),
        (json!({"vpcRef": {"name": "A"}}), false),
        (json!({"vpcref": {"name": "a"}}), false),
        (json!(null), false),
    ] {
        let outcome = bound().with(Object::new(VM, "ns", "m1").set("/spec", spec)).deletes(&vpc("ns", "a"));
        if blocks { outcome.blocked_by(&["VirtualMachine/m1"]) } else { outcome.allowed(Unreferenced) }
    }
}

#[test]
fn a_namesake_in_another_namespace_is_another_object() {
    for world in [bound(), plain()] {
        let world = world.with(vm("ns", "m1", "a"));
        world.deletes(&vpc("ns", "a")).blocked_by(&["VirtualMachine/m1"]);
        world.deletes(&vpc("other", "a")).allowed(Unreferenced);
    }
}

#[test]
fn a_dependent_of_any_namespace_blocks_a_cluster_scoped_target() {
    let world = bound().but(about(VM, ".spec.vpcRef.name", ZONE)).with(vm("ns", "m1", "a")).with(vm("n2", "m1", "a"));
    let outcome = world.deletes(&zone("a"));
    outcome.asked(&[BINDINGS, ALL_VMS]).blocked_by(&["VirtualMachine/n2/m1", "VirtualMachine/ns/m1"]);
    world.deletes(&zone("b")).allowed(Unreferenced);
}

#[test]
fn a_cluster_scoped_dependent_blocks_its_target_in_whichever_namespace() {
    let racks = "/apis/compute.example.com/v1alpha1/namespaces/ns/racks?limit=500";
    let all_racks = "/apis/compute.example.com/v1alpha1/racks?limit=500";
    let world = bound().but(about(RACK, ".spec.vpcRef.name", VPC)).with(rack("r1", "a"));
    world.deletes(&vpc("ns", "a")).asked(&[BINDINGS, racks, all_racks, CLUSTER]).blocked_by(&["Rack/r1"]);
    world.deletes(&vpc("other", "a")).blocked_by(&["Rack/r1"]);
    world.deletes(&vpc("ns", "b")).allowed(Unreferenced);
}

#[test]
fn a_cluster_scoped_dependent_blocks_a_cluster_scoped_target() {
    let world = bound().but(about(RACK, ".spec.vpcRef.name", ZONE)).with(rack("r1", "a"));
    world.deletes(&zone("a")).blocked_by(&["Rack/r1"]);
    world.deletes(&zone("b")).allowed(Unreferenced);
}

#[test]
fn a_terminating_dependent_still_blocks() {
    bound().with(vm("ns", "m1", "a").terminating()).deletes(&vpc("ns", "a")).blocked_by(&["VirtualMachine/m1"]);
    bound().with(vm("ns", "m1", "b").terminating()).deletes(&vpc("ns", "a")).allowed(Unreferenced);
}

#[test]
fn an_object_never_blocks_itself_but_its_namesake_does() {
    let selves = bound().but(about(VPC, ".spec.peer", VPC)).but(|world| {
        set(&mut world.rules[0], "/metadata/annotations/kcp.io~1cluster", NETWORK.into());
    });
    let itself = vpc("ns", "a").set("/spec/peer", "a");
    selves.with(itself.clone()).deletes(&itself).allowed(Unreferenced);
    selves.with(itself.clone().set("/metadata/uid", "another")).deletes(&itself).blocked_by(&["VPC/a"]);
    selves
        .with(itself.clone().set("/metadata/uid", ""))
        .deletes(&itself.clone().set("/metadata/uid", ""))
        .blocked_by(&["VPC/a"]);
}

#[test]
fn a_second_deletion_of_a_terminating_target_is_allowed() {
    let world = bound().with(vm("ns", "m1", "a"));
    world.deletes(&vpc("ns", "a")).blocked_by(&["VirtualMachine/m1"]);
    world.deletes(&vpc("ns", "a").terminating()).allowed(Terminating);
}

#[test]
fn more_blockers_than_anybody_reads_are_a_short_message() {
    let world = bound().but(|world| world.objects.extend((0..1500).map(|n| vm("ns", &format!("m{n:04}"), "a"))));
    let outcome = world.deletes(&vpc("ns", "a"));
    outcome.asked(&[BINDINGS, VMS]);
    let denial = outcome.decision.denial().expect("denied");
    assert!(denial.message().ends_with("VirtualMachine/m0019 and at least 480 more"), "{}", denial.message());
    world.deletes(&vpc("ns", "b")).allowed(Unreferenced);
}

#[test]
fn blockers_are_counted_to_the_end_only_where_there_is_nothing_more_to_read() {
    let world = bound().but(|world| world.objects.extend((0..30).map(|n| vm("ns", &format!("m{n:02}"), "a"))));
    let message = |world: &World| world.deletes(&vpc("ns", "a")).decision.message().expect("denied");
    assert!(message(&world).ends_with("VirtualMachine/m19 and 10 more (30 in all)"), "{}", message(&world));
    let paged = world.but(|world| world.page = 25);
    assert!(message(&paged).ends_with("VirtualMachine/m19 and at least 5 more"), "{}", message(&paged));
}

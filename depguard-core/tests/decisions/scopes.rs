//! Tests of teardown scopes: a scope goes as a whole, and nothing outside goes with it.

use depguard_core::decision::AllowReason::*;
use serde_json::json;

use crate::cast::*;
use crate::world::*;

const GOING: &str = "2026-01-01T00:00:00Z";

/// Returns a world where VMs and zones refer to each other. Zones lie in no namespace; two VMs of two namespaces refer
/// to zone `z`.
fn across() -> World {
    bound().but(|world| {
        world.knows("root:providers:compute", COMPUTE);
        world.rules = vec![
            rule(COMPUTE, VM, ".spec.zone", PROVIDER, ZONE),
            rule(NETWORK, ZONE, ".spec.keeper", "root:providers:compute", VM),
        ];
        world.objects = vec![
            Object::new(VM, "ns", "m1").set("/spec/zone", "z"),
            Object::new(VM, "other", "m2").set("/spec/zone", "z"),
            zone("z").set("/spec/keeper", "m1"),
        ];
    })
}

fn unbind(world: &World, bindings: &[usize]) -> World {
    world.but(|world| {
        for binding in bindings {
            world.bindings[*binding]["metadata"]["deletionTimestamp"] = GOING.into();
        }
    })
}

const VMS_OF: usize = 0;
const ZONES_OF: usize = 3;

#[test]
fn two_that_refer_to_each_other_go_with_their_namespace() {
    let world = torn_down();
    world.deletes(&vpc("ns", "a")).asked(&[BINDINGS, VMS, CLUSTER, NAMESPACE]).allowed(TornDown);
    world.deletes(&vm("ns", "m1", "a")).allowed(TornDown);
    let standing = world.but(|world| world.going.clear());
    standing.deletes(&vpc("ns", "a")).asked(&[BINDINGS, VMS, CLUSTER, NAMESPACE]).blocked_by(&["VirtualMachine/m1"]);
    standing.deletes(&vm("ns", "m1", "a")).blocked_by(&["VPC/a"]);
    world
        .but(|world| world.going = ["other".to_owned()].into())
        .deletes(&vpc("ns", "a"))
        .blocked_by(&["VirtualMachine/m1"]);
}

#[test]
fn a_logical_cluster_that_goes_takes_all_with_it() {
    let standing = across();
    standing.deletes(&zone("z")).blocked_by(&["VirtualMachine/ns/m1", "VirtualMachine/other/m2"]);
    let going = standing.but(|world| world.cluster_going = true);
    going.deletes(&zone("z")).allowed(TornDown);
    going.deletes(&vm("ns", "m1", "")).allowed(TornDown);
}

#[test]
fn bindings_that_go_take_their_objects_with_them_and_no_scope_is_read() {
    let outcome = unbind(&across(), &[VMS_OF, ZONES_OF]).deletes(&zone("z"));
    outcome.asked(&[BINDINGS, ALL_VMS]).allowed(TornDown);
    // One of the two bindings alone does not take the objects along.
    for one in [VMS_OF, ZONES_OF] {
        let outcome = unbind(&across(), &[one]).deletes(&zone("z"));
        outcome.blocked_by(&["VirtualMachine/ns/m1", "VirtualMachine/other/m2"]);
    }
    // Bindings of other kinds do not take them along either.
    unbind(&across(), &[1, 2]).deletes(&zone("z")).blocked_by(&["VirtualMachine/ns/m1", "VirtualMachine/other/m2"]);
}

/// Puts one of two dependents outside the scope. The rule exists for this dependent.
#[test]
fn a_dependent_outside_what_is_torn_down_still_blocks() {
    let unbound = unbind(&across(), &[ZONES_OF]);
    let one = unbound.but(|world| world.going = ["ns".to_owned()].into());
    one.deletes(&zone("z")).blocked_by(&["VirtualMachine/other/m2"]);
    one.but(|world| world.going.extend(["other".to_owned()])).deletes(&zone("z")).allowed(TornDown);
    // A target outside the scope is kept as well.
    let kept = across().but(|world| world.going = ["ns".to_owned(), "other".to_owned()].into());
    kept.deletes(&zone("z"))
        .asked(&[BINDINGS, ALL_VMS, CLUSTER])
        .blocked_by(&["VirtualMachine/ns/m1", "VirtualMachine/other/m2"]);
    // A dependent without a namespace also blocks, in whatever namespace the target lies.
    let racks = torn_down().but(|world| {
        world.rules = vec![
            rule(COMPUTE, RACK, ".spec.vpcRef.name", PROVIDER, VPC),
            rule(NETWORK, VPC, ".spec.rack", "root:providers:compute", RACK),
        ];
        world.objects = vec![rack("r", "a")];
    });
    racks.deletes(&vpc("ns", "a")).blocked_by(&["Rack/r"]);
    unbind(&racks, &[1]).deletes(&vpc("ns", "a")).allowed(TornDown);
}

/// Deletes a VPC that a rack refers to. kcp deletes a workspace's namespaces first, and with them the VPC; only then
/// its bindings, and with them the racks.
#[test]
fn a_dependent_that_kcp_keeps_last_does_not_hold_up_its_logical_cluster() {
    let standing = bound().but(|world| {
        world.rules = vec![rule(COMPUTE, RACK, ".spec.vpcRef.name", PROVIDER, VPC)];
        world.objects = vec![rack("r", "a")];
    });
    let racks = "/apis/compute.example.com/v1alpha1/namespaces/ns/racks?limit=500";
    let all_racks = "/apis/compute.example.com/v1alpha1/racks?limit=500";
    standing.deletes(&vpc("ns", "a")).asked(&[BINDINGS, racks, all_racks, CLUSTER]).blocked_by(&["Rack/r"]);
    let going = standing.but(|world| world.cluster_going = true);
    going.deletes(&vpc("ns", "a")).allowed(TornDown);
    let unreadable = going.review_with(&vpc("ns", "a").deletion(), |query| {
        Some(if query.path == CLUSTER { Reply::Http(403, Vec::new()) } else { going.reply(&query.path) })
    });
    unreadable.blocked_by(&["Rack/r"]);
    // A namespace's deletion alone does not take the rack along.
    standing.but(|world| world.going = ["ns".to_owned()].into()).deletes(&vpc("ns", "a")).blocked_by(&["Rack/r"]);
    // The VPC may go even if the rack's binding was deleted before: the rack may still wait for another object that kcp
    // keeps last.
    unbind(&going, &[1]).deletes(&vpc("ns", "a")).allowed(TornDown);
    // Dependents must still go first if they are VMs, which lie in namespaces, or if the target is a zone, which kcp
    // keeps last as well.
    let vms = bound().with(vm("ns", "m1", "a")).but(|world| world.cluster_going = true);
    vms.deletes(&vpc("ns", "a")).asked(&[BINDINGS, VMS]).blocked_by(&["VirtualMachine/m1"]);
    let zones = going.but(|world| {
        world.rules = vec![rule(COMPUTE, RACK, ".spec.vpcRef.name", PROVIDER, ZONE)];
    });
    zones.deletes(&zone("a")).asked(&[BINDINGS, all_racks]).blocked_by(&["Rack/r"]);
}

#[test]
fn an_object_that_goes_is_no_scope() {
    let world = torn_down().but(|world| {
        world.going.clear();
        world.objects = vec![vm("ns", "m1", "a").terminating(), vpc("ns", "a")];
    });
    world.deletes(&vpc("ns", "a")).blocked_by(&["VirtualMachine/m1"]);
}

#[test]
fn who_asks_tells_nothing() {
    for user in ["alice", "system:apiserver", "system:serviceaccount:kube-system:namespace-controller"] {
        let review = asked_by(&vpc("ns", "a"), user, &["system:masters"]);
        torn_down().review(&review).allowed(TornDown);
        torn_down().but(|world| world.going.clear()).review(&review).blocked_by(&["VirtualMachine/m1"]);
    }
}

#[test]
fn a_scope_that_cannot_be_read_counts_as_standing_and_the_missing_right_is_named() {
    let forbidden = || Reply::Http(403, br#"{"message":"no"}"#.to_vec());
    let named = |name: &str| Reply::ok(&json!({"metadata": {"name": name, "deletionTimestamp": GOING}}));
    let unreadable = [
        (
            Some(forbidden()),
            "namespace ns failed with HTTP 403 (no); give the webhook's user the right to get namespaces there",
        ),
        (Some(Reply::Http(401, Vec::new())), "renew the webhook's credentials"),
        (Some(Reply::not_found()), "HTTP 404"),
        (Some(Reply::Http(410, Vec::new())), "HTTP 410"),
        (Some(Reply::Http(500, Vec::new())), "HTTP 500; retry later"),
        (Some(Reply::Cut), "the connection was cut"),
        (Some(Reply::TooLarge), "too large"),
        (Some(Reply::Http(200, Vec::new())), "another object than the requested one"),
        (Some(Reply::ok(&json!({"metadata": {"deletionTimestamp": GOING}}))), "another object than the requested one"),
        (
            Some(Reply::ok(&json!({"metadata": {"resourceVersion": "1"}, "items": []}))),
            "another object than the requested one",
        ),
        (Some(named("another")), "another object than the requested one"),
        (None, "namespace ns was not answered in time"),
    ];
    let world = torn_down();
    let review = vpc("ns", "a").deletion();
    world.review(&review).allowed(TornDown);
    for (reply, part) in unreadable {
        let outcome = world.review_with(&review, |query| {
            if query.path == NAMESPACE { reply.clone() } else { Some(world.reply(&query.path)) }
        });
        outcome.blocked_by(&["VirtualMachine/m1"]);
        let message = outcome.decision.message().unwrap();
        let told = "still referenced by VirtualMachine/m1; could not find out what is being torn down: the read of ";
        assert!(message.contains(told) && message.contains(part), "{part:?} is not in: {message}");
    }
    // The logical cluster's state matters only if the namespace is not being deleted.
    let without_cluster = |world: &World| {
        world.review_with(&review, |query| {
            Some(if query.path == CLUSTER { forbidden() } else { world.reply(&query.path) })
        })
    };
    without_cluster(&world).allowed(TornDown);
    let outcome = without_cluster(&world.but(|world| world.going.clear()));
    outcome.blocked_by(&["VirtualMachine/m1"]);
    assert!(outcome.decision.message().unwrap().contains("the right to get logicalclusters of core.kcp.io there"));
}

#[test]
fn an_empty_deletion_timestamp_is_none() {
    for timestamp in [json!(null), json!("")] {
        let stands = Reply::ok(&json!({"metadata": {"name": "ns", "deletionTimestamp": timestamp}}));
        let outcome = torn_down().review_with(&vpc("ns", "a").deletion(), |query| {
            Some(if query.path == NAMESPACE { stands.clone() } else { torn_down().reply(&query.path) })
        });
        outcome.blocked_by(&["VirtualMachine/m1"]);
        let outcome = unbind(&across(), &[VMS_OF, ZONES_OF])
            .but(|world| world.bindings[ZONES_OF]["metadata"]["deletionTimestamp"] = timestamp.clone())
            .deletes(&zone("z"));
        outcome.blocked_by(&["VirtualMachine/ns/m1", "VirtualMachine/other/m2"]);
    }
}

#[test]
fn no_scope_is_read_where_something_else_refuses() {
    let world = torn_down().but(|world| {
        world.rules.push(rule(COMPUTE, RACK, "spec..", PROVIDER, VPC));
    });
    let outcome = world.deletes(&vpc("ns", "a"));
    let denial = outcome.decision.denial().expect("denied");
    assert!(denial.message().contains("still referenced by VirtualMachine/m1; could not find out what else"));
    outcome.asked(&[BINDINGS, VMS]);
}

#[test]
fn dependents_in_more_namespaces_than_are_read_block_unless_all_of_the_cluster_goes() {
    let spread = |namespaces: usize| {
        unbind(&across(), &[ZONES_OF]).but(|world| {
            let names = || (0..namespaces).map(|number| format!("ns-{number}"));
            world.objects = names().map(|ns| Object::new(VM, &ns, "m").set("/spec/zone", "z")).collect();
            world.going = names().collect();
        })
    };
    let outcome = spread(64).deletes(&zone("z"));
    outcome.allowed(TornDown);
    assert_eq!(outcome.asked.len(), 2 + 1 + 64);
    let outcome = spread(65).deletes(&zone("z"));
    outcome.asked(&[BINDINGS, ALL_VMS, CLUSTER]);
    assert!(!outcome.decision.allowed());
    spread(65).but(|world| world.cluster_going = true).deletes(&zone("z")).allowed(TornDown);
}

#[test]
fn however_many_refer_to_each_other_all_are_looked_at() {
    let many = torn_down().but(|world| {
        world.objects = (0..10_600).map(|number| vm("ns", &format!("m{number:05}"), "a")).collect();
    });
    many.deletes(&vpc("ns", "a")).allowed(TornDown);
    let outcome = many.but(|world| world.going.clear()).deletes(&vpc("ns", "a"));
    let message = outcome.decision.message().unwrap();
    assert!(message.contains("VirtualMachine/m00000, ") && message.contains("at least 9980 more"), "{message}");
}

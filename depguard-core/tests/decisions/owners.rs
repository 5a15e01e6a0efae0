//! Dependents that go with their target, and those that only seem to.

use depguard_core::decision::AllowReason::*;
use depguard_core::interlocked::BearingEdges;
use depguard_core::protocol::ObjectReview;
use depguard_core::{Context, ControlPlane, Review, RuleSet};
use serde_json::{Value, json};

use crate::cast::*;
use crate::world::*;

const LIST: &str = "/apis/compute.example.com/v1alpha1/namespaces/ns/virtualmachines";
const VERSION: &str = VPC.versions[0];

/// Returns a plain cluster, and the one rule that VMs refer to VPCs with these further fields.
fn with(fields: &Value) -> World {
    World::new(ControlPlane::Kubernetes).but(|world| {
        world.kinds = vec![VM, RACK, VPC, ZONE, POD, CONFIG];
        let mut rule = local_rule(CONSUMER, VM, ".spec.vpcRef.name", VPC);
        for (field, value) in fields.as_object().unwrap() {
            rule["spec"]["dependencies"][0][field] = value.clone();
        }
        world.rules = vec![rule];
    })
}

fn ignoring() -> World {
    with(&json!({"ownedDependents": "Ignore"}))
}

fn denying() -> World {
    with(&json!({"onMissing": "Deny"}))
}

fn owner() -> Object {
    vpc("ns", "a")
}

fn owned(versions: &[&str]) -> Object {
    let owner = owner();
    let owners: Vec<_> = versions.iter().map(|version| (&owner, *version)).collect();
    vm("ns", "m1", "a").owned_by(&owners)
}

fn orphaning(object: Object) -> Object {
    object.annotated(PROPAGATION, "Orphan")
}

#[test]
fn a_deletion_that_orphans_counts_what_the_target_owns() {
    let world = ignoring().with(owned(&[VERSION]));
    world.deletes(&owner()).allowed(Unreferenced);
    world.deletes(&orphaning(owner())).blocked_by(&["VirtualMachine/m1"]);
    let finalized = owner().set("/metadata/finalizers", json!(["orphan"]));
    world.deletes(&finalized).blocked_by(&["VirtualMachine/m1"]);
    world.deletes(&finalized.annotated(PROPAGATION, "Background")).allowed(Unreferenced);
}

#[test]
fn a_second_deletion_that_orphans_is_decided_like_a_first() {
    for world in [ignoring(), denying()] {
        let world = world.with(owned(&[VERSION]));
        world.deletes(&owner().terminating()).asked(&[]).allowed(Terminating);
        world.deletes(&orphaning(owner().terminating())).blocked_by(&["VirtualMachine/m1"]);
    }
    ignoring().deletes(&orphaning(owner().terminating())).allowed(Unreferenced);
}

#[test]
fn a_job_orphans_unless_its_deletion_says_otherwise() {
    const JOB: Kind = Kind { group: "batch", versions: &["v1"], resource: "jobs", kind: "Job", namespaced: true };
    let job = Object::new(JOB, "ns", "a");
    let world = ignoring().but(|world| {
        world.kinds.push(JOB);
        let mut rule = local_rule(CONSUMER, VM, ".spec.vpcRef.name", JOB);
        rule["spec"]["dependencies"][0]["ownedDependents"] = "Ignore".into();
        world.rules = vec![rule];
        world.objects = vec![vm("ns", "m1", "a").owned_by(&[(&job, "v1")])];
    });
    world.deletes(&job).blocked_by(&["VirtualMachine/m1"]);
    world.deletes(&job.annotated(PROPAGATION, "Background")).allowed(Unreferenced);
}

#[test]
fn another_version_costs_one_read_and_the_review_s_own_costs_none() {
    let list = format!("{LIST}?limit=500");
    let own = ignoring().with(owned(&[VERSION]));
    own.deletes(&owner()).asked(&[&list]).allowed(Unreferenced);
    let discovery = "/apis/network.example.com/v1";
    let world = ignoring().with(owned(&["v1"])).with(owned(&["v1", VERSION]).set("/metadata/name", "m2"));
    world.deletes(&owner()).asked(&[&list, discovery]).allowed(Unreferenced);
    // An API server that doesn't serve the version, and its garbage collector that finds no owner by it.
    let unserved = ignoring().with(owned(&["v9"]));
    let outcome = unserved.deletes(&owner());
    outcome.asked(&[&list, "/apis/network.example.com/v9"]).blocked_by(&["VirtualMachine/m1"]);
    // Dependents choose what they name; what one review reads is bounded.
    let several = world.with(owned(&["v9"]).set("/metadata/name", "m3"));
    several.deletes(&owner()).asked(&[&list]).blocked_by(&[
        "VirtualMachine/m1",
        "VirtualMachine/m2",
        "VirtualMachine/m3",
    ]);
    let with_both = ignoring().with(owned(&["v1", "v9"]));
    with_both.deletes(&owner()).asked(&[&list]).blocked_by(&["VirtualMachine/m1"]);
}

#[test]
fn a_version_that_can_not_be_read_refuses_and_says_so() {
    let world = ignoring().with(owned(&["v1"]));
    let review = owner().deletion();
    let outcome = world.review_with(&review, |query| {
        let is_list = query.path.starts_with(LIST);
        if is_list { Some(world.reply(&query.path)) } else { Some(Reply::Http(403, br#"{"message":"no"}"#.to_vec())) }
    });
    let message = outcome.decision.message().unwrap();
    assert!(message.contains("VirtualMachine/m1") && message.contains("version v1 of"), "{message}");
    let going = owner().terminating();
    let world = denying().with(going.clone());
    let outcome = world.change_with(&vm("ns", "m1", "a").owned_by(&[(&going, VERSION)]).creation(), |query| {
        let is_target = query.path.contains("/vpcs/");
        if is_target { Some(world.reply(&query.path)) } else { Some(Reply::Cut) }
    });
    let message = outcome.decision.message().unwrap();
    assert!(message.contains("vpcs/a is being deleted") && message.contains("version v1alpha1 of"), "{message}");
}

#[test]
fn an_update_that_takes_the_owner_away_is_a_new_reference() {
    let (old, left) = (owned(&[VERSION]), vm("ns", "m1", "a"));
    let second = left.clone().owned_by(&[(&owner(), VERSION), (&config("ns", "c"), "v1")]);
    for world in [denying(), denying().with(owner().terminating())] {
        world.updates(&old, &left).missing(&["vpcs/a"]);
        world.updates(&old, &second).missing(&["vpcs/a"]);
        world.updates(&old, &old.clone().annotated("a", "b")).asked(&[]).is_fine(NoNewReference);
        // Nothing was excused before.
        world.updates(&second, &left).asked(&[]).is_fine(NoNewReference);
        world.updates(&second, &old).asked(&[]).is_fine(NoNewReference);
    }
    denying().with(owner()).updates(&old, &left).is_fine(TargetsExist);
    let warning = with(&json!({"onMissing": "Warn"}));
    warning.updates(&old, &left).tells(&["vpcs/a"], &[]);
    // The reference to another object was held before.
    let other = |object: &Object| object.clone().set("/spec/vpcRef/name", "b");
    denying().updates(&other(&old), &other(&left)).asked(&[]).is_fine(NoNewReference);
}

#[test]
fn an_owner_with_which_nothing_goes_may_be_taken_away() {
    let left = vm("ns", "m1", "a");
    for world in [denying(), denying().with(owner().terminating())] {
        world.updates(&owned(&["v9"]), &left).is_fine(TargetsExist);
        let wrong = owned(&["v1"]).set("/metadata/ownerReferences/0/kind", "Zone");
        world.updates(&wrong, &left).is_fine(TargetsExist);
    }
}

/// The garbage collector makes this update, and the target can't go before it was made.
#[test]
fn the_owner_whose_deletion_orphans_may_be_taken_away() {
    let going = owner().terminating().set("/metadata/finalizers", json!(["orphan"]));
    let world = denying().with(going.clone());
    let (old, left) = (owned(&[VERSION]), vm("ns", "m1", "a"));
    world.updates(&old, &left).is_fine(TargetsExist);
    // A new reference is one that the deletion didn't count.
    world.creates(&old).missing(&["vpcs/a"]);
    world.updates(&old.clone().set("/spec/vpcRef/name", "b"), &old).missing(&["vpcs/a"]);
}

#[test]
fn an_owner_among_too_many_references_is_looked_for() {
    let mut world = denying();
    world.rules[0]["spec"]["dependencies"][0]["fieldRef"]["path"] = ".spec.vpcs[*]".into();
    let many: Vec<_> = (0..10_001).map(|index| format!("v{index}")).collect();
    let vm = |object: Object| object.set("/spec/vpcs", json!(many));
    let (old, left) = (vm(owned(&[VERSION])), vm(Object::new(VM, "ns", "m1")));
    let found = || {
        let all = many.iter().take(500).map(|name| vpc("ns", name));
        world.but(|world| world.objects.extend(all))
    };
    found().updates(&old, &left).missing(&["vpcs/a"]);
    let going = owner().terminating().set("/metadata/finalizers", json!(["orphan"]));
    found().with(going).updates(&old, &left).is_fine(TargetsExist);
}

#[test]
fn an_eviction_says_itself_if_it_orphans() {
    let victim = Object::new(POD, "ns", "a");
    let world = ignoring().but(|world| {
        let mut rule = local_rule(CONSUMER, VM, ".spec.vpcRef.name", POD);
        rule["spec"]["dependencies"][0]["ownedDependents"] = "Ignore".into();
        world.rules = vec![rule];
        world.objects = vec![victim.clone(), vm("ns", "m1", "a").owned_by(&[(&victim, "v1")])];
    });
    let eviction = |options: Value| {
        json!({"apiVersion": "admission.k8s.io/v1", "request": {
            "uid": "1", "operation": "CREATE", "name": "a", "namespace": "ns", "subResource": "eviction",
            "kind": {"group": "policy", "version": "v1", "kind": "Eviction"},
            "resource": {"group": "", "version": "v1", "resource": "pods"},
            "object": {"metadata": {"name": "a", "namespace": "ns"}, "deleteOptions": options},
        }})
    };
    for options in [json!(null), json!({}), json!({"propagationPolicy": "Background", "gracePeriodSeconds": 3})] {
        world.review(&eviction(options)).allowed(Unreferenced);
    }
    for options in [json!({"propagationPolicy": "Orphan"}), json!({"orphanDependents": true}), json!("none")] {
        world.review(&eviction(options)).blocked_by(&["VirtualMachine/m1"]);
    }
}

#[test]
fn a_second_deletion_that_orphans_takes_part_in_the_interlock() {
    let world = denying();
    let rules = RuleSet::load(ControlPlane::Kubernetes, &world.rules);
    let takes_part = |object: Object| {
        let review = object.set("/metadata/resourceVersion", "7").deletion().to_string();
        let review = Review::parse(review.as_bytes()).unwrap();
        rules.interlocked_deletion(&review, &Context::default(), &BearingEdges::default()).unwrap().is_some()
    };
    assert!(takes_part(owner()) && takes_part(orphaning(owner().terminating())));
    assert!(!takes_part(owner().terminating()));
    // A reference that counts because its owner was taken away has its mark, too.
    let (old, left) = (owned(&[VERSION]), vm("ns", "m1", "a"));
    let marks = |old: &Object, left: &Object| {
        let review = left.update(&old.clone().set("/metadata/resourceVersion", "7")).to_string();
        let review = ObjectReview::parse(review.as_bytes()).unwrap();
        let mut evaluation = rules.evaluate_references(&review, &Context::default());
        evaluation.interlocked_references(&review).unwrap().is_some()
    };
    assert!(marks(&old, &left) && !marks(&left, &left));
}

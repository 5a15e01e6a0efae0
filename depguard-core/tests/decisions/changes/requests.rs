//! Tests of the requests that are checked, and of those that never are.

use depguard_core::api::FailurePolicy;
use depguard_core::decision::AllowReason::*;
use serde_json::json;

use super::*;

#[test]
fn only_creations_and_updates_are_checked() {
    let world = denying();
    let (old, made) = (Object::new(VM, "ns", "m1"), vm("ns", "m1", "a"));
    world.creates(&made).missing(&["vpcs/a"]);
    world.updates(&old, &made).missing(&["vpcs/a"]);
    for operation in ["DELETE", "CONNECT"] {
        world.change(&edited(made.update(&old), "/request/operation", operation)).asked(&[]).is_fine(NotAChange);
    }
}

#[test]
fn subresources_that_hold_the_whole_object_are_checked() {
    let check = |kind: Kind, subresource: &str, is_checked: bool| {
        let world = plain().but(|world| world.rules = vec![local_rule("", kind, ".status.vpc", VPC)]);
        let world = checking(&world, OnMissing::Deny);
        let (old, made) = (Object::new(kind, "ns", "m1"), Object::new(kind, "ns", "m1").set("/status/vpc", "a"));
        let outcome = world.change(&edited(made.update(&old), "/request/subResource", subresource));
        match is_checked {
            true => _ = outcome.missing(&["vpcs/a"]),
            false => _ = outcome.asked(&[]).is_fine(NotAChange),
        }
        let creation = edited(made.creation(), "/request/subResource", subresource);
        if subresource != "binding" {
            world.change(&creation).asked(&[]).is_fine(NotAChange);
        }
    };
    let namespace = Kind { resource: "namespaces", kind: "Namespace", ..POD };
    let request = Kind { group: "certificates.k8s.io", resource: "certificatesigningrequests", ..POD };
    for (kind, checked) in [
        (VM, &["status"][..]),
        (POD, &["status", "ephemeralcontainers", "resize"]),
        (namespace, &["status", "finalize"]),
        (request, &["status", "approval"]),
    ] {
        for name in ["status", "ephemeralcontainers", "resize", "finalize", "approval", "scale", "binding", "exec"] {
            check(kind, name, checked.contains(&name));
        }
    }
}

#[test]
fn a_rule_reads_one_version() {
    let world = denying();
    let made = vm("ns", "m1", "a");
    world.creates(&made).missing(&["vpcs/a"]);
    let other = edited(made.creation(), "/request/resource/version", "v1");
    world.change(&other).asked(&[]).is_fine(NoRule);
    ruled(&world, "/spec/dependent/version", "v1").change(&other).missing(&["vpcs/a"]);
    // A rule in error could mean any version.
    ruled(&world, "/spec/dependencies/0/fieldRef/path", "spec..a")
        .change(&other)
        .undecided("rule rule can't be evaluated");
    // Every API server says the version.
    world.change(&edited(made.creation(), "/request/resource/version", json!(null))).undecided("it names no version");
}

#[test]
fn a_dry_run_is_decided_alike() {
    for dry_run in [true, false] {
        let review = edited(vm("ns", "m1", "a").creation(), "/request/dryRun", dry_run);
        denying().change(&review).missing(&["vpcs/a"]);
        denying().with(vpc("ns", "a")).change(&review).is_fine(TargetsExist);
    }
}

#[test]
fn an_object_that_is_being_deleted_is_never_asked_of() {
    for world in [denying(), denying_in_kcp(), ruled(&denying(), "/spec/dependencies/0/fieldRef/path", "spec..a")] {
        let (old, made) = (Object::new(VM, "ns", "m1"), vm("ns", "m1", "a"));
        assert!(!world.updates(&old, &made).decision.allowed());
        let going = made.clone().terminating();
        world.updates(&going, &going.clone().set("/metadata/finalizers", json!([]))).asked(&[]).is_fine(Terminating);
        world.updates(&old.clone().terminating(), &going).asked(&[]).is_fine(Terminating);
    }
}

#[test]
fn an_object_may_name_itself() {
    let world = ruled(&denying(), "/spec/dependencies/0/group", VM.group);
    let world = ruled(&world, "/spec/dependencies/0/resource", VM.resource);
    let itself = vm("ns", "m1", "m1");
    world.creates(&itself).asked(&[]).is_fine(NoNewReference);
    world.creates(&vm("ns", "m1", "m2")).missing(&["virtualmachines/m2"]);
    let world = ruled(&world, "/spec/dependencies/0/fieldRef/uidPath", ".spec.vpcRef.uid");
    let with_uid = |uid: &str| itself.clone().set("/spec/vpcRef/uid", uid);
    world.creates(&with_uid("virtualmachines-ns-m1")).asked(&[]).is_fine(NoNewReference);
    // An earlier object of that name is another one.
    world.creates(&with_uid("before")).missing(&["virtualmachines/m1"]);
}

#[test]
fn an_owner_that_is_being_deleted_will_do() {
    let owner = vpc("ns", "a").terminating();
    let world = denying().with(owner.clone());
    let (m1, version) = (vm("ns", "m1", "a"), VPC.versions[0]);
    world.creates(&m1.clone().owned_by(&[(&owner, version)])).is_fine(TargetsExist);
    world.creates(&m1.clone().owned_by(&[(&owner, version), (&owner, VPC.versions[1])])).missing(&["vpcs/a"]);
    world.creates(&m1.clone().owned_by(&[(&owner, "v9")])).missing(&["vpcs/a"]);
    world.creates(&m1.clone().owned_by(&[(&owner, version), (&config("ns", "c"), "v1")])).missing(&["vpcs/a"]);
    world.creates(&m1.clone().owned_by(&[(&vpc("ns", "b"), version)])).missing(&["vpcs/a"]);
    let odd = vm("ns", "m1", "a").set("/metadata/ownerReferences", "none");
    world.creates(&odd).undecided("its object's owners are no list");
}

#[test]
fn each_failure_policy_has_reviews_of_its_own() {
    let world = ruled(&denying(), "/spec/failurePolicy", "Ignore");
    world.creates(&vm("ns", "m1", "a")).is_fine(NoRule);
    world.but(|world| world.failure_policy = FailurePolicy::Ignore).creates(&vm("ns", "m1", "a")).missing(&["vpcs/a"]);
}

#[test]
fn a_creation_has_no_references_from_before() {
    // No API server sends an old object with a creation.
    let made = vm("ns", "m1", "a");
    let review = edited(made.update(&made), "/request/operation", "CREATE");
    denying().change(&review).missing(&["vpcs/a"]);
    let review = edited(made.update(&made), "/request/oldObject", json!(null));
    denying().change(&review).missing(&["vpcs/a"]);
}

#[test]
fn a_review_that_can_not_be_read_is_refused() {
    for world in [denying(), denying_in_kcp()] {
        let review = vm("ns", "m1", "a").creation();
        for (pointer, value, part) in [
            ("/request/object", json!(null), "the review has no object"),
            ("/request/object", json!({}), "the review has no object"),
            ("/request/object/metadata/name", json!(""), "its object has no name"),
            ("/request/object/metadata/name", json!("a/b"), "has an invalid name"),
        ] {
            world.change(&edited(review.clone(), pointer, value)).undecided(part);
        }
        checking(&world, OnMissing::Warn).change(&edited(review, "/request/object", json!(null))).tells(&[], &[]);
    }
}

#[test]
fn a_review_without_its_logical_cluster_is_refused_by_each_rule() {
    let local = checking(&local(CONSUMER), OnMissing::Deny).with(config("ns", "a"));
    for (world, made) in [(denying_in_kcp().with(vpc("ns", "a")), vm("ns", "m1", "a")), (local, pod("ns", "p1", "a"))] {
        world.creates(&made).is_fine(TargetsExist);
        for (cluster, part) in
            [(json!(""), "no annotation kcp.io/cluster"), (json!("a b"), "its annotation kcp.io/cluster")]
        {
            let review = edited(made.creation(), "/request/object/metadata/annotations/kcp.io~1cluster", cluster);
            world.change(&review).undecided(part);
        }
    }
}

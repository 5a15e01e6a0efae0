//! Tests of how a review names its object and its operation.

use depguard_core::LogicalCluster;
use depguard_core::decision::AllowReason::*;
use serde_json::json;

use crate::cast::*;
use crate::world::*;

#[test]
fn a_collection_deletion_names_its_object_in_the_object_alone() {
    let world = bound().with(vm("ns", "m1", "a"));
    for (name, blocks) in [("a", true), ("b", false)] {
        let mut review = vpc("ns", name).deletion();
        review["request"].as_object_mut().unwrap().remove("name");
        let outcome = world.review(&review);
        if blocks { outcome.blocked_by(&["VirtualMachine/m1"]) } else { outcome.allowed(Unreferenced) }
    }
}

#[test]
fn any_served_version_of_the_target_is_protected() {
    for (name, blocks) in [("a", true), ("b", false)] {
        let mut review = vpc("ns", name).deletion();
        review["request"]["resource"]["version"] = "v7".into();
        let outcome = bound().with(vm("ns", "m1", "a")).review(&review);
        if blocks { outcome.blocked_by(&["VirtualMachine/m1"]) } else { outcome.allowed(Unreferenced) }
    }
}

#[test]
fn a_dry_run_is_decided_as_the_real_thing() {
    for (name, blocks) in [("a", true), ("b", false)] {
        let mut review = vpc("ns", name).deletion();
        review["request"]["dryRun"] = true.into();
        let outcome = bound().with(vm("ns", "m1", "a")).review(&review);
        if blocks { outcome.blocked_by(&["VirtualMachine/m1"]) } else { outcome.allowed(Unreferenced) }
    }
}

#[test]
fn nothing_but_a_deletion_of_the_object_itself_is_refused() {
    let world = bound().with(vm("ns", "m1", "a"));
    for (field, value, is_deletion) in [
        ("operation", "DELETE", true),
        ("operation", "CREATE", false),
        ("operation", "UPDATE", false),
        ("operation", "CONNECT", false),
        ("subResource", "", true),
        ("subResource", "status", false),
    ] {
        let mut review = vpc("ns", "a").deletion();
        review["request"][field] = value.into();
        let outcome = world.review(&review);
        if is_deletion {
            outcome.blocked_by(&["VirtualMachine/m1"]);
        } else {
            outcome.asked(&[]).allowed(NotADeletion);
        }
    }
}

#[test]
fn a_kind_that_no_rule_names_is_allowed_without_a_question() {
    let world = bound().with(vm("ns", "m1", "a"));
    world.deletes(&zone("a")).asked(&[]).allowed(NoRule);
    world.deletes(&vm("ns", "m1", "a")).asked(&[]).allowed(NoRule);
    let elsewhere = Kind { group: COMPUTE_GROUP, ..VPC };
    world.deletes(&Object::new(elsewhere, "ns", "a")).asked(&[]).allowed(NoRule);
}

#[test]
fn a_review_that_does_not_say_which_object_is_refused() {
    let world = bound();
    world.deletes(&vpc("ns", "a")).allowed(Unreferenced);
    for (pointer, value, part) in [
        ("/request/oldObject", json!(null), "no oldObject"),
        ("/request/oldObject/metadata/name", json!(""), "has no name"),
        ("/request/oldObject/metadata/name", json!("a/b"), "its oldObject has an invalid name"),
        ("/request/oldObject/metadata/name", json!("a\nb"), "its oldObject has an invalid name"),
        ("/request/oldObject/metadata/name", json!("a".repeat(254)), "its oldObject has an invalid name"),
        ("/request/oldObject/metadata/namespace", json!("../x"), "namespace"),
        ("/request/oldObject/metadata/namespace", json!("a/b"), "namespace"),
        ("/request/oldObject/metadata/annotations", json!({}), "no annotation kcp.io/cluster"),
        ("/request/oldObject/metadata/annotations/kcp.io~1cluster", json!("../x"), "`../x` is not"),
        ("/request/oldObject/metadata/annotations/kcp.io~1cluster", json!("a/b"), "`a/b` is not"),
        ("/request/oldObject/metadata/annotations/kcp.io~1cluster", json!("*"), "`*` is not"),
        ("/request/oldObject/metadata/annotations/kcp.io~1cluster", json!("root:a"), "`root:a` is not"),
    ] {
        let mut review = vpc("ns", "a").deletion();
        set(&mut review, pointer, value);
        world.review(&review).asked(&[]).undecided(part);
    }
}

#[test]
fn in_a_plain_cluster_nobody_can_move_an_object_by_an_annotation() {
    for cluster in ["../x", "a/b", "elsewhere", CONSUMER] {
        let annotated = |name| vpc("ns", name).annotated("kcp.io/cluster", cluster);
        let outcome = plain().with(vm("ns", "m1", "a")).deletes(&annotated("a"));
        assert!(outcome.asked.iter().all(|query| query.cluster.is_none()));
        outcome.asked(&[VMS]).blocked_by(&["VirtualMachine/m1"]);
        plain().with(vm("ns", "m1", "a")).deletes(&annotated("b")).allowed(Unreferenced);
    }
}

#[test]
fn all_is_asked_in_the_reviewed_logical_cluster_and_for_the_dependents_export() {
    let outcome = bound().deletes(&vpc("ns", "a"));
    let asked: Vec<_> = (outcome.asked.iter())
        .map(|query| {
            let export = query.export.as_ref().map(|(cluster, export)| (cluster.as_str(), export.as_str()));
            (query.cluster.as_ref().map(LogicalCluster::as_str), export)
        })
        .collect();
    assert_eq!(asked, [(Some(CONSUMER), None), (Some(CONSUMER), Some((COMPUTE, COMPUTE_GROUP)))]);
}

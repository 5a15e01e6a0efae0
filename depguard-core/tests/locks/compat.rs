//! Tests of the older tool's locks: an object of the target's name and namespace.

use std::collections::BTreeSet;

use depguard_core::ControlPlane;
use depguard_core::locks::{LockDecision, LockEvaluation};
use depguard_core::model::GroupResource;
use depguard_core::protocol::ObjectReview;
use serde_json::{Value, json};

use crate::world::*;

const POD_LOCK: &str = "/apis/kotas.tech/v1/namespaces/default/locks/p";
const LOCK: &str = "/apis/kotas.tech/v1/namespaces/default/locks/vm-1";

fn decide(world: &mut World, review: &Value) -> LockDecision {
    decide_of(&["vms.compute.example.com", "pods"], world, review)
}

fn decide_of(kinds: &[&str], world: &mut World, review: &Value) -> LockDecision {
    let kinds: BTreeSet<GroupResource> = kinds.iter().map(|kind| kind.parse().unwrap()).collect();
    let bytes = review.to_string();
    let review = ObjectReview::parse(bytes.as_bytes()).unwrap();
    world.drive(LockEvaluation::of_compat(&review, &kinds))
}

#[test]
fn a_lock_of_the_same_name_forbids_changes_and_deletions() {
    let mut world = World::new(ControlPlane::Kubernetes);
    world.put(LOCK, json!({"metadata": {"name": "vm-1", "namespace": "default"}}));
    let change = update(vm(), with(vm(), "/spec/cpu", json!(3)));
    for (review, expected) in [
        (delete(vm()), "locked"),
        (change.clone(), "locked"),
        (create(vm()), "not-guarded"),
        (delete(with(vm(), "/metadata/name", json!("vm-2"))), "unlocked"),
        (update(vm(), with(vm(), "/metadata/finalizers", json!(["x"]))), "exempt"),
        (delete(with(vm(), "/metadata/deletionTimestamp", json!("2026-01-01T00:00:00Z"))), "terminating"),
    ] {
        assert_eq!(decide(&mut world, &review).label(), expected, "{review}");
    }
    let mut other = delete(vm());
    other["request"]["resource"]["resource"] = "disks".into();
    assert_eq!(decide(&mut world, &other).label(), "not-guarded");
    let message = decide(&mut world, &delete(vm())).message().unwrap();
    assert_eq!(message, "Object is locked by Lock default/vm-1: delete the Lock to unlock it");
    world.objects.remove(LOCK);
    assert_eq!(decide(&mut world, &change).label(), "unlocked");
}

#[test]
fn an_eviction_is_decided_like_the_deletion_of_the_pod() {
    let mut world = World::new(ControlPlane::Kubernetes);
    world.put(POD_LOCK, json!({"metadata": {"name": "p", "namespace": "default"}}));
    for (review, expected) in [
        (delete_pod("p"), "locked"),
        (evict("p"), "locked"),
        (delete_pod("q"), "unlocked"),
        (evict("q"), "unlocked"),
        // Other subresources were never locked by the older tool.
        (through_pod(create(json!({"kind": "Binding"})), "binding", "p"), "not-guarded"),
        (through_pod(update(vm(), with(vm(), "/status/phase", json!("Off"))), "status", "p"), "not-guarded"),
        (through_pod(delete_pod("p"), "eviction", "p"), "not-guarded"),
    ] {
        assert_eq!(decide(&mut world, &review).label(), expected, "{review}");
    }
    assert_eq!(decide_of(&["vms.compute.example.com"], &mut world, &evict("p")).label(), "not-guarded");
    let code = |decision: LockDecision| {
        let answer: Value = serde_json::from_slice(&decision.to_review("r")).unwrap();
        answer["response"]["status"]["code"].clone()
    };
    assert_eq!(code(decide(&mut world, &evict("p"))), json!(429));
    assert_eq!(code(decide(&mut world, &delete_pod("p"))), json!(403));

    world.faults.push(("/apis/kotas.tech".to_owned(), 500));
    let undecided = decide(&mut world, &evict("p"));
    assert_eq!(undecided.causes().words(), ["ReadFailed"]);
    assert_eq!(code(undecided), json!(429));
    world.objects.remove(POD_LOCK);
    world.faults.clear();
    assert_eq!(decide(&mut world, &evict("p")).label(), "unlocked");
}

#[test]
fn a_lock_that_cannot_be_read_forbids_as_well() {
    for (status, allowed) in [(404, true), (403, false), (500, false), (200, false)] {
        let mut world = World::new(ControlPlane::Kubernetes);
        world.faults.push(("/apis/kotas.tech".to_owned(), status));
        assert_eq!(decide(&mut world, &delete(vm())).allowed(), allowed, "{status}");
    }
}

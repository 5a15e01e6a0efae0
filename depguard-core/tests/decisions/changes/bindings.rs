//! Tests of the binding of a Pod to a node: its review holds a Binding, and the API server copies its parts onto the Pod.

use depguard_core::api::FailurePolicy;
use depguard_core::decision::AllowReason::*;
use serde_json::{Value, json};

use super::*;

const READ: &str = "/api/v1/namespaces/ns/pods/p";

/// Returns a plain cluster where Pods name a zone by this path, with the Pod `p`.
fn naming(path: &str) -> World {
    let world = plain().but(|world| world.rules = vec![local_rule("", POD, path, ZONE)]);
    checking(&world, OnMissing::Deny).with(Object::new(POD, "ns", "p").annotated("other", "kept"))
}

/// Returns the review of the Pod's binding to node `a` as an API server sends it.
fn bound() -> Value {
    let annotations = json!({"zone": "a", "it's \"so\"": "\\"});
    json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": {
        "uid": "1", "operation": "CREATE", "oldObject": null, "subResource": "binding",
        "object": {
            "apiVersion": "v1", "kind": "Binding", "target": {"kind": "Node", "name": "a"},
            "metadata": {"name": "p", "namespace": "ns", "annotations": annotations, "labels": {"zone": "a"}},
        },
        "name": "p", "namespace": "ns",
        "kind": {"group": "", "version": "v1", "kind": "Binding"},
        "resource": {"group": "", "version": "v1", "resource": "pods"},
        "userInfo": {"username": "alice", "groups": ["system:authenticated"]},
    }})
}

#[test]
fn what_a_binding_copies_onto_a_pod_makes_references() {
    for path in [".spec.nodeName", ".metadata.annotations.zone", ".metadata.labels.zone", ".metadata.labels.*"] {
        naming(path).change(&bound()).missing(&["zones/a"]);
        naming(path).with(zone("a")).change(&bound()).is_fine(TargetsExist);
    }
    let said = naming(".spec.nodeName").change(&bound()).decision.to_review("1");
    let said: Value = serde_json::from_slice(&said).unwrap();
    assert_eq!(said["response"]["status"]["message"], "cannot update pods/p: zones/a not found (.spec.nodeName)");
}

#[cfg(feature = "interlock")]
#[test]
fn a_binding_reads_its_pod_in_the_interlock_too() {
    let world = naming(".spec.nodeName");
    let rules = depguard_core::RuleSet::load(world.control_plane, &world.rules);
    let review = bound().to_string();
    let review = depguard_core::protocol::ObjectReview::parse(review.as_bytes()).unwrap();
    let mut evaluation = rules.evaluate_references(&review, &depguard_core::Context::default());
    assert!(!evaluation.seek_hint());
    assert!(evaluation.interlocked_references(&review).unwrap().is_none());
    let asked: Vec<_> = evaluation.queries().into_iter().map(|query| query.path).collect();
    assert_eq!(asked, [READ]);
}

#[test]
fn the_resource_bindings_is_reviewed_alike() {
    let review = edited(edited(bound(), "/request/subResource", ""), "/request/resource/resource", "bindings");
    naming(".spec.nodeName").change(&review).missing(&["zones/a"]);
    naming(".spec.nodeName").but(|world| world.rules.clear()).change(&review).asked(&[]).is_fine(NoRule);
}

#[test]
fn the_pod_s_own_fields_decide_with_those_of_the_binding() {
    let world = naming(".spec.nodeName");
    let world = ruled(&world, "/spec/dependent/selector", json!({"matchLabels": {"tier": "prod"}}));
    let world = ruled(&world, "/spec/dependencies/0/when", json!({"path": ".spec.state", "in": ["on"]}));
    let pod = |tier: &str, state: &str| {
        let pod = Object::new(POD, "ns", "p").set("/metadata/labels/tier", tier).set("/spec/state", state);
        world.but(|world| world.objects = vec![pod])
    };
    pod("prod", "on").change(&bound()).missing(&["zones/a"]);
    pod("prod", "off").change(&bound()).asked(&[READ]).is_fine(NoNewReference);
    pod("test", "on").change(&bound()).asked(&[READ]).is_fine(NoNewReference);
    // A Binding's label replaces the Pod's.
    let relabelled = edited(bound(), "/request/object/metadata/labels/tier", "prod");
    pod("test", "on").change(&relabelled).missing(&["zones/a"]);
}

#[test]
fn what_the_pod_held_before_and_a_pod_on_its_way_out_pass() {
    let world = |pod: Object| naming(".metadata.annotations.zone").but(|world| world.objects = vec![pod]);
    let pod = Object::new(POD, "ns", "p");
    world(pod.clone().annotated("zone", "a")).change(&bound()).asked(&[READ]).is_fine(NoNewReference);
    world(pod.clone().annotated("zone", "b")).change(&bound()).missing(&["zones/a"]);
    world(pod.terminating()).change(&bound()).asked(&[READ]).is_fine(Terminating);
}

#[test]
fn a_pod_that_cannot_be_read_is_not_bound() {
    let world = naming(".spec.nodeName");
    for (reply, said) in [
        (Reply::Http(403, b"{}".to_vec()), "give the webhook's user the right to get pods there"),
        (Reply::Http(404, b"{}".to_vec()), "the read of Pod ns/p found no Pod of that name; retry later"),
        (Reply::Http(200, b"{}".to_vec()), "another object than the requested one"),
        (Reply::ok(&json!({"metadata": {"name": "q", "namespace": "ns"}})), "another object than the requested one"),
        (Reply::ok(&json!({"metadata": {"name": "p", "namespace": "ns"}, "spec": []})), "another object than the"),
        (Reply::Http(200, br#"{"metadata":{"name":"p","namespace":"ns"},"spec":1,"spec":{}}"#.to_vec()), "another obj"),
        (Reply::TooLarge, "too large"),
    ] {
        world.change_with(&bound(), |_| Some(reply.clone())).undecided(said);
    }
    world.change_with(&bound(), |_| None).undecided("the read of Pod ns/p was not answered in time");
    for (pointer, said) in [("/request/namespace", "no valid namespace"), ("/request/object/target", "no Binding")] {
        world.change(&edited(bound(), pointer, json!(null))).undecided(said);
    }
    let lenient = ruled(&world, "/spec/failurePolicy", "Ignore");
    let lenient = lenient.but(|world| world.failure_policy = FailurePolicy::Ignore);
    assert!(lenient.change_with(&bound(), |_| None).decision.allowed());
}

#[test]
fn in_kcp_nothing_binds_a_pod() {
    let world = checking(&local(CONSUMER), OnMissing::Deny);
    world.change(&bound()).asked(&[]).is_fine(NotAChange);
}

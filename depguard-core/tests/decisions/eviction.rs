//! Tests of a Pod's eviction, which deletes the Pod without a review that shows it.

use depguard_core::api::FailurePolicy;
use depguard_core::decision::AllowReason::*;
use depguard_core::{LogicalCluster, OverridePolicy};
use serde_json::{Value, json};

use crate::cast::*;
use crate::world::*;

const READ: &str = "/api/v1/namespaces/ns/pods/p";

fn evicted() -> Object {
    Object::new(POD, "ns", "p").set("/metadata/labels/tier", "gold")
}

/// Returns a plain cluster where VMs name a Pod.
fn world() -> World {
    plain().but(|world| world.rules = vec![local_rule("", VM, ".spec.pod", POD)]).with(evicted())
}

fn naming(pod: &str) -> Object {
    Object::new(VM, "ns", "m1").set("/spec/pod", pod)
}

/// Returns the world with another Pod, or without one.
fn with_pod(world: &World, pod: Option<Object>) -> World {
    world.but(|world| {
        world.objects.retain(|object| object.kind != POD);
        world.objects.extend(pod);
    })
}

/// Returns the eviction's review as an API server sends it.
fn eviction() -> Value {
    json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": {
        "uid": "1", "operation": "CREATE", "oldObject": null, "subResource": "eviction",
        "object": {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "p", "namespace": "ns"}},
        "name": "p", "namespace": "ns",
        "kind": {"group": "policy", "version": "v1", "kind": "Eviction"},
        "resource": {"group": "", "version": "v1", "resource": "pods"},
        "userInfo": {"username": "alice", "groups": ["system:authenticated"]},
    }})
}

#[test]
fn it_is_decided_as_the_deletion_of_that_pod() {
    let (held, free) = (world().with(naming("p")), world().with(naming("q")));
    held.review(&eviction()).blocked_by(&["VirtualMachine/m1"]);
    free.review(&eviction()).allowed(Unreferenced);
    for other in ["binding", "exec", "status"] {
        let mut review = eviction();
        review["request"]["subResource"] = other.into();
        held.review(&review).asked(&[]).allowed(NotADeletion);
    }
}

#[test]
fn it_is_refused_so_that_a_drain_tries_again() {
    let code = |review: &Value, world: &World| {
        let answer: Value = serde_json::from_slice(&world.review(review).decision.to_review("1")).unwrap();
        let status = &answer["response"]["status"];
        (status["code"].clone(), status["reason"].clone(), status["message"].clone())
    };
    let held = world().with(naming("p"));
    let said = json!("cannot delete pods/p: still referenced by VirtualMachine/m1");
    assert_eq!(code(&eviction(), &held), (json!(429), json!("TooManyRequests"), said.clone()));
    assert_eq!(code(&evicted().deletion(), &held), (json!(403), json!("Forbidden"), said));
    let unread = with_pod(&held, None);
    assert_eq!(code(&eviction(), &unread).0, json!(429));
}

#[test]
fn a_pod_that_cannot_be_read_stays() {
    let held = world().with(naming("q"));
    for (reply, said) in [
        (Reply::Http(403, b"{}".to_vec()), "give the webhook's user the right to get pods there"),
        (Reply::Http(404, b"{}".to_vec()), "the read of Pod ns/p found no Pod of that name; retry later"),
        (Reply::Http(500, b"{}".to_vec()), "HTTP 500"),
        (Reply::Http(200, b"{}".to_vec()), "was answered with another object than the requested one"),
        (
            Reply::Http(200, json!({"metadata": {"name": "p", "namespace": "other"}}).to_string().into()),
            "another object than the requested one",
        ),
        (
            Reply::Http(200, json!({"metadata": {"name": "q", "namespace": "ns"}}).to_string().into()),
            "another object than the requested one",
        ),
        (Reply::TooLarge, "too large"),
        (Reply::Cut, "retry later"),
    ] {
        let outcome = held.review_with(&eviction(), |query| {
            Some(if query.path == READ { reply.clone() } else { held.reply(&query.path) })
        });
        outcome.undecided(said);
    }
    let mut review = eviction();
    review["request"].as_object_mut().unwrap().remove("name");
    assert!(!held.review(&review).decision.allowed());
}

#[test]
fn rules_that_refuse_nothing_let_it_go() {
    let warns = world().with(naming("p")).but(|world| {
        world.rules[0]["spec"]["dependencies"][0]["onDelete"] = "Warn".into();
    });
    warns.review(&eviction()).allowed(Warned);
    with_pod(&warns, None).review(&eviction()).allowed(Tolerated);
    let ignores = world().with(naming("p")).but(|world| {
        world.rules[0]["spec"]["failurePolicy"] = "Ignore".into();
        world.failure_policy = FailurePolicy::Ignore;
    });
    ignores.review(&eviction()).blocked_by(&["VirtualMachine/m1"]);
    with_pod(&ignores, None).review(&eviction()).allowed(Tolerated);
    // No rule is about Pods, so nothing is read.
    let other = world().but(|world| world.rules[0]["spec"]["dependencies"][0]["resource"] = "secrets".into());
    other.review(&eviction()).asked(&[]).allowed(NoRule);
}

#[test]
fn what_the_pod_says_of_itself_counts() {
    let held = world().with(naming("p"));
    let with = |pod: Object| with_pod(&held, Some(pod));
    with(evicted().terminating()).review(&eviction()).asked(&[READ]).allowed(Terminating);
    let skipped = with(evicted().annotated("dependencies.opendefense.cloud/skip-protection", "true"));
    skipped.review(&eviction()).blocked_by(&["VirtualMachine/m1"]);
    let users = OverridePolicy { users: ["alice".to_owned()].into(), ..OverridePolicy::nobody() };
    skipped.but(|world| world.overrides = users.clone()).review(&eviction()).allowed(Overridden);
    // The Pod's labels decide if a selector selects it.
    let selecting = with(evicted()).but(|world| {
        let edge = world.rules[0]["spec"]["dependencies"][0].as_object_mut().unwrap();
        edge.remove("fieldRef");
        edge.insert("selectorRef".to_owned(), json!({"path": ".spec.selector"}));
        world.objects.push(Object::new(VM, "ns", "m2").set("/spec/selector", json!({"tier": "gold"})));
    });
    selecting.review(&eviction()).blocked_by(&["VirtualMachine/m2"]);
    let tin = evicted().set("/metadata/labels/tier", "tin");
    with_pod(&selecting, Some(tin)).review(&eviction()).allowed(Unreferenced);
}

#[test]
fn by_another_clusters_configuration_nothing_is_told_of_it() {
    let held = world().with(naming("p")).but(|world| world.scope = Some(Some(LogicalCluster::parse(NETWORK).unwrap())));
    let message = held.review(&eviction()).decision.message().unwrap();
    assert!(!message.contains("m1"), "{message}");
    let own = held.but(|world| world.scope = Some(None));
    own.review(&eviction()).blocked_by(&["VirtualMachine/m1"]);
}

//! Events about refusals: of real blockers only, in the background, and never more than the limits.

use std::time::Duration;

use depguard_core::{OverridePolicy, Query};
use depguard_webhook::{ApiReader, Fetched, ReviewService};
use prometheus_client::registry::Registry;
use serde_json::{Value, json};

use crate::cluster::Cluster;
use crate::metrics::{assert_counted, registered, shown};
use crate::{allowed, answer, at_once, list, loaded, post, post_bytes, refused, response, review, rule, vm};

const EVENTS: &str = "/apis/events.k8s.io/v1/namespaces/default/events";

/// Returns a review as API servers send it, with the kind.
fn deletion(name: &str, namespace: &str) -> Value {
    let mut review = review();
    let request = &mut review["request"];
    request["kind"] = json!({"group": "network.example.com", "version": "v1", "kind": "VPC"});
    request["name"] = json!(name);
    request["namespace"] = json!(namespace);
    request["oldObject"]["metadata"]["name"] = json!(name);
    request["oldObject"]["metadata"]["namespace"] = json!(namespace);
    review
}

/// Returns a service that finds a machine `m1` with a reference to any target, and writes Events to a cluster.
fn telling() -> (Cluster, ReviewService<impl ApiReader>, Registry) {
    let cluster = Cluster::default();
    let service = with_port(&cluster, at_once(referring));
    let registry = registered(&service);
    (cluster, service, registry)
}

fn with_port<P: ApiReader>(cluster: &Cluster, port: P) -> ReviewService<P> {
    let mut rule = rule();
    rule["spec"]["dependencies"][0]["onMissing"] = "Deny".into();
    ReviewService::new(port, loaded(&[rule]), OverridePolicy::default()).telling_of_denials(cluster.clone())
}

/// Answers a list with a machine whose reference has the name that the field selector asks for.
fn referring(query: &Query) -> Fetched {
    let name = query.path.split("fieldSelector=spec.vpcRef.name%3D").nth(1).unwrap_or("a");
    let mut machine = vm("m1", name.split('&').next().unwrap());
    let namespace = query.path.split("/namespaces/").nth(1).and_then(|rest| rest.split('/').next());
    machine["metadata"]["namespace"] = json!(namespace.unwrap_or("default"));
    list(&[machine])
}

/// Lets all tasks go on as far as they can.
async fn settled() {
    for _ in 0..1000 {
        tokio::task::yield_now().await;
    }
}

fn count(registry: &Registry, result: &str) -> u64 {
    let series = format!("depguard_denial_events_total{{result=\"{result}\"}} ");
    let text = shown(registry);
    let line = text.lines().find_map(|line| line.strip_prefix(&series));
    line.unwrap_or_else(|| panic!("`{series}` is not in:\n{text}")).parse().unwrap()
}

#[tokio::test(start_paused = true)]
async fn a_refused_deletion_is_told_once_beside_its_object() {
    let (cluster, service, registry) = telling();
    for _ in 0..3 {
        refused(&answer(service.clone(), post(&deletion("a", "default"))).await);
        settled().await;
    }
    assert_eq!(cluster.sent(), [format!("POST {EVENTS}")]);
    let event = cluster.object(&format!("{EVENTS}/depguard-1")).unwrap();
    for (field, value) in [
        ("/type", json!("Warning")),
        ("/reason", json!("StillReferenced")),
        ("/action", json!("Delete")),
        ("/note", json!("cannot delete vpcs/a: still referenced by VirtualMachine/m1")),
        (
            "/regarding",
            json!({"apiVersion": "network.example.com/v1", "kind": "VPC", "name": "a",
            "namespace": "default", "uid": "o-1"}),
        ),
    ] {
        assert_eq!(event.pointer(field), Some(&value), "{event}");
    }
    assert_counted(
        &shown(&registry),
        &[
            "depguard_denial_events_total{result=\"written\"} 1",
            "depguard_denial_events_total{result=\"repeated\"} 2",
            "depguard_denial_events_total{result=\"dropped\"} 0",
        ],
    );
    tokio::time::advance(Duration::from_secs(300)).await;
    refused(&answer(service, post(&deletion("a", "default"))).await);
    settled().await;
    assert_eq!(cluster.sent().len(), 1, "minutes later it is told again");
}

#[tokio::test(start_paused = true)]
async fn a_refused_reference_is_told_beside_the_object_that_makes_it() {
    let cluster = Cluster::default();
    let missing = |_: &Query| response(404, &json!({"details": {"kind": "vpcs", "name": "a"}}));
    let service = with_port(&cluster, at_once(missing));
    let review = json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": {
        "uid": "u-1", "operation": "CREATE", "name": "m", "namespace": "default",
        "kind": {"group": "compute.example.com", "version": "v1", "kind": "VirtualMachine"},
        "resource": {"group": "compute.example.com", "version": "v1", "resource": "virtualmachines"},
        "userInfo": {"username": "alice", "groups": ["system:authenticated"]},
        "object": {"metadata": {"name": "m", "namespace": "default"}, "spec": {"vpcRef": {"name": "a"}}},
    }});
    refused(&answer(service, post_bytes("/reference?timeout=10s", review.to_string())).await);
    settled().await;
    let event = cluster.object(&format!("{EVENTS}/depguard-1")).unwrap();
    assert_eq!((&event["reason"], &event["action"]), (&json!("RefNotFound"), &json!("Create")), "{event}");
    assert_eq!(event["regarding"]["kind"], "VirtualMachine", "{event}");
}

#[tokio::test(start_paused = true)]
async fn an_object_without_a_namespace_is_told_of_in_the_default_namespace() {
    let (cluster, service, _) = telling();
    let mut review = deletion("a", "");
    for object in ["/request", "/request/oldObject/metadata"] {
        review.pointer_mut(object).unwrap().as_object_mut().unwrap().remove("namespace");
    }
    refused(&answer(service, post(&review)).await);
    settled().await;
    let event = cluster.object(&format!("{EVENTS}/depguard-1")).unwrap();
    assert_eq!(event["regarding"].get("namespace"), None, "{event}");
}

#[tokio::test(start_paused = true)]
async fn nothing_is_told_of_a_dry_run_of_what_is_allowed_or_of_what_could_not_be_found_out() {
    let (cluster, service, _) = telling();
    let mut dry = deletion("a", "default");
    dry["request"]["dryRun"] = json!(true);
    refused(&answer(service, post(&dry)).await);
    let unreferenced = with_port(&cluster, at_once(|_| list(&[])));
    allowed(&answer(unreferenced, post(&deletion("a", "default"))).await);
    let broken = with_port(&cluster, at_once(|_| response(500, &json!({}))));
    assert_eq!(answer(broken, post(&deletion("a", "default"))).await["allowed"], false);
    settled().await;
    assert_eq!(cluster.sent(), [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn one_namespace_never_uses_up_what_another_may_have() {
    let (cluster, service, registry) = telling();
    for object in 0..50 {
        refused(&answer(service.clone(), post(&deletion(&format!("a{object}"), "default"))).await);
        settled().await;
    }
    assert_eq!((count(&registry, "written"), count(&registry, "limited")), (20, 30));
    refused(&answer(service, post(&deletion("a", "other"))).await);
    settled().await;
    assert_eq!(count(&registry, "written"), 21);
    assert!(cluster.sent().iter().any(|sent| sent.contains("/namespaces/other/")));
}

/// An API server that takes no Event holds up no review, and at most 256 Events wait for it.
#[tokio::test(start_paused = true)]
async fn no_review_waits_for_an_event_and_what_waits_has_a_bound() {
    let (cluster, service, registry) = telling();
    cluster.hang_at("/events");
    let begun = tokio::time::Instant::now();
    for namespace in 0..300 {
        refused(&answer(service.clone(), post(&deletion("a", &format!("n{namespace}")))).await);
    }
    assert_eq!(begun.elapsed(), Duration::ZERO);
    assert_eq!((count(&registry, "dropped"), count(&registry, "failed")), (44, 0));
    // Each write is given up in time, so that the others come to their turn.
    while count(&registry, "failed") < 256 {
        tokio::time::sleep(Duration::from_secs(5)).await;
    }
    assert_eq!(count(&registry, "written"), 0);
}

#[tokio::test(start_paused = true)]
async fn without_the_right_it_is_counted_and_the_refusal_stays_what_it_was() {
    let (cluster, service, registry) = telling();
    let forbidden = json!({"kind": "Status", "code": 403, "message": "events.events.k8s.io is forbidden"});
    cluster.break_at("/events", response(403, &forbidden));
    let said = answer(service, post(&deletion("a", "default"))).await;
    assert_eq!(refused(&said), "cannot delete vpcs/a: still referenced by VirtualMachine/m1");
    settled().await;
    assert_eq!((count(&registry, "forbidden"), count(&registry, "written")), (1, 0));
}

//! Creations and updates: the targets of new references are read, together with others, in time and within limits.

use std::time::Duration;

use depguard_core::{OverridePolicy, Query};
use depguard_webhook::{Fetched, Limits, ReviewService, Rules};
use futures::future::{BoxFuture, join_all};
use serde_json::{Value, json};

use crate::sharing::port::{Hand, Reply};
use crate::{Script, allowed, answer, at_once, loaded, post_bytes, put_off, refused, response, rule, unasked};

const VPC: &str = "/apis/network.example.com/v1/namespaces/default/vpcs/a";

/// Returns a rule that refuses references to missing VPCs.
fn denying() -> Value {
    let mut rule = rule();
    rule["spec"]["dependencies"][0]["onMissing"] = "Deny".into();
    rule
}

/// Returns the review of the creation of a VM that refers to this VPC.
fn creation(name: &str, vpc: &str) -> String {
    let review = json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": {
        "uid": "u-1", "operation": "CREATE", "name": name, "namespace": "default",
        "resource": {"group": "compute.example.com", "version": "v1", "resource": "virtualmachines"},
        "userInfo": {"username": "alice", "groups": ["system:authenticated"]},
        "object": {"metadata": {"name": name, "namespace": "default"}, "spec": {"vpcRef": {"name": vpc}}},
    }});
    review.to_string()
}

fn found() -> Reply {
    Reply::Json(200, json!({"metadata": {"name": "a", "namespace": "default", "uid": "u"}}))
}

fn missing() -> Reply {
    Reply::Json(404, json!({"details": {"kind": "vpcs", "name": "a"}}))
}

/// Lets all tasks go on as far as they can.
async fn settled() {
    for _ in 0..100 {
        tokio::task::yield_now().await;
    }
}

fn spawn(service: &ReviewService<Hand>, name: &str) -> tokio::task::JoinHandle<Value> {
    tokio::spawn(answer(service.clone(), post_bytes("/reference?timeout=10s", creation(name, "a"))))
}

fn held() -> (Hand, ReviewService<Hand>) {
    let hand = Hand::default();
    let service = ReviewService::new(hand.clone(), loaded(&[denying()]), OverridePolicy::default());
    (hand, service)
}

#[tokio::test(start_paused = true)]
async fn two_hundred_creations_at_one_target_cost_two_reads() {
    let (hand, service) = held();
    let first = spawn(&service, "m0");
    settled().await;
    let rest: Vec<_> = (1..200).map(|number| spawn(&service, &format!("m{number}"))).collect();
    settled().await;
    assert_eq!(hand.open(), [VPC], "who comes later waits for a read that begins later");
    hand.reply(0, found());
    assert!(allowed(&first.await.unwrap()));
    settled().await;
    hand.reply(1, missing());
    for answer in join_all(rest).await {
        assert!(refused(&answer.unwrap()).contains("vpcs/a not found"));
    }
    assert_eq!(hand.asked(), 2);
}

/// Tests the essential case: the VPC was deleted after the first read was sent, and before the second creation came.
#[tokio::test(start_paused = true)]
async fn nobody_is_answered_by_a_read_that_began_before() {
    let (hand, service) = held();
    let early = spawn(&service, "early");
    settled().await;
    let late = spawn(&service, "late");
    settled().await;
    hand.reply(0, found());
    settled().await;
    assert!(allowed(&early.await.unwrap()));
    assert!(!late.is_finished());
    hand.reply(1, missing());
    assert!(refused(&late.await.unwrap()).contains("vpcs/a not found"));
}

#[tokio::test(start_paused = true)]
async fn a_target_that_is_not_read_in_time_refuses() {
    let hangs = || Script(|_: &Query| -> BoxFuture<'static, Fetched> { Box::pin(std::future::pending()) });
    let mut ignored = denying();
    ignored["spec"]["failurePolicy"] = "Ignore".into();
    for (rule, path) in [(denying(), "/reference"), (ignored, "/reference/ignore")] {
        let service = ReviewService::new(hangs(), loaded(&[rule]), OverridePolicy::default());
        let answer = answer(service, post_bytes(&format!("{path}?timeout=2s"), creation("m1", "a"))).await;
        match path {
            "/reference" => assert!(put_off(&answer).contains("was not answered in time"), "{answer}"),
            _ => {
                assert!(allowed(&answer), "{answer}");
                assert!(answer["warnings"][0].as_str().unwrap().contains("was not answered in time"), "{answer}");
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn too_many_creations_at_once_are_refused_and_those_without_references_are_not() {
    let hangs = Script(|_: &Query| -> BoxFuture<'static, Fetched> { Box::pin(std::future::pending()) });
    let limits = Limits::default().at_once(1);
    let service = ReviewService::with_limits(hangs, loaded(&[denying()]), OverridePolicy::default(), limits);
    let first = tokio::spawn(answer(service.clone(), post_bytes("/reference", creation("m1", "a"))));
    tokio::time::sleep(Duration::from_millis(1)).await;
    let second = answer(service.clone(), post_bytes("/reference", creation("m2", "a"))).await;
    assert_eq!(put_off(&second), "too many reviews at once; retry later");
    assert!(allowed(&answer(service, post_bytes("/reference", creation("m3", ""))).await));
    assert!(put_off(&first.await.unwrap()).contains("not answered in time"));
}

#[tokio::test]
async fn each_route_decides_its_own_reviews() {
    let nothing = at_once(|_| response(404, &json!({"details": {"kind": "vpcs", "name": "a"}})));
    let service = ReviewService::new(nothing, loaded(&[denying()]), OverridePolicy::default());
    let message = answer(service.clone(), post_bytes("/reference", creation("m1", "a"))).await;
    assert_eq!(refused(&message), "cannot create virtualmachines/m1: vpcs/a not found (.spec.vpcRef.name)");
    // A rule of the other failure policy, the route of deletions, and a deletion at this route.
    for path in ["/reference/ignore", "/validate"] {
        assert!(allowed(&answer(service.clone(), post_bytes(path, creation("m1", "a"))).await), "{path}");
    }
    let deletion = creation("m1", "a").replace("CREATE", "DELETE");
    assert!(allowed(&answer(service, post_bytes("/reference", deletion)).await));
}

#[tokio::test]
async fn nothing_is_decided_before_all_rules_are_loaded() {
    let service = || ReviewService::new(unasked(), Rules::not_loaded_yet("starting"), OverridePolicy::default());
    let message = answer(service(), post_bytes("/reference", creation("m1", "a"))).await;
    assert_eq!(put_off(&message), "dependency webhook not yet initialized, retry later (starting)");
    let ignoring = answer(service(), post_bytes("/reference/ignore", creation("m1", "a"))).await;
    assert!(allowed(&ignoring) && ignoring["warnings"][0].as_str().unwrap().contains("not loaded"), "{ignoring}");
}

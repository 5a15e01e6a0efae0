//! Reviews of rules that are about to be stored.

use depguard_core::{ControlPlane, api};
use serde_json::{Value, json};
use tokio::time::{Duration, Instant};
use tower::ServiceExt;

use crate::{Script, allowed, answer, at_once, post_bytes, refused, rejected, response, rule, service};

const DEFINITION: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/virtualmachines.compute.example.com";

fn written(path: &str) -> String {
    let mut rule = rule();
    rule["spec"]["dependencies"][0]["fieldRef"]["path"] = json!(path);
    json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": {
        "uid": "u-1", "operation": "CREATE", "object": rule,
        "resource": {"group": api::GROUP, "version": "v1alpha1", "resource": api::PLURAL},
        "userInfo": {"username": "alice"},
    }})
    .to_string()
}

fn definition() -> Value {
    json!({"spec": {"scope": "Namespaced", "names": {"kind": "VirtualMachine"}, "versions": [{
        "name": "v1", "served": true, "schema": {"openAPIV3Schema": {"type": "object", "properties": {
            "spec": {"type": "object", "properties": {"vpcRef": {"type": "object", "properties": {
                "name": {"type": "string"},
            }}}},
        }}},
    }]}})
}

#[tokio::test]
async fn a_wrong_path_is_refused_and_a_target_that_is_not_served_is_a_warning() {
    let port = || {
        at_once(|query| match query.path.as_str() {
            DEFINITION => response(200, &definition()),
            "/apis/network.example.com/v1" => response(200, &json!({"resources": []})),
            _ => response(404, &json!({})),
        })
    };
    let decide = async |path: &str| {
        answer(service(port()).admitting_specs(ControlPlane::Kubernetes), post_bytes("/rule", written(path))).await
    };
    let wrong = decide(".spec.vpcReff.name").await;
    assert!(refused(&wrong).contains("`.spec` has no field `vpcReff`: it has `vpcRef`"), "{wrong}");
    assert_eq!(wrong["status"]["details"]["causes"][0]["field"], "spec.dependencies[0].fieldRef.path");
    let right = decide(".spec.vpcRef.name").await;
    assert!(allowed(&right), "{right}");
    assert!(right["warnings"][0].as_str().unwrap().starts_with("there is no vpcs.network.example.com"), "{right}");
}

/// Covers an API server that does not answer: the webhook's configuration ignores failures, and so does the webhook.
#[tokio::test(start_paused = true)]
async fn no_rule_is_refused_because_nobody_answers() {
    let begun = Instant::now();
    let port = Script(|_: &_| -> futures::future::BoxFuture<'static, _> { Box::pin(std::future::pending()) });
    let service = service(port).admitting_specs(ControlPlane::Kubernetes);
    let ask = async || answer(service.clone(), post_bytes("/rule?timeout=5s", written(".spec.vcp"))).await;
    assert!(allowed(&ask().await));
    assert!(begun.elapsed() < Duration::from_secs(5));
    // One review reads at a time: who waits for the first one in vain is not reviewed.
    let request = || service.clone().oneshot(post_bytes("/rule?timeout=5s", written(".spec.vcp")));
    let (first, second) = tokio::join!(request(), request());
    assert_eq!(first.unwrap().status(), 200);
    assert_eq!(rejected(second.unwrap()).await, (429, "too many reviews at once; retry later\n".to_owned()));
}

#[tokio::test]
async fn in_kcp_what_may_not_be_read_is_no_reason() {
    let service = service(at_once(|_| response(403, &json!({})))).admitting_specs(ControlPlane::Kcp);
    let in_workspace =
        |path: &str| written(path).replace(r#""metadata":{"#, r#""metadata":{"annotations":{"kcp.io/cluster":"c1"},"#);
    assert!(allowed(&answer(service.clone(), post_bytes("/rule", in_workspace(".spec.vcp"))).await));
    let wrong = answer(service, post_bytes("/rule", in_workspace("$.spec.vpc"))).await;
    assert!(refused(&wrong).contains("spec.dependencies[0].fieldRef.path"), "{wrong}");
}

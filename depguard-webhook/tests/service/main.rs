//! The service as a provider mounts it, over a port that answers by script.

mod cluster;
mod denial_events;
mod interlock;
mod limits;
mod locks;
mod logs;
mod metrics;
mod owners;
mod references;
mod sharing;
mod spec_admission;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use depguard_core::probe::{Loaded, LoadedRule, LoadedRulesRequest, dispatch_canary};
use depguard_core::rule::{RuleKey, RuleVersion};
use depguard_core::{ControlPlane, OverridePolicy, Query, RuleSet, Workspaces};
use depguard_webhook::{ApiReader, Fetched, ReviewService, Rules};
use futures::future::BoxFuture;
use http::{Request, Response, StatusCode};
use http_body_util::{BodyExt, Full};
use serde_json::{Value, json};
use tokio::time::Instant;
use tower::ServiceExt;

/// Port that answers each query by a function.
struct Script<F>(F);

impl<F: Fn(&Query) -> BoxFuture<'static, Fetched> + Send + Sync + 'static> ApiReader for Script<F> {
    async fn get(&self, query: &Query) -> Fetched {
        self.0(query).await
    }
}

/// Returns a port that answers at once.
fn at_once(answer: impl Fn(&Query) -> Fetched + Send + Sync + 'static) -> impl ApiReader {
    Script(move |query: &Query| -> BoxFuture<'static, Fetched> { Box::pin(std::future::ready(answer(query))) })
}

/// Returns a port that must not be asked.
fn unasked() -> impl ApiReader {
    at_once(|query| panic!("asked for {}", query.path))
}

fn response(status: u16, body: &Value) -> Fetched {
    Fetched::Response { status, body: Bytes::from(body.to_string()) }
}

fn list(items: &[Value]) -> Fetched {
    response(200, &json!({"kind": "VirtualMachineList", "metadata": {"resourceVersion": "7"}, "items": items}))
}

fn vm(name: &str, vpc: &str) -> Value {
    json!({"metadata": {"name": name, "namespace": "default"}, "spec": {"vpcRef": {"name": vpc}}})
}

fn rule() -> Value {
    rule_about("virtualmachines", "VirtualMachine")
}

fn rule_about(resource: &str, kind: &str) -> Value {
    json!({"metadata": {"name": resource}, "spec": {
        "dependent": {"group": "compute.example.com", "version": "v1", "kind": kind, "resource": resource},
        "dependencies": [{"group": "network.example.com", "version": "v1", "resource": "vpcs",
            "fieldRef": {"path": ".spec.vpcRef.name"}}],
    }})
}

fn loaded(objects: &[Value]) -> Rules {
    let rules = Rules::not_loaded_yet("starting");
    rules.load(RuleSet::load(ControlPlane::Kubernetes, objects), Workspaces::new());
    rules
}

fn service<P: ApiReader>(port: P) -> ReviewService<P> {
    ReviewService::new(port, loaded(&[rule()]), OverridePolicy::default())
}

fn review() -> Value {
    json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": {
        "uid": "u-1", "operation": "DELETE", "name": "a", "namespace": "default",
        "resource": {"group": "network.example.com", "version": "v1", "resource": "vpcs"},
        "userInfo": {"username": "alice", "groups": ["system:authenticated"]},
        "oldObject": {"metadata": {"name": "a", "namespace": "default", "uid": "o-1"}},
    }})
}

fn post(review: &Value) -> Request<Full<Bytes>> {
    post_bytes("/validate?timeout=10s", review.to_string())
}

fn post_bytes(uri: &str, body: impl Into<Bytes>) -> Request<Full<Bytes>> {
    let request = Request::post(uri).header("content-type", "application/json");
    request.body(Full::new(body.into())).unwrap()
}

async fn answer<P: ApiReader>(service: ReviewService<P>, request: Request<Full<Bytes>>) -> Value {
    reviewed(service.oneshot(request).await.unwrap()).await
}

/// Returns the `response` of an answered review.
async fn reviewed(response: Response<Full<Bytes>>) -> Value {
    assert_eq!(response.status(), StatusCode::OK);
    assert_eq!(response.headers()["content-type"], "application/json");
    let body = response.into_body().collect().await.unwrap().to_bytes();
    let review: Value = serde_json::from_slice(&body).unwrap();
    assert_eq!((&review["apiVersion"], &review["kind"]), (&json!("admission.k8s.io/v1"), &json!("AdmissionReview")));
    review["response"].clone()
}

async fn rejected(response: Response<Full<Bytes>>) -> (u16, String) {
    let status = response.status().as_u16();
    assert_eq!(response.headers()["content-type"], "text/plain; charset=utf-8");
    let body = response.into_body().collect().await.unwrap().to_bytes();
    (status, String::from_utf8(body.to_vec()).unwrap())
}

/// Returns the message of a refusal that stays until somebody acts.
fn refused(response: &Value) -> &str {
    let status = refusal(response);
    assert_eq!((&status["code"], &status["reason"]), (&json!(403), &json!("Forbidden")), "{response}");
    assert_eq!(status["details"].get("retryAfterSeconds"), None, "{response}");
    status["message"].as_str().unwrap()
}

/// Returns the message of a refusal after which `kubectl` tries again by itself.
fn put_off(response: &Value) -> &str {
    let status = refusal(response);
    assert_eq!((&status["code"], &status["reason"]), (&json!(429), &json!("TooManyRequests")), "{response}");
    let seconds = status["details"]["retryAfterSeconds"].as_u64();
    assert!(seconds.is_some_and(|seconds| (1..=3).contains(&seconds)), "{response}");
    status["message"].as_str().unwrap()
}

/// Returns the status of a refusal, which names a cause.
fn refusal(response: &Value) -> &Value {
    assert_eq!((&response["uid"], &response["allowed"]), (&json!("u-1"), &json!(false)), "{response}");
    assert!(response["status"]["details"]["causes"][0]["reason"].is_string(), "{response}");
    &response["status"]
}

/// Returns the words of a refusal's causes.
fn causes(response: &Value) -> Vec<&str> {
    let causes = refusal(response)["details"]["causes"].as_array().unwrap();
    causes.iter().map(|cause| cause["reason"].as_str().unwrap()).collect()
}

fn allowed(response: &Value) -> bool {
    response["uid"] == "u-1" && response["allowed"] == true && response.get("status").is_none()
}

#[tokio::test]
async fn a_referenced_object_is_refused_by_name() {
    let port = at_once(|query| {
        assert_eq!(
            query.path,
            "/apis/compute.example.com/v1/namespaces/default/virtualmachines?fieldSelector=spec.vpcRef.name%3Da&limit=500"
        );
        list(&[vm("m1", "a"), vm("m2", "b"), vm("m3", "a")])
    });
    let response = answer(service(port), post(&review())).await;
    assert_eq!(refused(&response), "cannot delete vpcs/a: still referenced by VirtualMachine/m1, VirtualMachine/m3");
}

#[tokio::test]
async fn an_object_that_nothing_refers_to_is_allowed() {
    let response = answer(service(at_once(|_| list(&[vm("m2", "b")]))), post(&review())).await;
    assert!(allowed(&response), "{response}");
}

#[tokio::test]
async fn a_kind_that_no_rule_names_is_allowed_without_a_look() {
    let mut review = review();
    review["request"]["resource"]["resource"] = json!("subnets");
    assert!(allowed(&answer(service(unasked()), post(&review)).await));
}

#[tokio::test]
async fn what_cannot_be_found_out_is_refused_and_says_why() {
    let forbidden = json!({"kind": "Status", "code": 403, "message": "user depguard cannot list"});
    for (fetched, cause, said) in [
        (response(500, &json!({"message": "etcd is away"})), "ReadFailed", "500"),
        (response(429, &json!({"message": "busy"})), "ReadFailed", "429"),
        (response(401, &json!({})), "ReadForbidden", "renew the webhook's credentials"),
        (response(403, &forbidden), "ReadForbidden", "user depguard cannot list"),
        (response(405, &json!({})), "ReadUnusable", "405"),
        (response(200, &json!({"metadata": {}, "items": []})), "ReadFailed", "resourceVersion"),
        (response(200, &json!("what?")), "ReadUnusable", "list of virtualmachines"),
        (Fetched::Failed("connection refused".to_owned()), "ReadFailed", "connection refused"),
    ] {
        let port = at_once(move |_| fetched.clone());
        let response = answer(service(port), post(&review())).await;
        let message = if cause == "ReadFailed" { put_off(&response) } else { refused(&response) };
        assert_eq!(causes(&response), [cause], "{response}");
        assert!(message.contains("could not find out"), "{message}");
        assert!(message.contains(said), "`{message}` does not say `{said}`");
    }
}

#[tokio::test]
async fn an_answer_too_large_is_asked_for_in_smaller_pages_and_then_refused() {
    let asked = Arc::new(AtomicUsize::new(0));
    let count = asked.clone();
    let port = at_once(move |_| {
        count.fetch_add(1, Ordering::Relaxed);
        Fetched::TooLarge
    });
    let response = answer(service(port), post(&review())).await;
    assert!(refused(&response).contains("could not find out"), "{response}");
    assert!(asked.load(Ordering::Relaxed) > 1);
}

#[tokio::test(start_paused = true)]
async fn a_port_that_hangs_is_refused_before_the_caller_hangs_up() {
    for (uri, millis) in [
        ("/validate?timeout=10s", 9_000),
        ("/validate?timeout=2s", 1_800),
        ("/validate", 9_000),
        ("/validate?timeout=never", 9_000),
        ("/validate?timeout=10m", 29_000),
        ("/validate?timeout=100ms", 50),
    ] {
        let port = Script(|_: &Query| -> BoxFuture<'static, Fetched> { Box::pin(std::future::pending()) });
        let begun = Instant::now();
        let response = answer(service(port), post_bytes(uri, review().to_string())).await;
        let waited = begun.elapsed();
        assert!(put_off(&response).contains("not answered in time"), "{response}");
        let expected = Duration::from_millis(millis);
        assert!(waited >= expected && waited <= expected + Duration::from_millis(5), "{uri}: {waited:?}");
    }
}

#[tokio::test]
async fn a_port_that_never_ends_is_refused_in_time() {
    // This server always has one more page, and never makes anybody wait.
    let port =
        at_once(|_| response(200, &json!({"metadata": {"resourceVersion": "7", "continue": "more"}, "items": []})));
    let request = post_bytes("/validate?timeout=300ms", review().to_string());
    let response = tokio::time::timeout(Duration::from_secs(5), answer(service(port), request)).await.unwrap();
    assert!(refused(&response).contains("could not find out"), "{response}");
}

#[tokio::test(start_paused = true)]
async fn queries_run_side_by_side_but_at_most_eight() {
    let running = Arc::new(AtomicUsize::new(0));
    let most = Arc::new(AtomicUsize::new(0));
    let (inside, peak) = (running.clone(), most.clone());
    let port = Script(move |_: &Query| -> BoxFuture<'static, Fetched> {
        let (running, most) = (inside.clone(), peak.clone());
        Box::pin(async move {
            most.fetch_max(running.fetch_add(1, Ordering::Relaxed) + 1, Ordering::Relaxed);
            tokio::time::sleep(Duration::from_secs(1)).await;
            running.fetch_sub(1, Ordering::Relaxed);
            list(&[])
        })
    });
    let rules: Vec<_> = (0..20).map(|n| rule_about(&format!("kind{}s", letters(n)), "Kind")).collect();
    let service = ReviewService::new(port, loaded(&rules), OverridePolicy::default());
    let begun = Instant::now();
    assert!(allowed(&answer(service, post(&review())).await));
    assert_eq!((most.load(Ordering::Relaxed), begun.elapsed().as_secs()), (8, 3));
}

/// Returns `a`, `b`, and so on.
fn letters(n: u8) -> char {
    char::from(b'a' + n)
}

#[tokio::test]
async fn nothing_is_decided_before_all_rules_are_loaded() {
    let rules = Rules::not_loaded_yet("no endpoint answers");
    let service = ReviewService::new(at_once(|_| list(&[])), rules.clone(), OverridePolicy::default());
    let response = answer(service.clone(), post(&review())).await;
    assert_eq!(put_off(&response), "dependency webhook not yet initialized, retry later (no endpoint answers)");

    rules.load(RuleSet::load(ControlPlane::Kubernetes, &[rule()]), Workspaces::new());
    assert!(allowed(&answer(service.clone(), post(&review())).await));

    rules.lose("the watch has ended");
    let response = answer(service, post(&review())).await;
    assert!(put_off(&response).contains("the watch has ended"), "{response}");
    assert_eq!(causes(&response), ["RulesNotLoaded"]);
}

#[tokio::test]
async fn a_changed_rule_counts_from_the_next_review_on() {
    let rules = loaded(&[]);
    let service = ReviewService::new(at_once(|_| list(&[vm("m1", "a")])), rules.clone(), OverridePolicy::default());
    assert!(allowed(&answer(service.clone(), post(&review())).await));
    rules.load(RuleSet::load(ControlPlane::Kubernetes, &[rule()]), Workspaces::new());
    assert!(refused(&answer(service.clone(), post(&review())).await).contains("VirtualMachine/m1"));
    rules.load(RuleSet::load(ControlPlane::Kubernetes, []), Workspaces::new());
    assert!(allowed(&answer(service, post(&review())).await));
}

#[tokio::test]
async fn only_those_may_override_whom_the_operator_named() {
    let policy = OverridePolicy { users: BTreeSet::from(["boss".to_owned()]), groups: BTreeSet::new() };
    for (user, may) in [("boss", true), ("alice", false), ("system:apiserver", false)] {
        let service = ReviewService::new(at_once(|_| list(&[vm("m1", "a")])), loaded(&[rule()]), policy.clone());
        let mut review = review();
        review["request"]["userInfo"] = json!({"username": user, "groups": ["system:masters"]});
        let skip = json!({"dependencies.opendefense.cloud/skip-protection": "true"});
        review["request"]["oldObject"]["metadata"]["annotations"] = skip;
        assert_eq!(allowed(&answer(service, post(&review)).await), may, "{user}");
    }
}

#[tokio::test]
async fn another_operation_than_a_deletion_is_let_through() {
    for operation in ["CREATE", "UPDATE", "CONNECT"] {
        let mut review = review();
        review["request"]["operation"] = json!(operation);
        review["request"]["oldObject"] = Value::Null;
        assert!(allowed(&answer(service(unasked()), post(&review)).await), "{operation}");
    }
}

#[tokio::test]
async fn only_a_post_of_json_to_validate_is_taken() {
    for (method, uri, content_type, status) in [
        ("POST", "/validate", "application/json", 200),
        ("POST", "/validate", "application/json; charset=utf-8", 200),
        ("POST", "/validate", "Application/JSON", 200),
        ("POST", "/validate", "application/jsonp", 415),
        ("POST", "/validate", "text/plain", 415),
        ("POST", "/validate", "", 415),
        ("GET", "/validate", "application/json", 405),
        ("PUT", "/validate", "application/json", 405),
        ("POST", "/", "application/json", 404),
        ("POST", "/validate/ignore", "application/json", 200),
        ("POST", "/validate/", "application/json", 404),
        ("POST", "/validate/ignore/", "application/json", 404),
        ("POST", "/ignore", "application/json", 404),
        ("POST", "/Validate", "application/json", 404),
        ("POST", "/v1/validate", "application/json", 404),
        ("GET", "/healthz", "application/json", 404),
    ] {
        let request = Request::builder().method(method).uri(uri).header("content-type", content_type);
        let request = request.body(Full::new(Bytes::from(review().to_string()))).unwrap();
        let response = service(at_once(|_| list(&[]))).oneshot(request).await.unwrap();
        assert_eq!(response.status().as_u16(), status, "{method} {uri} {content_type}");
        assert_eq!(response.headers().get("allow").is_some(), status == 405);
    }
    let bare = Request::post("/validate").body(Full::new(Bytes::from(review().to_string()))).unwrap();
    assert_eq!(service(unasked()).oneshot(bare).await.unwrap().status(), 415);
}

#[tokio::test]
async fn rules_that_are_ignored_where_they_fail_are_asked_for_by_themselves() {
    let mut ignored = rule();
    ignored["spec"]["failurePolicy"] = "Ignore".into();
    let post_to = |uri: &str| post_bytes(uri, review().to_string());
    let of = |port: fn(&Query) -> Fetched, rule: Value| {
        ReviewService::new(at_once(port), loaded(&[rule]), OverridePolicy::default())
    };
    let referenced = |_: &Query| list(&[vm("m1", "a")]);
    let failing = |_: &Query| response(500, &json!({}));
    // Each rule counts at its own path, and refuses if there is a blocker.
    assert!(refused(&answer(of(referenced, ignored.clone()), post_to("/validate/ignore")).await).contains("m1"));
    assert!(allowed(&answer(of(referenced, ignored.clone()), post_to("/validate")).await));
    assert!(allowed(&answer(of(referenced, rule()), post_to("/validate/ignore")).await));
    // A failure shows as a warning, and refuses nothing.
    let response = answer(of(failing, ignored), post_to("/validate/ignore")).await;
    assert!(allowed(&response) && response["warnings"][0].as_str().unwrap().contains("HTTP 500"), "{response}");
    let starting = Rules::not_loaded_yet("starting");
    let service_of = |rules| ReviewService::new(unasked(), rules, OverridePolicy::default());
    let response = answer(service_of(starting), post_to("/validate/ignore")).await;
    assert!(allowed(&response) && response["warnings"][0].as_str().unwrap().contains("not loaded"), "{response}");
    let long = format!(r#"{{"request":{{"uid":"u-1","object":"{}"}}}}"#, "x".repeat(10 << 20));
    let response = service(unasked()).oneshot(post_bytes("/validate/ignore", long)).await.unwrap();
    assert_eq!(rejected(response).await.0, 413);
}

#[tokio::test]
async fn a_controller_is_told_which_rules_are_in_force() {
    let key = |name: &str| RuleKey { cluster: None, name: name.to_owned() };
    let (known, unknown) = (key("virtualmachines"), key("other"));
    let request = LoadedRulesRequest::new("u-1", [&known, &unknown]);
    let ask = async |rules: Rules, path: &str| {
        let service = ReviewService::new(at_once(|_| list(&[])), rules, OverridePolicy::default());
        let response = service.oneshot(post_bytes(path, request.to_review())).await.unwrap();
        request.read(&response.into_body().collect().await.unwrap().to_bytes()).unwrap()
    };
    let mut rule = rule();
    rule["metadata"]["generation"] = json!(4);
    rule["metadata"]["uid"] = json!("7");
    let version = RuleVersion::of(&rule);
    for path in ["/validate", "/validate/ignore"] {
        let said = ask(loaded(std::slice::from_ref(&rule)), path).await;
        assert_eq!(said, Loaded::Rules([(known.clone(), LoadedRule::new(version.clone()))].into()), "{path}");
    }
    let said = ask(Rules::not_loaded_yet("the webhook is loading the rules"), "/validate").await;
    assert_eq!(said, Loaded::NotLoaded("the webhook is loading the rules".to_owned()));
}

#[tokio::test]
async fn a_controller_is_told_of_a_right_that_is_missing() {
    let key = RuleKey { cluster: None, name: "virtualmachines".to_owned() };
    let request = LoadedRulesRequest::new("u-1", [&key]);
    // Only a forbidden read is a missing right, and a known result is not tried again and again.
    for (status, lacks) in [(200, None), (404, None), (500, None), (403, Some("get and list it"))] {
        let reads = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&reads);
        let service = service(at_once(move |query| {
            assert_eq!(query.path, "/apis/compute.example.com/v1/virtualmachines?limit=1");
            counted.fetch_add(1, Ordering::Relaxed);
            response(status, &json!({}))
        }));
        for _ in 0..2 {
            let response = service.clone().oneshot(post_bytes("/validate", request.to_review())).await.unwrap();
            let said = request.read(&response.into_body().collect().await.unwrap().to_bytes()).unwrap();
            let Loaded::Rules(rules) = said else { panic!("{said:?}") };
            let found = rules[&key].lacks.clone();
            match lacks {
                Some(right) => assert!(found.as_ref().is_some_and(|found| found.contains(right)), "{found:?}"),
                None => assert_eq!(found, None, "{status}"),
            }
        }
        // A forbidden read is tried again soon: somebody may have granted the right.
        assert!(lacks.is_some() || reads.load(Ordering::Relaxed) == 1, "{status}");
    }
}

#[tokio::test]
async fn a_dry_run_of_the_canary_is_refused_whatever_the_rules_and_a_real_one_never() {
    let mut review = review();
    review["request"]["resource"] = json!({"group": "", "version": "v1", "resource": "configmaps"});
    review["request"]["oldObject"]["metadata"]["name"] = json!(dispatch_canary::NAME);
    review["request"]["oldObject"]["metadata"]["labels"] = json!({dispatch_canary::LABEL: "true"});
    let ask = async |review: &Value| {
        let service = ReviewService::new(unasked(), loaded(&[]), OverridePolicy::default());
        answer(service, post_bytes("/validate/ignore", review.to_string())).await
    };
    assert!(allowed(&ask(&review).await));
    review["request"]["dryRun"] = json!(true);
    let response = ask(&review).await;
    assert_eq!((refused(&response), causes(&response)), (dispatch_canary::MESSAGE, vec!["DispatchCanary"]));
    // An operator makes one of another kind, about which only the paths of its rules are asked.
    let ask = async |review: &Value| {
        let service = ReviewService::new(unasked(), loaded(&[]), OverridePolicy::default());
        answer(service, post_bytes("/validate", review.to_string())).await
    };
    assert!(allowed(&ask(&review).await), "the ConfigMap is never reviewed there");
    review["request"]["resource"] = json!({"group": "network.example.com", "version": "v1", "resource": "vpcs"});
    assert_eq!(refused(&ask(&review).await), dispatch_canary::MESSAGE);
    review["request"]["dryRun"] = json!(false);
    assert!(allowed(&ask(&review).await));
}

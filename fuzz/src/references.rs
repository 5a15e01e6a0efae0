//! Creations and updates of objects with references.

use depguard_core::protocol::{Answer, ObjectReview};
use depguard_core::{Context, ControlPlane, Decision, RuleSet};
use serde_json::Value;

use crate::targets::mended;

/// Limit that is longer than any answer. The message is a few kB, and each target that it names is a cause too.
const MAX_ANSWERED: usize = 64 << 10;

/// Creations and updates to which the rule applies.
pub const GOOD_CHANGES: [&str; 3] = [
    r#"{"apiVersion":"admission.k8s.io/v1","request":{"uid":"1","operation":"CREATE","resource":{"group":"compute.example.com",
    "version":"v1","resource":"virtualmachines"},"object":{"metadata":{"name":"m1","namespace":"default","uid":"u1"},
    "spec":{"vpcRef":{"name":"a"},"networks":[{"vpc":{"name":"b","namespace":"other"}},{"vpc":{"name":"c"}}]}}}}"#,
    r#"{"apiVersion":"admission.k8s.io/v1","request":{"uid":"1","operation":"UPDATE","subResource":"status","resource":{
    "group":"compute.example.com","version":"v1","resource":"virtualmachines"},"object":{"metadata":{"name":"m1",
    "namespace":"default","labels":{"tier":"prod"},"ownerReferences":[{"uid":"u7"}]},"spec":{"vpcRef":{"name":"a"}}},
    "oldObject":{"metadata":{"name":"m1","namespace":"default"},"spec":{"vpcRef":{"name":"b"}}}}}"#,
    r#"{"apiVersion":"admission.k8s.io/v1","request":{"uid":"1","operation":"UPDATE","dryRun":true,"resource":{
    "group":"compute.example.com","version":"v1","resource":"virtualmachines"},"object":{"metadata":{"name":"m1",
    "deletionTimestamp":"2026-11-22T05:00:00Z"},"spec":{"vpcRef":{"name":"a"}}},"oldObject":{"metadata":{"name":"m1"}}}}"#,
];

/// Answers to the read of a target: an object, a missing one, one that is being deleted, a list.
pub const GOOD_TARGETS: [&str; 4] = [
    r#"{"kind":"VPC","metadata":{"name":"a","namespace":"default","uid":"u7"}}"#,
    r#"{"kind":"Status","code":404,"details":{"name":"a","kind":"vpcs"}}"#,
    r#"{"kind":"VPC","metadata":{"name":"a","namespace":"default","uid":"u7","deletionTimestamp":"2026-11-22T05:00:00Z"}}"#,
    r#"{"metadata":{"resourceVersion":"7"},"items":[{"metadata":{"name":"a","namespace":"x"}}]}"#,
];

const RULE: &str = r#"{"metadata":{"name":"virtualmachines"},"spec":{"dependent":{"group":"compute.example.com",
    "version":"v1","kind":"VirtualMachine","resource":"virtualmachines"},"dependencies":[{"group":"network.example.com",
    "version":"v1","resource":"vpcs","fieldRef":{"path":".spec.vpcRef.name"},"onMissing":"Deny"},{"group":"network.example.com",
    "version":"v1","resource":"vpcs","fieldRef":{"path":".spec.networks[*].vpc.name","namespacePath":
    ".spec.networks[*].vpc.namespace"},"onMissing":"Deny"}]}}"#;

/// Checks that a creation or an update is allowed without any answers only for a reason in the review itself.
pub fn change(bytes: &[u8]) {
    let Some(decision) = evaluate(bytes, |_| None) else { return };
    if decision.allowed() {
        let said = serde_json::from_slice::<Value>(bytes).or_else(|_| serde_json::from_slice(&mended(bytes)));
        let said = said.unwrap_or_default();
        assert!(goes_on(&said["request"]), "{said}");
    }
}

/// Checks that an answer lets the first creation pass only if it is the object that the review asks for.
pub fn target(bytes: &[u8]) {
    let review = r#"{"request":{"uid":"1","operation":"CREATE","resource":{"group":"compute.example.com","version":"v1",
        "resource":"virtualmachines"},"object":{"metadata":{"name":"m1","namespace":"default"},"spec":{"vpcRef":{"name":"a"}}}}}"#;
    for status in [200, 404] {
        let decision = evaluate(review.as_bytes(), |_| Some((status, bytes)));
        if decision.is_some_and(|decision| decision.allowed()) {
            let object = serde_json::from_slice::<Value>(bytes).or_else(|_| serde_json::from_slice(&mended(bytes)));
            let metadata = &object.unwrap_or_default()["metadata"];
            let is_there = metadata["name"] == "a" && metadata["deletionTimestamp"].is_null();
            assert!(status == 200 && is_there, "{status} {metadata}");
        }
    }
}

/// Returns true if a review asks for nothing, by a plain reading of the request.
fn goes_on(request: &Value) -> bool {
    let (kind, object) = (&request["resource"], &request["object"]);
    let is_another = |field, own| kind[field] != own;
    let sub_resource = request["subResource"].as_str().unwrap_or_default();
    let whole = match request["operation"].as_str() {
        Some("CREATE") => sub_resource.is_empty(),
        Some("UPDATE") => ["", "status", "ephemeralcontainers"].contains(&sub_resource),
        _ => false,
    };
    let names = |object: &Value| {
        let networks = match &object["spec"]["networks"] {
            Value::Array(networks) => networks.iter().collect::<Vec<_>>(),
            Value::Object(networks) => networks.values().collect(),
            _ => Vec::new(),
        };
        let texts = |value: &Value| match value {
            Value::Array(list) => list.iter().filter_map(Value::as_str).map(str::to_owned).collect(),
            value => value.as_str().map(str::to_owned).into_iter().collect::<Vec<_>>(),
        };
        let own = object["metadata"]["namespace"].as_str().filter(|own| !own.is_empty());
        let of_many = networks.into_iter().flat_map(|network| {
            let place = network["vpc"]["namespace"].as_str().filter(|place| !place.is_empty()).or(own);
            texts(&network["vpc"]["name"]).into_iter().map(move |name| (1, place.map(str::to_owned), name))
        });
        let of_one = texts(&object["spec"]["vpcRef"]["name"]).into_iter();
        let of_one = of_one.map(|name| (0, own.map(str::to_owned), name));
        of_one.chain(of_many).filter(|(.., name)| !name.is_empty()).collect::<Vec<_>>()
    };
    let before = if request["operation"] == "UPDATE" { names(&request["oldObject"]) } else { Vec::new() };
    !whole
        || is_another("group", "compute.example.com")
        || is_another("resource", "virtualmachines")
        || is_another("version", "v1")
        || !object["metadata"]["deletionTimestamp"].is_null()
        || names(object).iter().all(|name| before.contains(name))
}

/// Decides with the same answer to every query, in at most a hundred rounds; `None` if the bytes are no review.
fn evaluate<'p>(bytes: &[u8], answer: impl Fn(&str) -> Option<(u16, &'p [u8])>) -> Option<Decision> {
    let review = ObjectReview::parse(bytes).ok()?;
    let rule: Value = serde_json::from_str(RULE).unwrap_or_default();
    let rules = RuleSet::load(ControlPlane::Kubernetes, [&rule]);
    let mut evaluation = rules.evaluate_references(&review, &Context::default());
    for _ in 0..100 {
        for query in evaluation.queries() {
            if let Some((status, body)) = answer(&query.path) {
                evaluation.answer(query.id, Answer::Response { status, body });
            }
        }
    }
    let decision = evaluation.decide();
    assert_eq!(decision.allowed(), decision.message().is_none());
    assert!(decision.to_review("1").len() <= MAX_ANSWERED);
    Some(decision)
}

//! Locks, as their authors and the users who change objects can have them read.

use depguard_core::ControlPlane;
use depguard_core::locks::{Lock, LockDecision, LockEvaluation, LockKind, LockTable, Timestamp};
use depguard_core::protocol::{Answer, Ask, ObjectReview};
use serde_json::{Value, json};

use crate::targets::mended;

/// Limit that is longer than any answer.
const MAX_ANSWERED: usize = 16 << 10;

/// Checks a review and the one lock that may apply to it, with an empty line between them. The review may pass only for
/// a reason that a plain reading of the two confirms. Also checks the lock's creation, and its bytes read as a table.
pub fn lock(bytes: &[u8]) {
    let Some(at) = bytes.windows(2).position(|two| two == b"\n\n") else { return };
    let (review, lock) = (&bytes[..at], &bytes[at + 2..]);
    if let Ok(table) = LockTable::parse(lock) {
        assert_eq!(LockTable::from_value(&table.to_value()).as_ref(), Ok(&table));
    }
    making(lock);
    let Ok(parsed) = ObjectReview::parse(review) else { return };
    let decision = decide(&parsed, lock);
    if !decision.allowed() {
        return;
    }
    let read = |bytes: &[u8]| serde_json::from_slice::<Value>(&mended(bytes)).unwrap_or_default();
    let request = &read(review)["request"];
    let whole = request["subResource"].as_str().is_none_or(str::is_empty);
    match decision.label() {
        "not-guarded" => assert!(whole && (request["operation"] == "CREATE" || request["operation"] == "CONNECT")),
        "terminating" => assert!(!request["oldObject"]["metadata"]["deletionTimestamp"].is_null(), "{request}"),
        "exempt" => assert_eq!(guarded(&request["oldObject"]), guarded(&request["object"])),
        "holder" | "expired" | "unlocked" => assert!(!plainly_locks(&read(lock), request), "{request}"),
        label => panic!("let through as {label}: {request}"),
    }
}

/// Checks that a lock is created if and only if it is usable.
fn making(lock: &[u8]) {
    let Ok(object) = serde_json::from_slice::<Value>(lock) else { return };
    let review = json!({"request": {
        "uid": "1", "operation": "CREATE", "object": object, "userInfo": {"username": "alice"},
        "resource": {"group": "dependencies.opendefense.cloud", "version": "v1alpha1", "resource": "objectlocks"},
    }})
    .to_string();
    let Ok(review) = ObjectReview::parse(review.as_bytes()) else { return };
    let decision = decide(&review, b"");
    let parsed = Lock::parse(LockKind::ObjectLock, &object);
    assert_eq!(decision.allowed(), parsed.is_ok(), "{:?} {parsed:?}", decision.message());
}

/// Decides a review. Each table names the lock for every object, and nothing is being deleted.
fn decide(review: &ObjectReview<'_>, lock: &[u8]) -> LockDecision {
    let Some(now) = Timestamp::parse("2026-12-01T00:00:00Z") else { unreachable!("it is a point in time") };
    let mut evaluation = LockEvaluation::begin(ControlPlane::Kubernetes, review, now);
    for _ in 0..100 {
        for ask in evaluation.asks() {
            let (id, status, body) = match ask {
                Ask::Get(query) if query.path.contains("/objectlocks/") => (query.id, 200, lock.to_vec()),
                Ask::Get(query) if query.path.ends_with("/locktables/ns.default.vms.compute.example.com") => {
                    (query.id, 200, TABLE.as_bytes().to_vec())
                }
                Ask::Get(query) => {
                    let mut parts = query.path.rsplit('/');
                    let (name, kind) = (parts.next(), parts.next());
                    let status = json!({"kind": "Status", "code": 404, "details": {"name": name, "kind": kind}});
                    (query.id, 404, status.to_string().into_bytes())
                }
                Ask::Send(send) => (send.id, 201, br#"{"status":{"allowed":true}}"#.to_vec()),
            };
            evaluation.answer(id, Answer::Response { status, body: &body });
        }
    }
    let decision = evaluation.decide();
    assert_eq!(decision.allowed(), decision.message().is_none());
    assert!(LockDecision::LABELS.contains(&decision.label()));
    let answer = decision.to_review("1");
    assert!(answer.len() <= MAX_ANSWERED, "{} bytes", answer.len());
    decision
}

/// Returns the object without the fields that may always change.
fn guarded(object: &Value) -> Value {
    let mut object = object.clone();
    if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
        for field in ["finalizers", "ownerReferences", "managedFields", "resourceVersion", "generation"] {
            metadata.remove(field);
        }
    }
    object
}

/// Returns true if a lock with only targets and a reason locks a `default/vm-1` that is deleted or changed.
fn plainly_locks(lock: &Value, request: &Value) -> bool {
    let whole = request["subResource"].as_str().is_none_or(str::is_empty);
    let object = &request["oldObject"]["metadata"];
    let is_it = object["name"] == "vm-1" && object["namespace"] == "default";
    let says = |field: &str| matches!(field, "targets" | "reason");
    let only = lock["spec"].as_object().is_some_and(|spec| spec.keys().all(|field| says(field)));
    let target = json!({"group": "compute.example.com", "resource": "vms", "name": "vm-1"});
    let kind = (&request["resource"]["group"], &request["resource"]["resource"]);
    let is_kind = kind == (&target["group"], &target["resource"]);
    whole && is_it && is_kind && only && lock["spec"]["targets"].as_array().is_some_and(|all| all.contains(&target))
}

const TABLE: &str = r#"{"metadata":{"name":"ns.default.vms.compute.example.com","uid":"t","resourceVersion":"1"},"spec":{
    "namespace":"default","group":"compute.example.com","resource":"vms","revision":1,
    "entries":[{"lock":"a","selectors":[{}],"names":["vm-1"],"revision":1}]}}"#;

/// Reviews with locks: a deletion, changes, a change by the lock's holder, a change through a subresource; and a table.
pub const GOOD_LOCKS: [&str; 5] = [
    r#"{"request":{"uid":"1","operation":"DELETE","resource":{"group":"compute.example.com","version":"v1","resource":"vms"},
    "userInfo":{"username":"alice","groups":["dev"]},"name":"vm-1","namespace":"default",
    "oldObject":{"metadata":{"name":"vm-1","namespace":"default"}}}}

{"kind":"ObjectLock","metadata":{"name":"a","namespace":"default"},"spec":{"targets":[
    {"group":"compute.example.com","resource":"vms","name":"vm-1"}],"reason":"why"}}"#,
    r#"{"request":{"uid":"1","operation":"UPDATE","resource":{"group":"compute.example.com","version":"v1","resource":"vms"},
    "userInfo":{"username":"alice"},"object":{"metadata":{"name":"vm-1","namespace":"default","finalizers":["x"]},
    "spec":{"disks":[{"size":10}],"cpu":1.5}},"oldObject":{"metadata":{"name":"vm-1","namespace":"default","labels":{"a":"b"}},
    "spec":{"cpu":1.5,"disks":[{"size":11}]}}}}

{"kind":"ObjectLock","metadata":{"name":"a","namespace":"default","creationTimestamp":"2026-11-30T23:00:00Z"},"spec":{"targets":[
    {"group":"compute.example.com","resource":"vms","selector":{"matchLabels":{"a":"b"}}}],"operations":["Update"],
    "fields":[".spec.disks[*].size"],"ttl":"1h30m","duringTeardown":"Hold"}}"#,
    r#"{"request":{"uid":"1","operation":"UPDATE","resource":{"group":"compute.example.com","version":"v1","resource":"vms"},
    "userInfo":{"username":"system:serviceaccount:backup:s"},"object":{"metadata":{"name":"vm-1","namespace":"default",
    "finalizers":["x"],"generation":2}},"oldObject":{"metadata":{"name":"vm-1","namespace":"default","generation":1}}}}

{"kind":"ObjectLock","metadata":{"name":"a","namespace":"default"},"spec":{"targets":[
    {"group":"compute.example.com","resource":"vms","name":"vm-1"}],"expiresAt":"2027-01-01T00:00:00Z",
    "holder":{"users":["alice"],"groups":["ops"],"serviceAccounts":[{"namespace":"backup","name":"s"}]}}}"#,
    r#"{"request":{"uid":"1","operation":"UPDATE","subResource":"scale","name":"vm-1","namespace":"default",
    "resource":{"group":"compute.example.com","version":"v1","resource":"vms"},"userInfo":{"username":"alice"},
    "object":{"metadata":{"name":"vm-1","namespace":"default"},"spec":{"replicas":2}},
    "oldObject":{"metadata":{"name":"vm-1","namespace":"default"},"spec":{"replicas":1}}}}

{"kind":"ObjectLock","metadata":{"name":"a","namespace":"default"},"spec":{"targets":[
    {"group":"compute.example.com","resource":"vms/scale","name":"vm-1"}]}}"#,
    r#"{"request":{"uid":"1","operation":"CREATE","resource":{"group":"compute.example.com","version":"v1","resource":"vms"},
    "object":{"metadata":{"name":"vm-1"}}}}

{"metadata":{"name":"ns.default.pods"},"spec":{"namespace":"default","group":"","resource":"pods","revision":2,"entries":[
    {"lock":"a","names":["p"],"revision":1},{"lock":"b","namespace":"x","selectors":[{"matchLabels":{"a":"b"}}],"revision":2}]}}"#,
];

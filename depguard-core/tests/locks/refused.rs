//! Tests of a refusal's message, of who may read it, and of refusals for lack of knowledge.

use depguard_core::ControlPlane;
use depguard_core::locks::{LockDecision, LockEvaluation, LockKind};
use depguard_core::protocol::{Answer, Ask, ObjectReview};
use serde_json::{Value, json};

use crate::world::*;

fn snapshot() -> Value {
    json!({
        "reason": "snapshot running", "expiresAt": "2027-01-01T00:00:00Z",
        "holder": {"serviceAccounts": [{"namespace": "backup", "name": "snapshotter"}]},
    })
}

#[test]
fn who_may_read_the_lock_is_told_why() {
    let mut world = World::with_lock(snapshot());
    let hidden = "Object is locked; users with the verb get on the lock can read the reason";
    assert_eq!(world.decide(&delete(vm())).message().unwrap(), hidden);
    world.may("alice", "get", "objectlocks/default/a");
    let shown = "Object is locked: snapshot running (ObjectLock default/a, held by ServiceAccount backup/snapshotter, until 2027-01-01T00:00:00Z)";
    assert_eq!(world.decide(&delete(vm())).message().unwrap(), shown);
    assert_eq!(world.decide(&by("bob", &[], delete(vm()))).message().unwrap(), hidden);
    // A lock may give no reason.
    let mut unreasoned = World::with_lock(json!({"holder": {"users": ["backup"]}}));
    unreasoned.may("alice", "get", "objectlocks/default/a");
    let shown = "Object is locked: no reason is given (ObjectLock default/a, held by user backup)";
    assert_eq!(unreasoned.decide(&delete(vm())).message().unwrap(), shown);
    // If the access review fails, the user counts as one who may not see the lock.
    world.faults.push(("/apis/authorization.k8s.io".to_owned(), 500));
    assert_eq!(world.decide(&delete(vm())).message().unwrap(), hidden);
}

#[test]
fn a_refusal_is_a_forbidden_status_with_a_cause_a_lock() {
    let mut world = World::with_lock(json!({"reason": "frozen", "fields": [".spec.disks"]}));
    world.may("alice", "get", "objectlocks/default/a");
    let review = update(vm(), with(vm(), "/spec/disks", json!([])));
    let answer: Value = serde_json::from_slice(&world.decide(&review).to_review("r")).unwrap();
    assert_eq!(
        answer["response"],
        json!({
            "uid": "r", "allowed": false,
            "status": {
                "metadata": {}, "status": "Failure", "code": 403, "reason": "Forbidden",
                "message": "Object is locked: frozen (ObjectLock default/a, which freezes spec.disks)",
                "details": {"causes": [{"reason": "ObjectLocked", "message": "ObjectLock default/a", "field": "spec.disks"}]},
            },
            "auditAnnotations": {"lock": "ObjectLock default/a", "lock-decision": "refused"},
        })
    );
    let allowed = world.decide(&update(vm(), with(vm(), "/spec/cpu", json!(3))));
    let answer: Value = serde_json::from_slice(&allowed.to_review("r")).unwrap();
    assert_eq!(answer["response"], json!({"uid": "r", "allowed": true}));
}

#[test]
fn an_eviction_is_refused_with_the_code_of_a_disruption_budget() {
    let code = |decision: LockDecision| {
        let answer: Value = serde_json::from_slice(&decision.to_review("r")).unwrap();
        let status = &answer["response"]["status"];
        (status["code"].clone(), status["reason"].clone())
    };
    let pods = json!({"targets": [{"resource": "pods", "name": "p"}], "reason": "frozen"});
    let mut world = World::with_lock(pods);
    world.may("alice", "get", "objectlocks/default/a");
    let decision = world.decide(&evict("p"));
    assert_eq!(decision.message().unwrap(), "Object is locked: frozen (ObjectLock default/a)");
    assert_eq!(code(decision), (json!(429), json!("TooManyRequests")));
    assert_eq!(code(world.decide(&delete_pod("p"))), (json!(403), json!("Forbidden")));
    // An eviction can be tried again, also if depguard could not find out whether a lock forbids it.
    world.faults.push(("/apis/dependencies.opendefense.cloud/v1alpha1/locktables".to_owned(), 500));
    let undecided = world.decide(&evict("p"));
    assert_eq!(undecided.causes().words(), ["ReadFailed"]);
    assert_eq!(code(undecided).0, json!(429));
    let mut unnamed = evict("p");
    unnamed["request"]["name"] = "p/q".into();
    assert_eq!(code(world.decide(&unnamed)).0, json!(429));
}

#[test]
fn of_many_locks_the_first_are_named() {
    let mut world = World::new(ControlPlane::Kubernetes);
    for n in 0..20 {
        world.lock(LockKind::ObjectLock, &format!("l{n:02}"), json!({"reason": "é".repeat(500)}));
        world.may("alice", "get", &format!("objectlocks/default/l{n:02}"));
    }
    world.asked.clear();
    let decision = world.decide(&delete(vm()));
    let message = decision.message().unwrap();
    assert!(message.starts_with("Object is locked: é") && message.ends_with("; and 17 more"), "{message}");
    assert!(message.len() < 5_000 && decision.to_review("r").len() < 8_000);
    assert_eq!(decision.locks().len(), 20);
    assert!(decision.audit_annotations()["lock"].ends_with("ObjectLock default/l02, and 17 more"));
    // The requests are two tables, one list, the namespace, and three access reviews of the requester.
    assert_eq!(world.asked.len(), 7, "{:?}", world.asked);
}

#[test]
fn few_locks_are_read_one_by_one() {
    for (count, lists) in [(8, false), (9, true)] {
        let mut world = World::new(ControlPlane::Kubernetes);
        for n in 0..count {
            world.lock(LockKind::ObjectLock, &format!("l{n}"), json!({"operations": ["Update"]}));
        }
        assert_eq!(world.decide(&delete(vm())).label(), "unlocked");
        assert_eq!(world.asked.iter().any(|path| path.contains("objectlocks?limit=")), lists, "{count}");
    }
}

#[test]
fn an_entry_of_a_lock_that_is_not_there_locks_nothing() {
    for count in [1, 9] {
        let mut world = World::new(ControlPlane::Kubernetes);
        for n in 0..count {
            world.lock(LockKind::ObjectLock, &format!("l{n}"), json!({}));
        }
        assert_eq!(world.decide(&delete(vm())).label(), "locked");
        for n in 0..count {
            world.objects.remove(&path_of(LockKind::ObjectLock, &format!("l{n}")));
        }
        assert_eq!(world.decide(&delete(vm())).label(), "unlocked");
    }
}

/// Decides a deletion and calls `meanwhile` before each request to a lock, with the number of such requests.
fn decided_while(world: &mut World, mut meanwhile: impl FnMut(&mut World, usize)) -> LockDecision {
    let bytes = delete(vm()).to_string();
    let review = ObjectReview::parse(bytes.as_bytes()).unwrap();
    let mut evaluation = LockEvaluation::begin(ControlPlane::Kubernetes, &review, world.now);
    let mut reads = 0;
    loop {
        let asks = evaluation.asks();
        if asks.is_empty() {
            return evaluation.decide();
        }
        for ask in asks {
            let id = match &ask {
                Ask::Get(query) => {
                    if query.path.contains("/objectlocks/") {
                        meanwhile(world, reads);
                        reads += 1;
                    }
                    query.id
                }
                Ask::Send(send) => send.id,
            };
            let (status, body) = world.serve(&ask);
            evaluation.answer(id, Answer::Response { status, body: body.to_string().as_bytes() });
        }
    }
}

#[test]
fn a_lock_that_takes_over_from_another_is_seen() {
    let kind = LockKind::ObjectLock;
    let mut world = World::with_lock(json!({}));
    let decision = decided_while(&mut world, |world, reads| {
        if reads == 0 {
            world.lock(kind, "b", json!({}));
            world.objects.remove(&path_of(kind, "a"));
        }
    });
    assert_eq!(decision.label(), "locked");

    // The evaluation does not retry for ever.
    let mut world = World::with_lock(json!({}));
    let decision = decided_while(&mut world, |world, reads| {
        world.objects.retain(|path, _| !path.contains("/objectlocks/"));
        world.lock(kind, &format!("b{reads}"), json!({}));
    });
    assert!(!decision.allowed());
    let message = decision.message().unwrap();
    assert!(message.contains("its locks changed at each read; retry later"), "{message}");
}

#[test]
fn what_cannot_be_read_is_refused_with_what_to_do() {
    let tables = "/apis/dependencies.opendefense.cloud/v1alpha1/locktables/ns.";
    let locks = "/apis/dependencies.opendefense.cloud/v1alpha1/namespaces/default/objectlocks";
    for (fault, status, text) in [
        (
            tables,
            500,
            "the read of LockTable ns.default.vms.compute.example.com failed with HTTP 500 (broken); retry later",
        ),
        (tables, 403, "give the webhook's user the right to get locktables of dependencies.opendefense.cloud there"),
        (locks, 500, "the read of ObjectLock a failed with HTTP 500 (broken); retry later"),
        (locks, 404, "the read of ObjectLock a was answered with an HTTP 404 that does not name the lock; retry later"),
        (
            locks,
            200,
            "the read of ObjectLock a was answered with another object than the requested one; check which server \
             answers there",
        ),
        (tables, 200, "was answered with not a LockTable that this version knows"),
    ] {
        let mut world = World::with_lock(json!({}));
        world.faults.push((fault.to_owned(), status));
        let decision = world.decide(&delete(vm()));
        let message = decision.message().unwrap();
        assert!(
            message.starts_with("could not find out whether vms/vm-1 is locked: ") && message.contains(text),
            "{message}"
        );
        assert!(!decision.causes().words().contains(&"ObjectLocked") && decision.label() == "undecided");
    }
}

#[test]
fn without_tables_there_are_no_locks_only_where_none_are_served() {
    let tables = "/apis/dependencies.opendefense.cloud/v1alpha1/locktables";
    let discovery = "/apis/dependencies.opendefense.cloud/v1alpha1";
    for (resources, allowed) in [
        (Some(json!([{"name": "dependencyrules"}])), true),
        (None, true),
        (Some(json!([{"name": "objectlocks"}])), false),
        (Some(json!([{"name": "clusterobjectlocks"}])), false),
        (Some(json!(7)), false),
    ] {
        let mut world = World::new(ControlPlane::Kubernetes);
        world.faults.push((tables.to_owned(), 404));
        world.objects.remove(discovery);
        if let Some(resources) = &resources {
            world.put(discovery, json!({"resources": resources}));
        }
        assert_eq!(world.decide(&delete(vm())).allowed(), allowed, "{resources:?}");
    }
}

#[test]
fn deciding_early_refuses() {
    let world = World::new(ControlPlane::Kubernetes);
    let bytes = delete(vm()).to_string();
    let review = ObjectReview::parse(bytes.as_bytes()).unwrap();
    let begin = || LockEvaluation::begin(ControlPlane::Kubernetes, &review, world.now);
    assert!(!begin().decide().allowed());
    // The evaluation refuses as long as one answer is missing, however far it came.
    for answered in 0..9 {
        let mut world = World::with_lock(json!({"operations": ["Update"]}));
        let mut evaluation = begin();
        let mut left = answered;
        while left > 0 {
            let asks = evaluation.asks();
            if asks.is_empty() {
                break;
            }
            for ask in asks.into_iter().take(left) {
                left -= 1;
                let (status, body) = world.serve(&ask);
                let Ask::Get(query) = ask else { panic!() };
                evaluation.answer(query.id, Answer::Response { status, body: body.to_string().as_bytes() });
            }
        }
        // The requests are two tables and one lock, and both tables and the lock again.
        assert_eq!(evaluation.decide().allowed(), answered >= 6, "{answered}");
    }
}

#[test]
fn a_lock_that_cannot_be_read_holds_and_says_why() {
    for spec in [
        json!({"fields": [".spec..disks"]}),
        json!({"ttl": "2 hours"}),
        json!({"ttl": "2h", "expiresAt": "2020-01-01T00:00:00Z"}),
        json!({"operations": ["Upgrade"]}),
        json!({"holder": {"user": ["alice"]}}),
        json!({"sudo": true}),
        json!({"duringTeardown": "Maybe"}),
        json!({"reason": "a\nb"}),
        json!({"reason": 7}),
    ] {
        let mut world = World::with_lock(spec.clone());
        world.may("alice", "get", "objectlocks/default/a");
        let message = world.decide(&delete(vm())).message().unwrap();
        assert!(message.starts_with("Object is locked: the lock can't be read: spec."), "{spec} {message}");
        assert!(message.contains("; correct or delete it (ObjectLock default/a"), "{spec} {message}");
        let mut other = World::with_lock(json!({"operations": ["Update"]}));
        assert!(other.decide(&delete(vm())).allowed());
    }
}

#[test]
fn what_is_no_review_of_an_object_is_refused() {
    let mut no_object = update(vm(), vm());
    no_object["request"]["object"] = Value::Null;
    let mut dashed = delete(vm());
    dashed["request"]["resource"]["resource"] = "v_ms".into();
    for (review, text) in [
        (delete(Value::Null), "the review has no oldObject"),
        (no_object, "it lacks the object's old or new state"),
        (dashed, "its resource `v_ms` is not"),
        (delete(with(vm(), "/metadata/name", json!("a/b"))), "its oldObject has an invalid name"),
        (delete(with(vm(), "/metadata/namespace", json!("A"))), "its oldObject's namespace `A` is not"),
    ] {
        let decision = World::new(ControlPlane::Kubernetes).decide(&review);
        let message = decision.message().unwrap();
        assert!(message.contains(text) && message.contains("find out who sent it"), "{message}");
    }
    for bytes in [
        r#"{"request":{"uid":"1","operation":"DELETE","resource":{"group":"","resource":"pods"},"object":1,"object":2}}"#,
        "[]",
    ] {
        assert!(ObjectReview::parse(bytes.as_bytes()).is_err(), "{bytes}");
    }
}

//! Tests of who may change or delete a lock, and that a lock is recorded before it is stored.

use depguard_core::ControlPlane;
use depguard_core::locks::{LockDecision, LockKind};
use serde_json::{Value, json};

use crate::world::*;

const KIND: LockKind = LockKind::ObjectLock;

fn object(spec: Value) -> Value {
    lock(KIND, "a", spec)
}

fn deletion(spec: Value) -> Value {
    about(KIND, delete(object(spec)))
}

fn change(spec: Value, new: Value) -> Value {
    about(KIND, update(object(spec), object(new)))
}

fn decide(review: &Value) -> LockDecision {
    World::new(ControlPlane::Kubernetes).decide(review)
}

#[test]
fn a_lock_is_changed_and_deleted_by_its_holder_alone() {
    let held = || json!({"holder": {"users": ["alice"]}});
    for (review, expected) in [
        (deletion(held()), "holder"),
        (by("bob", &[], deletion(held())), "guarded"),
        (change(held(), json!({})), "holder"),
        (by("bob", &[], change(held(), json!({}))), "guarded"),
        // Users who name themselves in this write do not hold the lock yet.
        (change(json!({}), held()), "guarded"),
        (deletion(json!({})), "guarded"),
    ] {
        assert_eq!(decide(&review).label(), expected, "{review}");
    }
    let message = decide(&deletion(json!({"reason": "secret"}))).message().unwrap();
    let expected = "Object is locked: ObjectLock default/a holds; only its holder, or a user with the verb unlock on \
                    it, may change or delete the lock";
    assert_eq!(message, expected);
}

#[test]
fn who_may_unlock_a_lock_may_change_and_delete_it() {
    for (right, user, expected) in [
        (("alice", "unlock"), "alice", "unlock"),
        (("alice", "delete"), "alice", "guarded"),
        (("alice", "unlock"), "bob", "guarded"),
        // Otherwise an ownerReference on the lock would suffice to delete it.
        (("system:apiserver", "unlock"), "system:apiserver", "guarded"),
        (("system:kube-controller-manager", "unlock"), "system:kube-controller-manager", "guarded"),
        (("", "unlock"), "", "guarded"),
    ] {
        let mut world = World::new(ControlPlane::Kubernetes);
        world.may(right.0, right.1, "objectlocks/default/a");
        let decision = world.decide(&by(user, &[], deletion(json!({}))));
        assert_eq!(decision.label(), expected, "{right:?} {user}");
        let shown = if expected == "guarded" { "refused" } else { "unlock" };
        assert_eq!(decision.audit_annotations()["lock-decision"], shown);
        assert_eq!(decision.audit_annotations()["lock"], "ObjectLock default/a");
    }
}

#[test]
fn where_it_cannot_be_asked_who_may_nobody_may() {
    let mut world = World::new(ControlPlane::Kubernetes);
    world.may("alice", "unlock", "objectlocks/default/a");
    world.faults.push(("/apis/authorization.k8s.io".to_owned(), 500));
    let message = world.decide(&deletion(json!({}))).message().unwrap();
    let expected = "; depguard could not check everything: the SubjectAccessReview of the verb unlock failed with HTTP 500 (broken); retry later";
    assert!(message.ends_with(expected), "{message}");
}

#[test]
fn a_lock_that_has_ended_is_anybodys() {
    for (spec, expected) in [
        (json!({"expiresAt": "2026-11-30T23:59:00Z"}), "expired"),
        (json!({"ttl": "59m"}), "expired"),
        (json!({"ttl": "61m"}), "guarded"),
        (json!({}), "guarded"),
    ] {
        assert_eq!(decide(&deletion(spec.clone())).label(), expected, "{spec}");
        assert_eq!(decide(&change(spec.clone(), json!({"reason": "x"}))).label(), expected, "{spec}");
    }
}

#[test]
fn status_and_the_clusters_own_bookkeeping_are_free() {
    let mut status = change(json!({}), json!({}));
    status["request"]["object"]["status"] = json!({"conditions": []});
    assert_eq!(decide(&status).label(), "guarded");
    status["request"]["subResource"] = "status".into();
    assert_eq!(decide(&status).label(), "not-guarded");
    let finalizer = with(object(json!({})), "/metadata/finalizers", json!(["x"]));
    assert_eq!(decide(&about(KIND, update(object(json!({})), finalizer))).label(), "exempt");
    let going = with(object(json!({})), "/metadata/deletionTimestamp", json!("2026-01-01T00:00:00Z"));
    assert_eq!(decide(&about(KIND, delete(going))).label(), "terminating");
}

#[test]
fn a_lock_goes_with_its_namespace_unless_it_says_hold() {
    let going = json!({"metadata": {"name": "default", "deletionTimestamp": "2026-01-01T00:00:00Z"}});
    for (spec, review, expected) in [
        (json!({}), deletion(json!({})), "teardown"),
        (json!({}), deletion(json!({"duringTeardown": "Hold"})), "guarded"),
        (json!({}), change(json!({}), json!({"reason": "x"})), "guarded"),
    ] {
        let mut world = World::new(ControlPlane::Kubernetes);
        world.put("/api/v1/namespaces/default", going.clone());
        let review = by("system:kube-controller-manager", &[], review);
        assert_eq!(world.decide(&review).label(), expected, "{spec}");
    }
    let deletion = by("system:kube-controller-manager", &[], deletion(json!({})));
    assert_eq!(decide(&deletion).label(), "guarded");
}

#[test]
fn a_lock_is_recorded_before_it_may_be_stored() {
    let targets = json!([
        {"group": "compute.example.com", "resource": "vms", "name": "vm-1"},
        {"group": "compute.example.com", "resource": "vms/scale", "name": "vm-2"},
        {"resource": "pods", "selector": {"matchLabels": {"a": "b"}}},
    ]);
    let mut world = World::new(ControlPlane::Kubernetes);
    let creation = about(KIND, create(object(json!({"targets": targets}))));
    let decision = world.decide(&creation);
    assert_eq!((decision.label(), decision.locks().len()), ("recorded", 1));
    let root = "/apis/dependencies.opendefense.cloud/v1alpha1/locktables/ns.default.";
    let vms = world.table(&format!("{root}vms.compute.example.com")).unwrap();
    let entry = vms.entries().next().unwrap();
    assert_eq!((entry.lock.as_str(), entry.names.len(), entry.revision, vms.revision()), ("a", 2, 1, 1));
    assert_eq!(world.table(&format!("{root}pods")).unwrap().entries().next().unwrap().selectors.len(), 1);

    // Each write makes a new revision, even if nothing changes.
    assert_eq!(world.decide(&creation).label(), "recorded");
    let vms = world.table(&format!("{root}vms.compute.example.com")).unwrap();
    assert_eq!((vms.revision(), vms.entries().next().unwrap().revision), (2, 2));
}

#[test]
fn what_a_lock_named_before_stays_recorded_until_the_change_is_stored() {
    let named = |name: &str| {
        let target = json!({"group": "compute.example.com", "resource": "vms", "name": name});
        json!({"targets": [target], "holder": {"users": ["alice"]}})
    };
    let mut world = World::new(ControlPlane::Kubernetes);
    world.lock(KIND, "a", named("vm-1"));
    assert_eq!(world.decide(&change(named("vm-1"), named("vm-2"))).label(), "holder");
    let path = "/apis/dependencies.opendefense.cloud/v1alpha1/locktables/ns.default.vms.compute.example.com";
    let names = world.table(path).unwrap().entries().next().unwrap().names.clone();
    assert_eq!(names.into_iter().collect::<Vec<_>>(), ["vm-1", "vm-2"]);
}

#[test]
fn nothing_is_written_for_who_may_not_or_for_a_dry_run() {
    let writes = |world: &World| world.asked.iter().any(|path| path.contains("locktables"));
    let mut world = World::new(ControlPlane::Kubernetes);
    assert!(!world.decide(&change(json!({}), json!({"reason": "x"}))).allowed());
    assert!(!writes(&world));
    let mut dry = about(KIND, create(object(json!({}))));
    dry["request"]["dryRun"] = json!(true);
    assert!(world.decide(&dry).allowed() && !writes(&world));
    dry["request"]["dryRun"] = json!(false);
    assert!(world.decide(&dry).allowed() && writes(&world));
}

#[test]
fn a_lock_that_cannot_be_recorded_is_not_stored() {
    let tables = "/apis/dependencies.opendefense.cloud/v1alpha1/locktables";
    let creation = || about(KIND, create(object(json!({}))));
    for (status, cause, text) in [
        (
            500,
            "ReadFailed",
            "the write of LockTable ns.default.vms.compute.example.com failed with HTTP 500 (broken); retry later",
        ),
        (404, "KindNotServed", "failed: the API server does not serve locktables; apply the manifests of locks"),
        (200, "LockTableUnusable", "was answered with not a LockTable"),
    ] {
        let mut world = World::new(ControlPlane::Kubernetes);
        world.faults.push((tables.to_owned(), status));
        let decision = world.decide(&creation());
        let message = decision.message().unwrap();
        let begins = "ObjectLock default/a can't be stored, because depguard could not record it in a lock table: ";
        assert!(message.starts_with(begins) && message.contains(text), "{message}");
        assert_eq!((decision.causes().words(), decision.causes().pass()), (vec![cause], status == 500));
    }
}

#[test]
fn a_conflict_is_tried_again_but_not_for_ever() {
    use depguard_core::locks::LockEvaluation;
    use depguard_core::protocol::{Answer, Ask, ObjectReview};

    for (conflicts, allowed) in [(0, true), (15, true), (16, false)] {
        let mut world = World::new(ControlPlane::Kubernetes);
        let bytes = about(KIND, create(object(json!({})))).to_string();
        let review = ObjectReview::parse(bytes.as_bytes()).unwrap();
        let mut evaluation = LockEvaluation::begin(ControlPlane::Kubernetes, &review, world.now);
        let mut left = conflicts;
        loop {
            let asks = evaluation.asks();
            if asks.is_empty() {
                break;
            }
            for ask in asks {
                let (status, body) = match &ask {
                    Ask::Send(_) if left > 0 => {
                        left -= 1;
                        (409, json!({}))
                    }
                    ask => world.serve(ask),
                };
                let (Ask::Get(depguard_core::Query { id, .. }) | Ask::Send(depguard_core::protocol::Send { id, .. })) =
                    ask;
                evaluation.answer(id, Answer::Response { status, body: body.to_string().as_bytes() });
            }
        }
        let decision = evaluation.decide();
        assert_eq!(decision.allowed(), allowed, "{conflicts} {:?}", decision.message());
    }
}

#[test]
fn a_lock_with_a_mistake_is_not_stored() {
    let target = |target: Value| json!({"targets": [target]});
    let many = |count: usize| {
        let kinds = (0..count).map(|n| json!({"group": format!("g{n}.example.com"), "resource": "vms", "name": "a"}));
        json!({"targets": kinds.collect::<Vec<_>>()})
    };
    for (spec, expected) in [
        (json!({}), None),
        (many(16), None),
        (many(17), Some("spec.targets name 17 kinds, and at most 16 are allowed: split the lock")),
        (json!({"targets": []}), Some("spec.targets is empty: write at least one target")),
        (target(json!({"resource": "pods"})), Some("must have either a name or a selector")),
        (
            target(json!({"resource": "pods", "name": "a", "selector": {}})),
            Some("must have either a name or a selector"),
        ),
        (target(json!({"resource": "Pods", "name": "a"})), Some("spec.targets[0].resource `Pods` is not a resource")),
        (target(json!({"resource": "*", "name": "a"})), Some("spec.targets[0].resource `*` is not a resource")),
        (target(json!({"resource": "pods/*", "name": "a"})), Some("needs a subresource such as `scale` after the `/`")),
        (target(json!({"resource": "pods", "name": "a/b"})), Some("spec.targets[0].name is not a valid object name")),
        (target(json!({"resource": "pods", "name": "a", "namespace": "other"})), Some("use a ClusterObjectLock")),
        (target(json!({"resource": "pods", "name": "a", "namespace": "default"})), None),
        (target(json!({"resource": "pods", "selector": {"matchLabels": {"a b": "c"}}})), Some("is not a label's key")),
        (
            target(json!({"resource": "objectlocks", "group": GROUP, "name": "a"})),
            Some("a lock already protects itself"),
        ),
        (
            target(json!({"resource": "leases", "group": "coordination.k8s.io", "name": "a"})),
            Some("spec.targets[0].resource can't be locked: the cluster's controllers need their Leases"),
        ),
        (target(json!({"resource": "pods", "name": "a", "version": "v1beta1"})), None),
        (
            target(json!({"resource": "pods", "name": "a", "version": "1"})),
            Some("spec.targets[0].version `1` is not an API version"),
        ),
        (
            json!({"ttl": "2h", "expiresAt": "2026-12-01T00:00:00Z"}),
            Some("spec.ttl can't be combined with spec.expiresAt"),
        ),
        (json!({"ttl": "0s"}), Some("spec.ttl is not a duration, such as `2h` or `1h30m`")),
        (json!({"expiresAt": "tomorrow"}), Some("spec.expiresAt is not a point in time")),
        (json!({"fields": [".spec..a"]}), Some("spec.fields[0] can't be used: path `.spec..a` has no field name")),
        (json!({"fields": [".metadata.finalizers"]}), Some("spec.fields[0] can't be locked")),
        (json!({"fields": [".spec.a.fromJSON().b"]}), Some("spec.fields[0] can't be locked: leave `.fromJSON()` out")),
        (json!({"fields": [".spec.a"]}), None),
        (json!({"holder": {"users": [""]}}), Some("spec.holder has a name that is empty")),
        (json!({"reason": "é".repeat(513)}), Some("spec.reason is longer than 512 characters")),
        (json!({"reason": "é".repeat(512)}), None),
        (json!({"until": "x"}), Some("spec.until is unknown to this version")),
    ] {
        let decision = decide(&about(KIND, create(object(spec.clone()))));
        match expected {
            None => assert!(decision.allowed(), "{spec} {:?}", decision.message()),
            Some(expected) => {
                let message = decision.message().unwrap();
                let begins = "ObjectLock default/a can't be used: spec.";
                assert!(message.starts_with(begins) && message.contains(expected), "{message}");
            }
        }
    }
}

#[test]
fn a_lock_that_was_stored_with_a_mistake_is_corrected_by_who_may_unlock_it() {
    let broken = || json!({"operations": ["Upgrade"], "holder": {"users": ["alice"]}});
    let mut world = World::new(ControlPlane::Kubernetes);
    assert_eq!(world.decide(&change(broken(), json!({}))).label(), "guarded");
    world.may("alice", "unlock", "objectlocks/default/a");
    assert_eq!(world.decide(&change(broken(), json!({}))).label(), "unlock");
    assert_eq!(world.decide(&deletion(broken())).label(), "unlock");
    assert_eq!(world.decide(&change(broken(), json!({"operations": ["Upgrade"]}))).label(), "invalid");
}

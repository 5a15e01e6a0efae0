//! Tests of operations that are never locked, each beside one that is.

use depguard_core::ControlPlane;
use depguard_core::locks::LockKind;
use serde_json::{Value, json};

use crate::world::*;

fn through(mut review: Value, subresource: &str) -> Value {
    review["request"]["subResource"] = subresource.into();
    review
}

/// Returns the label that metrics show for a review in a world with this lock.
fn label(spec: Value, review: &Value) -> &'static str {
    World::with_lock(spec).decide(review).label()
}

#[test]
fn a_locked_object_is_neither_changed_nor_deleted() {
    let changed = with(vm(), "/spec/cpu", json!(3));
    assert_eq!(label(json!({}), &delete(vm())), "locked");
    assert_eq!(label(json!({}), &update(vm(), changed.clone())), "locked");
    let other = |object: Value| with(object, "/metadata/name", json!("vm-2"));
    assert_eq!(label(json!({}), &delete(other(vm()))), "unlocked");
    assert_eq!(label(json!({}), &update(other(vm()), other(changed))), "unlocked");
}

#[test]
fn an_unlocked_object_costs_a_read_of_each_of_its_tables() {
    let mut world = World::with_lock(json!({}));
    assert!(world.decide(&delete(with(vm(), "/metadata/name", json!("vm-2")))).allowed());
    let tables = [
        "/apis/dependencies.opendefense.cloud/v1alpha1/locktables/ns.default.vms.compute.example.com",
        "/apis/dependencies.opendefense.cloud/v1alpha1/locktables/cluster.vms.compute.example.com",
    ];
    assert_eq!(world.asked, tables);
    let mut clusterwide = vm();
    clusterwide["metadata"].as_object_mut().unwrap().remove("namespace");
    world.asked.clear();
    assert!(world.decide(&delete(clusterwide)).allowed());
    assert_eq!(world.asked, &tables[1..]);
}

#[test]
fn creation_is_never_locked() {
    assert_eq!(label(json!({}), &create(vm())), "not-guarded");
    assert_eq!(label(json!({}), &delete(vm())), "locked");
}

#[test]
fn a_lock_forbids_the_operations_that_it_names() {
    let change = update(vm(), with(vm(), "/spec/cpu", json!(3)));
    for (operations, on_update, on_delete) in [
        (json!(["Update"]), "locked", "unlocked"),
        (json!(["Delete"]), "unlocked", "locked"),
        (json!(["Update", "Delete"]), "locked", "locked"),
        (json!([]), "locked", "locked"),
    ] {
        let spec = json!({"operations": operations});
        assert_eq!(label(spec.clone(), &change), on_update, "{spec}");
        assert_eq!(label(spec.clone(), &delete(vm())), on_delete, "{spec}");
    }
}

#[test]
fn subresources_are_locked_only_where_they_are_named() {
    let target =
        |resource: &str| json!({"targets": [{"group": "compute.example.com", "resource": resource, "name": "vm-1"}]});
    let status = || through(update(vm(), with(vm(), "/status/phase", json!("Off"))), "status");
    let scale = |replicas: i32| json!({"kind": "Scale", "metadata": {"name": "vm-1", "namespace": "default"}, "spec": {"replicas": replicas}});
    let done_by = |operation: &str, object: Value| {
        let mut review = through(create(object), if operation == "CREATE" { "token" } else { "console" });
        review["request"]["operation"] = operation.into();
        review["request"]["name"] = "vm-1".into();
        review["request"]["namespace"] = "default".into();
        review
    };
    let scaling = || through(update(scale(1), scale(2)), "scale");
    for (locked, review, expected) in [
        ("vms", status(), "unlocked"),
        ("vms", scaling(), "unlocked"),
        ("vms/status", status(), "locked"),
        ("vms/status", scaling(), "unlocked"),
        ("vms/scale", scaling(), "locked"),
        ("vms/scale", status(), "unlocked"),
        ("vms/scale", delete(vm()), "unlocked"),
        ("vms", delete(vm()), "locked"),
        ("vms/console", done_by("CONNECT", json!({"kind": "ConsoleOptions"})), "locked"),
        ("vms/token", done_by("CREATE", json!({"kind": "TokenRequest"})), "locked"),
        ("vms", done_by("CREATE", json!({"kind": "TokenRequest"})), "unlocked"),
    ] {
        assert_eq!(label(target(locked), &review), expected, "{locked} {review}");
    }
}

#[test]
fn who_evicts_a_pod_deletes_it() {
    let pod = |operations: &[&str]| json!({"operations": operations, "targets": [{"resource": "pods", "name": "p"}]});
    assert_eq!(label(pod(&["Delete"]), &evict("p")), "locked");
    assert_eq!(label(pod(&["Delete"]), &evict("q")), "unlocked");
    assert_eq!(label(pod(&["Update"]), &evict("p")), "unlocked");

    // An eviction's review does not show the pod's labels.
    let selected = json!({"targets": [{"resource": "pods", "selector": {"matchLabels": {"tier": "prod"}}}]});
    for (tier, expected) in [("prod", "locked"), ("test", "unlocked")] {
        let mut world = World::with_lock(selected.clone());
        world.put("/api/v1/namespaces/default/pods/p", json!({"metadata": {"name": "p", "labels": {"tier": tier}}}));
        assert_eq!(world.decide(&evict("p")).label(), expected, "{tier}");
    }
    let mut world = World::with_lock(selected);
    world.faults.push(("/api/v1/namespaces/default/pods".to_owned(), 403));
    assert!(!world.decide(&evict("p")).allowed());
}

#[test]
fn the_clusters_own_bookkeeping_is_never_locked() {
    let references = json!([{"apiVersion": "v1", "kind": "ConfigMap", "name": "o", "uid": "o"}]);
    for (field, value, expected) in [
        ("finalizers", json!(["x"]), "exempt"),
        ("ownerReferences", references, "exempt"),
        ("managedFields", json!([{"manager": "m"}]), "exempt"),
        ("resourceVersion", json!("9"), "exempt"),
        ("generation", json!(9), "exempt"),
        ("labels", json!({"tier": "prod", "a": "b"}), "locked"),
        ("annotations", json!({"a": "b"}), "locked"),
        ("deletionTimestamp", json!("2026-01-01T00:00:00Z"), "locked"),
    ] {
        let new = with(vm(), &format!("/metadata/{field}"), value);
        assert_eq!(label(json!({}), &update(vm(), new.clone())), expected, "{field}");
        assert_eq!(label(json!({}), &update(new, vm())), expected, "{field}");
    }
    // A change of anything else beside these fields is locked, and so is a field of the same name outside the metadata.
    let both = with(with(vm(), "/metadata/finalizers", json!(["x"])), "/spec/cpu", json!(3));
    assert_eq!(label(json!({}), &update(vm(), both)), "locked");
    assert_eq!(label(json!({}), &update(vm(), with(vm(), "/spec/finalizers", json!(["x"])))), "locked");
}

#[test]
fn an_object_that_goes_already_may_be_deleted_again() {
    let going = with(vm(), "/metadata/deletionTimestamp", json!("2026-01-01T00:00:00Z"));
    assert_eq!(label(json!({}), &delete(going.clone())), "terminating");
    assert_eq!(label(json!({}), &update(going.clone(), with(going, "/spec/cpu", json!(3)))), "locked");
}

#[test]
fn only_the_frozen_fields_are_locked() {
    let spec = json!({"fields": [".spec.disks", ".metadata.labels['tier']"]});
    for (pointer, value, expected) in [
        ("/spec/cpu", json!(3), "unlocked"),
        ("/status/phase", json!("Off"), "unlocked"),
        ("/metadata/labels/other", json!("x"), "unlocked"),
        ("/metadata/labels/tier", json!("test"), "locked"),
        ("/spec/disks", json!([]), "locked"),
        ("/spec/disks", json!([{"name": "root", "size": 11}]), "locked"),
    ] {
        assert_eq!(
            label(spec.clone(), &update(vm(), with(vm(), pointer, value.clone()))),
            expected,
            "{pointer} {value}"
        );
    }
    assert_eq!(label(spec, &delete(vm())), "locked");
}

#[test]
fn a_frozen_field_is_not_changed_by_the_name_that_another_version_has_for_it() {
    let target = |version: Value| {
        let mut target = json!({"group": "compute.example.com", "resource": "vms", "name": "vm-1"});
        if !version.is_null() {
            target["version"] = version;
        }
        target
    };
    // The review shows v1, which has no `.spec.volumes`.
    let change = || update(vm(), with(vm(), "/spec/disks", json!([])));
    for (version, field, expected) in [
        (json!(null), ".spec.volumes", "locked"),
        (json!("v2"), ".spec.volumes", "locked"),
        (json!("v2"), ".spec.cpu", "locked"),
        (json!("v1"), ".spec.volumes", "unlocked"),
        (json!(null), ".spec.cpu", "unlocked"),
        (json!(null), ".metadata.labels['nothing']", "unlocked"),
    ] {
        let spec = json!({"targets": [target(version.clone())], "fields": [field]});
        assert_eq!(label(spec, &change()), expected, "{version} {field}");
    }
    // Deletions, and locks of all fields, mean the same in each version.
    let spec = json!({"targets": [target(json!("v2"))]});
    assert_eq!(label(spec.clone(), &change()), "locked");
    assert_eq!(label(spec, &delete(vm())), "locked");
}

#[test]
fn who_may_change_labels_does_not_take_an_object_out_of_its_lock() {
    let spec = |operations: &[&str]| {
        let target =
            json!({"group": "compute.example.com", "resource": "vms", "selector": {"matchLabels": {"tier": "prod"}}});
        json!({"targets": [target], "fields": [".spec.disks"], "operations": operations})
    };
    let leaves = || update(vm(), with(vm(), "/metadata/labels/tier", json!("test")));
    assert_eq!(label(spec(&["Update"]), &leaves()), "locked");
    assert_eq!(label(spec(&["Update"]), &update(vm(), with(vm(), "/metadata/labels/a", json!("b")))), "unlocked");
    // A lock on deletions alone allows all changes, also those of labels.
    assert_eq!(label(spec(&["Delete"]), &leaves()), "unlocked");
}

#[test]
fn labels_select_and_a_lock_of_the_cluster_reaches_as_far_as_it_says() {
    let selected = |namespace: Value, labels: Value| {
        let mut target =
            json!({"group": "compute.example.com", "resource": "vms", "selector": {"matchLabels": labels}});
        if !namespace.is_null() {
            target["namespace"] = namespace;
        }
        json!({"targets": [target]})
    };
    for (kind, spec, expected) in [
        (LockKind::ObjectLock, selected(json!(null), json!({"tier": "prod"})), "locked"),
        (LockKind::ObjectLock, selected(json!(null), json!({"tier": "test"})), "unlocked"),
        (LockKind::ObjectLock, selected(json!(null), json!({})), "locked"),
        (LockKind::ClusterObjectLock, selected(json!(null), json!({"tier": "prod"})), "locked"),
        (LockKind::ClusterObjectLock, selected(json!("default"), json!({"tier": "prod"})), "locked"),
        (LockKind::ClusterObjectLock, selected(json!("other"), json!({"tier": "prod"})), "unlocked"),
        // A ClusterObjectLock's target without a namespace means an object that lies in no namespace.
        (LockKind::ClusterObjectLock, json!({}), "unlocked"),
        (
            LockKind::ClusterObjectLock,
            json!({"targets": [{"group": "compute.example.com", "resource": "vms", "name": "vm-1", "namespace": "default"}]}),
            "locked",
        ),
    ] {
        let mut world = World::new(ControlPlane::Kubernetes);
        world.lock(kind, "a", spec.clone());
        assert_eq!(world.decide(&delete(vm())).label(), expected, "{spec}");
    }
    let mut world = World::new(ControlPlane::Kubernetes);
    world.lock(LockKind::ClusterObjectLock, "a", json!({}));
    let mut clusterwide = vm();
    clusterwide["metadata"].as_object_mut().unwrap().remove("namespace");
    assert_eq!(world.decide(&delete(clusterwide)).label(), "locked");
}

#[test]
fn what_is_torn_down_is_released_unless_the_lock_says_hold() {
    let going = json!({"metadata": {"name": "default", "deletionTimestamp": "2026-01-01T00:00:00Z"}});
    let standing = json!({"metadata": {"name": "default"}});
    let change = || update(vm(), with(vm(), "/spec/cpu", json!(3)));
    for (spec, namespace, review, expected) in [
        (json!({}), &going, delete(vm()), "teardown"),
        (json!({"duringTeardown": "Release"}), &going, delete(vm()), "teardown"),
        (json!({"duringTeardown": "Hold"}), &going, delete(vm()), "locked"),
        (json!({}), &standing, delete(vm()), "locked"),
        (json!({}), &going, change(), "locked"),
    ] {
        let mut world = World::with_lock(spec.clone());
        world.put("/api/v1/namespaces/default", namespace.clone());
        assert_eq!(world.decide(&review).label(), expected, "{spec} {namespace}");
    }
    let mut world = World::with_lock(json!({}));
    world.faults.push(("/api/v1/namespaces/default".to_owned(), 403));
    let message = world.decide(&delete(vm())).message().unwrap();
    assert!(
        message.contains("depguard could not check everything: the read of namespace default failed with HTTP 403"),
        "{message}"
    );
}

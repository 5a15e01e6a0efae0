//! Tests of locks that differ in kcp.

use depguard_core::locks::LockKind;
use depguard_core::{ControlPlane, LogicalCluster};
use serde_json::{Value, json};

use crate::world::*;

const BINDINGS: &str = "/apis/apis.kcp.io/v1alpha2/apibindings";
const OWN: &str = "/apis/core.kcp.io/v1alpha1/logicalclusters/cluster";

/// Returns a world in logical cluster c1, which binds `vms` from c2.
fn world(spec: Value) -> World {
    let mut world = World::new(ControlPlane::Kcp);
    world.put(OWN, json!({"metadata": {"name": "cluster"}}));
    bind(&mut world, false);
    world.lock(LockKind::ObjectLock, "a", spec);
    world
}

fn bind(world: &mut World, going: bool) {
    let mut metadata = json!({"name": "compute"});
    if going {
        metadata["deletionTimestamp"] = "2026-01-01T00:00:00Z".into();
    }
    let bound =
        json!([{"group": "compute.example.com", "resource": "vms"}, {"group": GROUP, "resource": "objectlocks"}]);
    let status = json!({"apiExportClusterName": "c2", "boundResources": bound});
    world.put(&format!("{BINDINGS}/compute"), json!({"metadata": metadata, "status": status}));
}

fn in_cluster(object: Value) -> Value {
    with(object, "/metadata/annotations", json!({"kcp.io/cluster": "c1"}))
}

fn as_account(extra: Value) -> Value {
    let mut review = by("system:serviceaccount:backup:snapshotter", &[], delete(in_cluster(vm())));
    review["request"]["userInfo"]["extra"] = extra;
    review
}

#[test]
fn a_service_account_of_another_logical_cluster_is_another_one() {
    const CLUSTER: &str = "authentication.kcp.io/cluster-name";
    const SCOPES: &str = "authentication.kcp.io/scopes";
    let account = || json!({"serviceAccounts": [{"namespace": "backup", "name": "snapshotter"}]});
    let named = || json!({"users": ["system:serviceaccount:backup:snapshotter"]});
    let global = || json!({"users": ["system:kcp:serviceaccount:c9:backup:snapshotter"]});
    for (holder, extra, expected) in [
        (account(), json!({CLUSTER: ["c1"], SCOPES: ["cluster:c1"]}), "holder"),
        (account(), json!({CLUSTER: ["c9"], SCOPES: ["cluster:c9"]}), "locked"),
        (account(), json!({CLUSTER: ["c9", "c1"]}), "locked"),
        (account(), json!({CLUSTER: ["c1", "c1"]}), "locked"),
        (account(), json!({}), "locked"),
        (account(), json!({CLUSTER: null}), "locked"),
        (account(), Value::Null, "locked"),
        (named(), json!({CLUSTER: ["c1"]}), "holder"),
        (named(), json!({CLUSTER: ["c9"]}), "locked"),
        (global(), json!({CLUSTER: ["c9"], SCOPES: ["cluster:c9"]}), "holder"),
        (global(), json!({CLUSTER: ["c1"]}), "locked"),
    ] {
        let decision = world(json!({"holder": holder})).decide(&as_account(extra.clone()));
        assert_eq!(decision.label(), expected, "{holder} {extra}");
    }
}

#[test]
fn who_is_confined_to_other_logical_clusters_is_nobody_here() {
    for (scopes, expected) in [
        (json!(null), "holder"),
        (json!(["cluster:c1"]), "holder"),
        (json!(["cluster:c9,cluster:c1"]), "holder"),
        (json!(["cluster:c9"]), "locked"),
        (json!(["cluster:c1", "cluster:c9"]), "locked"),
    ] {
        let mut review = delete(in_cluster(vm()));
        review["request"]["userInfo"]["extra"] = json!({"authentication.kcp.io/scopes": scopes});
        let decision = world(json!({"holder": {"users": ["alice"]}})).decide(&review);
        assert_eq!(decision.label(), expected, "{scopes}");
    }
}

#[test]
fn what_a_kcp_sets_itself_is_no_change() {
    let old = with(vm(), "/metadata/annotations", json!({"kcp.io/cluster": "c1", "kcp.io/shard": "root"}));
    let noted = |annotations: Value| with(vm(), "/metadata/annotations", annotations);
    for (new, expected) in [
        (vm(), "exempt"),
        (noted(json!({})), "exempt"),
        (noted(json!(null)), "exempt"),
        (noted(json!({"kcp.io/cluster": "c1"})), "exempt"),
        (noted(json!({"kcp.io/cluster": "c1", "a": "b"})), "locked"),
        (with(vm(), "/spec/cpu", json!(3)), "locked"),
    ] {
        assert_eq!(world(json!({})).decide(&update(old.clone(), new.clone())).label(), expected, "{new}");
    }
    // Outside kcp anybody may write this annotation, so a change of it is a change like any other.
    let mut plain = World::with_lock(json!({}));
    assert_eq!(plain.decide(&update(old, vm())).label(), "locked");
}

#[test]
fn locks_go_with_the_logical_cluster_and_with_the_binding() {
    let review = delete(in_cluster(vm()));
    assert_eq!(world(json!({})).decide(&review).label(), "locked");
    let mut going = world(json!({}));
    going.put(OWN, json!({"metadata": {"name": "cluster", "deletionTimestamp": "2026-01-01T00:00:00Z"}}));
    assert_eq!(going.decide(&review).label(), "teardown");
    for (hold, expected) in [("Release", "teardown"), ("Hold", "locked")] {
        let mut unbinding = world(json!({"duringTeardown": hold}));
        bind(&mut unbinding, true);
        assert_eq!(unbinding.decide(&review).label(), expected);
    }
    let mut unread = world(json!({}));
    bind(&mut unread, true);
    unread.faults.push((BINDINGS.to_owned(), 500));
    assert_eq!(unread.decide(&review).label(), "locked");
}

#[test]
fn nobody_is_told_who_has_nothing_to_do_with_the_object() {
    let cluster = |name: &str| LogicalCluster::parse(name).unwrap();
    for (scope, expected) in [
        (Some(cluster("c1")), "locked"),
        (Some(cluster("c2")), "locked"),
        (Some(cluster("c9")), "undecided"),
        (None, "undecided"),
    ] {
        let mut world = world(json!({"reason": "secret"}));
        world.may("alice", "get", "objectlocks/default/a");
        let decision = world.decide_within(&delete(in_cluster(vm())), Some(scope.as_ref()));
        assert_eq!(decision.label(), expected, "{scope:?}");
        assert_eq!(decision.message().unwrap().contains("secret"), expected == "locked");
        assert!(expected == "locked" || !decision.message().unwrap().contains("default/a"));
        // A scope that is refused cannot have a lock recorded either.
        let creation = about(LockKind::ObjectLock, create(in_cluster(lock(LockKind::ObjectLock, "b", json!({})))));
        let writes = world.asked.len();
        assert_eq!(world.decide_within(&creation, Some(scope.as_ref())).allowed(), expected == "locked");
        let wrote = world.asked[writes..].iter().any(|path| path.contains("locktables"));
        assert_eq!(wrote, expected == "locked");
    }
}

#[test]
fn an_object_of_no_known_logical_cluster_is_refused() {
    for (review, expected) in [
        (delete(vm()), "its object has no annotation kcp.io/cluster"),
        (
            about(LockKind::ObjectLock, delete(lock(LockKind::ObjectLock, "a", json!({})))),
            "has no annotation kcp.io/cluster",
        ),
    ] {
        let message = world(json!({})).decide(&review).message().unwrap();
        assert!(message.contains(expected), "{message}");
    }
}

#[test]
fn where_an_object_lies_is_not_for_its_writer_to_say() {
    let mut world =
        world(json!({"targets": [{"group": "compute.example.com", "resource": "vms/status", "name": "vm-1"}]}));
    let elsewhere = with(vm(), "/metadata/annotations", json!({"kcp.io/cluster": "c9"}));
    let mut review = update(in_cluster(vm()), with(elsewhere.clone(), "/status/phase", json!("Off")));
    review["request"]["subResource"] = "status".into();
    assert_eq!(world.decide(&review).label(), "locked");
    // If only the writer's object names the logical cluster, the cluster is unknown.
    review["request"]["oldObject"] = vm();
    assert_eq!(world.decide(&review).label(), "undecided");
}

#[test]
fn a_scale_cannot_be_locked_there() {
    let targets = json!([{"group": "compute.example.com", "resource": "vms/scale", "name": "a"}]);
    let object = in_cluster(lock(LockKind::ObjectLock, "b", json!({"targets": targets})));
    let creation = about(LockKind::ObjectLock, create(object));
    let decision = world(json!({})).decide(&creation);
    assert!(decision.message().unwrap().contains("spec.targets[0].resource names the subresource scale"));
    assert!(World::new(ControlPlane::Kubernetes).decide(&creation).allowed());
}

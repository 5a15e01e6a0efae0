//! Tests of who may act in spite of a lock.

use serde_json::json;

use crate::world::*;

#[test]
fn a_holder_is_named_by_user_group_or_service_account() {
    let account = "system:serviceaccount:backup:snapshotter";
    let accounts = json!({"serviceAccounts": [{"namespace": "backup", "name": "snapshotter"}]});
    for (holder, user, groups, expected) in [
        (json!({}), "alice", &["dev"][..], "locked"),
        (json!({"users": ["alice"]}), "alice", &["dev"], "holder"),
        (json!({"users": ["bob"]}), "alice", &["dev"], "locked"),
        (json!({"groups": ["dev"]}), "alice", &["dev"], "holder"),
        (json!({"groups": ["dev"]}), "alice", &["ops"], "locked"),
        (accounts.clone(), account, &[], "holder"),
        (accounts.clone(), "system:serviceaccount:other:snapshotter", &[], "locked"),
        (accounts.clone(), "snapshotter", &[], "locked"),
        (json!({"users": [account]}), account, &[], "holder"),
        (json!({"groups": ["system:serviceaccounts:backup"]}), account, &["system:serviceaccounts:backup"], "holder"),
        (json!({"users": ["", "alice"]}), "", &[], "locked"),
    ] {
        let mut world = World::with_lock(json!({"holder": holder}));
        assert_eq!(world.decide(&by(user, groups, delete(vm()))).label(), expected, "{holder} {user} {groups:?}");
    }
}

#[test]
fn nobody_has_the_control_plane_act_as_a_holder_by_its_groups() {
    for (user, expected) in [
        ("bob", "holder"),
        ("system:apiserver", "locked"),
        ("system:kube-controller-manager", "locked"),
        ("system:serviceaccount:kube-system:generic-garbage-collector", "locked"),
    ] {
        let mut world = World::with_lock(json!({"holder": {"groups": ["system:masters"]}}));
        assert_eq!(world.decide(&by(user, &["system:masters"], delete(vm()))).label(), expected, "{user}");
        let mut named = World::with_lock(json!({"holder": {"users": [user]}}));
        assert_eq!(named.decide(&by(user, &[], delete(vm()))).label(), "holder", "{user}");
    }
}

#[test]
fn who_holds_one_lock_does_not_hold_another() {
    let mut world = World::with_lock(json!({"holder": {"users": ["alice"]}}));
    assert_eq!(world.decide(&delete(vm())).label(), "holder");
    world.lock(depguard_core::locks::LockKind::ObjectLock, "b", json!({}));
    let decision = world.decide(&delete(vm()));
    assert_eq!((decision.label(), decision.locks()), ("locked", &["ObjectLock default/b".to_owned()][..]));
}

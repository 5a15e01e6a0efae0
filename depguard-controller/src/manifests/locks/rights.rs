//! The rights that locks need, apart from those for rules: without locks nobody has them.

use depguard_core::locks::{LockKind, TABLE_PLURAL};
use depguard_core::{Home, api};
use serde_json::{Value, json};

use super::super::rbac::{CONTROLLER, Place, WEBHOOK, allow, cluster_role, granted, of_account, outside, user_at_home};
use super::super::{ReadThrough, Setup, with};
use super::LOCK_EXPORT;
use crate::locks::{COMPAT_CONFIGURATION, CONFIGURATION, KINDS_CONFIGURATION};

const AGGREGATE_TO: &str = "rbac.authorization.k8s.io/aggregate-to-";
const READ: [&str; 3] = ["get", "list", "watch"];

/// All rights that locks need, by where they are granted.
pub(super) fn of_locks(setup: &Setup) -> Vec<(Place, Vec<Value>)> {
    match setup.home {
        Home::Kubernetes => vec![(Place::Cluster, kubernetes())],
        Home::Kcp => vec![(Place::DepCtrl, dep_ctrl(setup)), (Place::Shards, shards(setup))],
    }
}

/// The rights that the older tool's Locks need, in home kubernetes.
pub(super) fn of_compat_locks() -> Vec<Value> {
    let controller = [configurations(&[COMPAT_CONFIGURATION])];
    let webhook = [allow("kotas.tech", ["locks"], &["get"])];
    [
        granted(&format!("{CONTROLLER}-compat-locks"), &of_account(CONTROLLER), &controller),
        granted(&format!("{WEBHOOK}-compat-locks"), &of_account(WEBHOOK), &webhook),
    ]
    .concat()
}

fn kubernetes() -> Vec<Value> {
    let controller = [
        allow(api::GROUP, LockKind::ALL.map(LockKind::plural), &READ),
        allow(api::GROUP, LockKind::ALL.map(|kind| format!("{}/status", kind.plural())), &["update"]),
        allow(api::GROUP, [TABLE_PLURAL], &["get", "list", "watch", "create", "update", "delete"]),
        configurations(&[CONFIGURATION, KINDS_CONFIGURATION]),
    ];
    let mut objects = granted(&format!("{CONTROLLER}-locks"), &of_account(CONTROLLER), &controller);
    objects.extend(granted(&format!("{WEBHOOK}-locks"), &of_account(WEBHOOK), &webhook()));
    objects.extend(users());
    objects
}

/// What the webhook reads at a review, and writes where a lock is made.
fn webhook() -> Vec<Value> {
    let reads = [allow(api::GROUP, LockKind::ALL.map(LockKind::plural), &["get", "list"])];
    [&reads[..], &webhook_writes(&["get", "create", "update"])].concat()
}

fn webhook_writes(tables: &[&str]) -> Vec<Value> {
    vec![
        allow(api::GROUP, [TABLE_PLURAL], tables),
        allow("authorization.k8s.io", ["subjectaccessreviews"], &["create"]),
    ]
}

/// A namespace's admin makes locks there, whoever sees its objects sees them. Nobody gets at the tables, and to unlock
/// what another one locked is granted by a role of its own.
fn users() -> Vec<Value> {
    let role = |name: &str, rule: Value| cluster_role(&format!("depguard-locks-{name}"), Some(&[rule]));
    let aggregated = |name: &str, verbs: &[&str]| {
        let mut role = role(name, allow(api::GROUP, [LockKind::ObjectLock.plural()], verbs));
        if let Some(metadata) = role.get_mut("metadata").and_then(Value::as_object_mut) {
            metadata.insert("labels".to_owned(), json!({format!("{AGGREGATE_TO}{name}"): "true"}));
        }
        role
    };
    vec![
        aggregated("admin", &["create", "update", "patch", "delete", "deletecollection"]),
        aggregated("view", &READ),
        role("unlock", allow(api::GROUP, LockKind::ALL.map(LockKind::plural), &["unlock"])),
    ]
}

/// depguard's own workspace: the export's content, and the configuration about locks themselves, as what is bound is
/// reviewed where its export is.
fn dep_ctrl(setup: &Setup) -> Vec<Value> {
    let content =
        allow("apis.kcp.io", ["apiexports/content"], &["get", "list", "watch", "create", "update", "patch", "delete"]);
    let kinds = allow(
        "admissionregistration.k8s.io",
        ["validatingwebhookconfigurations"],
        &["get", "update", "patch", "delete"],
    );
    let rules = [
        with(content, "resourceNames", json!([LOCK_EXPORT])),
        with(kinds, "resourceNames", json!([KINDS_CONFIGURATION])),
        allow("admissionregistration.k8s.io", ["validatingwebhookconfigurations"], &["create"]),
    ];
    granted(&format!("{CONTROLLER}-locks"), &user_at_home(setup, CONTROLLER), &rules)
}

/// Every workspace of a shard: locks are read where they are, and which export serves what they lock. Both accounts are let
/// in for rules, and where the webhook may read everything, that is locks too.
fn shards(setup: &Setup) -> Vec<Value> {
    let grant = |name: &str, rules: &[Value]| granted(&format!("{name}-locks"), &outside(setup, name), rules);
    let webhook = match setup.read_through {
        ReadThrough::FrontProxy => webhook_writes(&["create", "update"]),
        ReadThrough::Export => webhook(),
    };
    [grant(CONTROLLER, &[allow("apis.kcp.io", ["apibindings"], &["list"])]), grant(WEBHOOK, &webhook)].concat()
}

fn configurations(names: &[&str]) -> Value {
    let verbs = ["get", "list", "watch", "update", "patch", "delete"];
    with(
        allow("admissionregistration.k8s.io", ["validatingwebhookconfigurations"], &verbs),
        "resourceNames",
        json!(names),
    )
}

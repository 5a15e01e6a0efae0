//! Rights that locks need, apart from those for rules: without locks nobody has them.

use depguard_core::locks::{LockKind, TABLE_PLURAL};
use depguard_core::{ControlPlane, api};
use serde_json::{Value, json};

use crate::manifests::rbac::{
    CONTROLLER, Place, WEBHOOK, allow, cluster_role, granted, of_account, outside, own_configuration, own_user,
};
use crate::manifests::{ReadThrough, Setup, with};
use crate::model::names::{COMPAT_LOCKS_CONFIGURATION, LOCK_EXPORT, LOCK_KINDS_CONFIGURATION, LOCKS_CONFIGURATION};

const AGGREGATE_TO: &str = "rbac.authorization.k8s.io/aggregate-to-";
const READ: [&str; 3] = ["get", "list", "watch"];

/// Returns all rights that locks need, by the place in which they are granted.
pub(super) fn of_locks(setup: &Setup) -> Vec<(Place, Vec<Value>)> {
    match setup.control_plane {
        ControlPlane::Kubernetes => vec![(Place::Cluster, kubernetes())],
        ControlPlane::Kcp => vec![(Place::DepCtrl, dep_ctrl(setup)), (Place::Shards, shards(setup))],
    }
}

/// Returns the rights that the older tool's Locks need, in plain Kubernetes.
pub(super) fn of_compat_locks() -> Vec<Value> {
    let controller = [configurations(&[COMPAT_LOCKS_CONFIGURATION])];
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
        configurations(&[LOCKS_CONFIGURATION, LOCK_KINDS_CONFIGURATION]),
    ];
    let mut objects = granted(&format!("{CONTROLLER}-locks"), &of_account(CONTROLLER), &controller);
    objects.extend(granted(&format!("{WEBHOOK}-locks"), &of_account(WEBHOOK), &webhook()));
    objects.extend(users());
    objects
}

/// Returns the webhook's rights: it reads locks at a review, and writes tables when a lock is made.
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

/// Returns the users' roles. The admin of a namespace makes locks there, and everybody who sees its objects sees its
/// locks. No role allows access to the tables, and a role of its own allows to unlock what somebody else locked.
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

/// Returns the rights in depguard's own workspace: to the export's content, and to the configuration about locks
/// themselves, since bound kinds are reviewed where their export is.
fn dep_ctrl(setup: &Setup) -> Vec<Value> {
    let content =
        allow("apis.kcp.io", ["apiexports/content"], &["get", "list", "watch", "create", "update", "patch", "delete"]);
    let rules = [with(content, "resourceNames", json!([LOCK_EXPORT])), own_configuration(LOCK_KINDS_CONFIGURATION)];
    granted(&format!("{CONTROLLER}-locks"), &own_user(setup, CONTROLLER), &rules)
}

/// Returns the rights in every workspace of a shard: locks are read where they are, and the bindings tell which export
/// serves the locked kinds. The rights for rules already let both accounts into the workspaces. If the webhook may read
/// everything, that includes locks.
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

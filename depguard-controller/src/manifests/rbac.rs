//! The rights that both binaries need, in each home and by each way of reading dependents, and not one more: the table in
//! `docs/rights.md` says what each is for, and a test takes away one after the other.

mod owners;

use depguard_core::{Home, api, canary as canaries};
use serde_json::{Value, json};

use super::{Identity, ReadThrough, Setup};
use super::{NAMESPACE, canary, locks, with};
use crate::config::LEASE;
use crate::configuration;
use crate::gate::mark_name;

pub(super) use owners::owner_rights;

/// The label by which a ClusterRole adds to what the webhook may list in home kubernetes.
pub const AGGREGATE: &str = "dependencies.opendefense.cloud/aggregate-to-webhook";

const GROUP: &str = "rbac.authorization.k8s.io";
pub(super) const CONTROLLER: &str = "depguard-controller";
pub(super) const WEBHOOK: &str = "depguard-webhook";
const DEPENDENTS: &str = "depguard-webhook-dependents";
/// What is read of dependents: where a list of cells is enough to find them, each that was found is read on its own.
const READ: [&str; 2] = ["get", "list"];
/// Where Events about what lies in no namespace are written.
const EVENTS: &str = "default";

/// Where rights are granted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(
    clippy::exhaustive_enums,
    reason = "depguard's other crates decide by each case: none shall pass them by unseen"
)]
pub enum Place {
    /// The one cluster of home kubernetes.
    Cluster,
    /// depguard's own workspace.
    DepCtrl,
    /// Each workspace with Workspace objects of providers in it.
    Parents,
    /// The workspace `system:admin` of each shard, which counts in all of the shard's workspaces.
    Shards,
    /// The workspace of each provider whose kinds hold references.
    Providers,
}

/// All rights that `setup` needs, by where they are granted.
pub fn rbac(setup: &Setup) -> Vec<(Place, Vec<Value>)> {
    let owners = setup.enable.owners.then(|| (Place::Cluster, owner_rights(setup.precreated_roles)));
    [of_rules(setup), locks::rights(setup), owners.into_iter().collect()].concat()
}

/// Those that rules need.
pub(super) fn of_rules(setup: &Setup) -> Vec<(Place, Vec<Value>)> {
    if setup.home == Home::Kubernetes {
        return vec![(Place::Cluster, kubernetes())];
    }
    let mut places = vec![(Place::DepCtrl, dep_ctrl(setup))];
    // kcp keeps Workspace objects from ServiceAccounts of another workspace.
    if setup.identity == Identity::Certificates {
        places.push((Place::Parents, parents(setup)));
    }
    match setup.read_through {
        ReadThrough::FrontProxy => places.push((Place::Shards, shards(setup, &all()))),
        ReadThrough::Export => {
            places.push((Place::Shards, shards(setup, &facts())));
            places.push((Place::Providers, providers(setup)));
        }
    }
    places
}

/// A ClusterRole that lets the webhook read the dependents of `rules`, in home kubernetes.
pub(super) fn dependents_of(name: &str, rules: &[Value]) -> Value {
    let mut granted: Vec<Value> = Vec::new();
    for rule in rules {
        let dependent = |field: &str| rule.pointer(&format!("/spec/dependent/{field}")).cloned().unwrap_or_default();
        granted.push(allow(dependent("group"), [dependent("resource")], &READ));
    }
    // The review of an eviction doesn't show the Pod.
    if rules.iter().any(has_pods_for_targets) {
        granted.push(allow("", ["pods"], &["get"]));
    }
    with_label(cluster_role(name, Some(&granted)))
}

fn has_pods_for_targets(rule: &Value) -> bool {
    let dependencies = rule.pointer("/spec/dependencies").and_then(Value::as_array).into_iter().flatten();
    let is = |dependency: &Value, field: &str, text: &str| dependency.get(field).and_then(Value::as_str) == Some(text);
    dependencies.into_iter().any(|dependency| is(dependency, "group", "") && is(dependency, "resource", "pods"))
}

/// The one place where all is: rules, configurations and objects.
fn kubernetes() -> Vec<Value> {
    let configurations =
        |verbs: &[&str]| allow("admissionregistration.k8s.io", ["validatingwebhookconfigurations"], verbs);
    let own = configurations(&["get", "list", "watch", "update", "patch", "delete"]);
    let controller = [
        allow(api::GROUP, [api::PLURAL], &["list", "watch"]),
        allow(api::GROUP, [format!("{}/status", api::PLURAL)], &["update"]),
        with(own, "resourceNames", json!([configuration::NAME])),
        configurations(&["create"]),
        allow("apiextensions.k8s.io", ["customresourcedefinitions"], &["get"]),
    ];
    let webhook = [allow(api::GROUP, [api::PLURAL], &["list", "watch"]), allow("", ["namespaces"], &["get"])];
    // Only ever asked for as a dry run.
    let canaries = with(allow("", ["configmaps"], &["delete"]), "resourceNames", json!([canaries::NAME]));
    let at_home = [leases(), vec![canaries]].concat();
    let mut objects = accounts();
    objects.push(canary());
    objects.extend(granted(CONTROLLER, &of_account(CONTROLLER), &controller));
    objects.extend(in_namespace(CONTROLLER, NAMESPACE, &of_account(CONTROLLER), &at_home));
    objects.extend(in_namespace(CONTROLLER, EVENTS, &of_account(CONTROLLER), &[allow("", ["events"], &["create"])]));
    objects.extend(granted(WEBHOOK, &of_account(WEBHOOK), &webhook));
    let sum = json!({"clusterRoleSelectors": [{"matchLabels": {AGGREGATE: "true"}}]});
    // Its rules are the control plane's to fill in: named here, an apply would empty it for a moment.
    objects.push(with(cluster_role(DEPENDENTS, None), "aggregationRule", sum));
    objects.push(cluster_role_binding(DEPENDENTS, DEPENDENTS, &of_account(WEBHOOK)));
    objects
}

/// depguard's own workspace: its endpoints, and its export's virtual workspace, where rules, configurations and schemas
/// are. There a right goes as far as the provider accepted the claim, and no further.
fn dep_ctrl(setup: &Setup) -> Vec<Value> {
    let content = |verbs: &[&str]| {
        with(allow("apis.kcp.io", ["apiexports/content"], verbs), "resourceNames", json!([api::GROUP]))
    };
    let write = ["get", "list", "watch", "create", "update", "patch", "delete"];
    let mut objects = match setup.identity {
        Identity::ServiceAccounts { .. } => accounts(),
        Identity::Certificates => vec![own_namespace()],
    };
    // Where the webhook may list everything, that is here too.
    let lists = setup.read_through == ReadThrough::FrontProxy;
    let follow: &[&str] = if lists { &["watch"] } else { &["list", "watch"] };
    for (name, verbs, follow) in [(CONTROLLER, &write[..], &["list", "watch"][..]), (WEBHOOK, follow, follow)] {
        let slices = allow("apis.kcp.io", ["apiexportendpointslices"], follow);
        let user = user_at_home(setup, name);
        objects.extend(granted(name, &user, &[slices, content(verbs)]));
        if name == CONTROLLER {
            objects.extend(in_namespace(name, NAMESPACE, &user, &leases()));
        }
    }
    objects
}

/// The parents of the providers' workspaces: which workspace a path is.
fn parents(setup: &Setup) -> Vec<Value> {
    let workspaces = allow("tenancy.kcp.io", ["workspaces"], &["get"]);
    let grant = |name: &str| {
        let user = outside(setup, name);
        granted(name, &user, std::slice::from_ref(&workspaces))
    };
    [grant(CONTROLLER), grant(WEBHOOK)].concat()
}

/// Every workspace of a shard: what the webhook reads there, and which workspace the one is that a path leads to.
fn shards(setup: &Setup, rules: &[Value]) -> Vec<Value> {
    let grant = |name: &str, rules: &[Value]| {
        let user = outside(setup, name);
        [granted(name, &user, rules), vec![access(name, &user)]].concat()
    };
    [grant(CONTROLLER, &[itself()]), grant(WEBHOOK, rules)].concat()
}

/// Any kind may be a dependent.
fn all() -> Vec<Value> {
    vec![allow("*", ["*"], &READ)]
}

/// What belongs to no provider: which exports a workspace has bound, what is torn down, and which workspace it is.
fn facts() -> Vec<Value> {
    vec![allow("apis.kcp.io", ["apibindings"], &["list"]), allow("", ["namespaces"], &["get"]), itself()]
}

/// What a workspace says of itself.
fn itself() -> Value {
    allow("core.kcp.io", ["logicalclusters"], &["get"])
}

/// A provider lets his consumers' objects be read through the virtual workspaces of his exports.
fn providers(setup: &Setup) -> Vec<Value> {
    let rules = [
        allow("apis.kcp.io", ["apiexportendpointslices"], &["list"]),
        allow("apis.kcp.io", ["apiexports/content"], &READ),
    ];
    granted(WEBHOOK, &outside(setup, WEBHOOK), &rules)
}

fn accounts() -> Vec<Value> {
    let account = |name: &str| json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": name, "namespace": NAMESPACE}});
    vec![own_namespace(), account(CONTROLLER), account(WEBHOOK)]
}

fn own_namespace() -> Value {
    json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}})
}

/// The Leases by which one controller among several is the one that writes, and by which an uninstall stops them all. A
/// right to create can't be narrowed to a name.
fn leases() -> Vec<Value> {
    let leases = |verbs: &[&str]| allow("coordination.k8s.io", ["leases"], verbs);
    let names = json!([LEASE, mark_name(LEASE)]);
    vec![leases(&["create"]), with(leases(&["get", "update"]), "resourceNames", names)]
}

/// An account in home kubernetes.
pub(super) fn of_account(name: &str) -> Value {
    json!({"kind": "ServiceAccount", "namespace": NAMESPACE, "name": name})
}

/// As whom an account is known in depguard's own workspace.
pub(super) fn user_at_home(setup: &Setup, name: &str) -> Value {
    match setup.identity {
        Identity::Certificates => user(name),
        Identity::ServiceAccounts { .. } => user(&format!("system:serviceaccount:{NAMESPACE}:{name}")),
    }
}

/// As whom an account is known outside of depguard's own workspace.
///
/// Its name without the logical cluster must never be bound there: each workspace's own ServiceAccount of that name would
/// get these rights in its workspace.
pub(super) fn outside(setup: &Setup, name: &str) -> Value {
    match &setup.identity {
        Identity::Certificates => user(name),
        Identity::ServiceAccounts { cluster } => {
            let cluster = cluster.as_ref().map_or(Setup::NO_CLUSTER, |cluster| cluster.as_str());
            user(&format!("system:kcp:serviceaccount:{cluster}:{NAMESPACE}:{name}"))
        }
    }
}

fn user(name: &str) -> Value {
    json!({"apiGroup": GROUP, "kind": "User", "name": name})
}

pub(super) fn allow<R: Into<Value>>(
    group: impl Into<Value>,
    resources: impl IntoIterator<Item = R>,
    verbs: &[&str],
) -> Value {
    let resources: Vec<Value> = resources.into_iter().map(Into::into).collect();
    json!({"apiGroups": [group.into()], "resources": resources, "verbs": verbs})
}

/// A ClusterRole of these rules, and its binding, both of this name.
pub(super) fn granted(name: &str, subject: &Value, rules: &[Value]) -> Vec<Value> {
    vec![cluster_role(name, Some(rules)), cluster_role_binding(name, name, subject)]
}

/// A Role of these rules in a namespace, and its binding, both of this name.
fn in_namespace(name: &str, namespace: &str, subject: &Value, rules: &[Value]) -> Vec<Value> {
    let of = |kind: &str| json!({"apiVersion": format!("{GROUP}/v1"), "kind": kind, "metadata": {"name": name, "namespace": namespace}});
    let binding = with(of("RoleBinding"), "roleRef", json!({"apiGroup": GROUP, "kind": "Role", "name": name}));
    vec![with(of("Role"), "rules", json!(rules)), with(binding, "subjects", json!([subject]))]
}

pub(super) fn cluster_role(name: &str, rules: Option<&[Value]>) -> Value {
    let role = json!({"apiVersion": format!("{GROUP}/v1"), "kind": "ClusterRole", "metadata": {"name": name}});
    match rules {
        Some(rules) => with(role, "rules", json!(rules)),
        None => role,
    }
}

fn with_label(mut role: Value) -> Value {
    if let Some(metadata) = role.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.insert("labels".to_owned(), json!({AGGREGATE: "true"}));
    }
    role
}

/// kcp lets nobody into a workspace without this, whatever else he may do there. For a shard it lets into each.
fn access(name: &str, subject: &Value) -> Value {
    cluster_role_binding(&format!("{name}-access"), "system:kcp:workspace:access", subject)
}

fn cluster_role_binding(name: &str, role: &str, subject: &Value) -> Value {
    json!({
        "apiVersion": format!("{GROUP}/v1"),
        "kind": "ClusterRoleBinding",
        "metadata": {"name": name},
        "roleRef": {"apiGroup": GROUP, "kind": "ClusterRole", "name": role},
        "subjects": [subject],
    })
}

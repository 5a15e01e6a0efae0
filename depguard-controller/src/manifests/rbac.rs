//! Rights that both binaries need, on each control plane and for each way of reading dependents, and no others: the table in
//! `docs/rights.md` gives the purpose of each right, and a test takes away one after the other.

mod owners;

use depguard_core::probe::dispatch_canary as canaries;
use depguard_core::{ControlPlane, api};
use serde_json::{Value, json};

use crate::leader::write_permit::uninstall_marker_name;
use crate::manifests::interlock::FOLLOW;
use crate::manifests::{Identity, NAMESPACE, ReadThrough, Setup, canary, denial_events, interlock, locks, with};
use crate::model::names::{LEASE, REFERENCES_CONFIGURATION, RULES_CONFIGURATION, SPEC_ADMISSION_CONFIGURATION};

pub(super) use owners::owner_rights;

/// Label by which a ClusterRole adds to the webhook's rights to list dependents in plain Kubernetes.
pub const AGGREGATE: &str = "dependencies.opendefense.cloud/aggregate-to-webhook";

/// Label by which a ClusterRole adds to the controller's rights to watch dependents and targets in plain Kubernetes.
pub const AGGREGATE_TO_CONTROLLER: &str = "dependencies.opendefense.cloud/aggregate-to-controller";

const GROUP: &str = "rbac.authorization.k8s.io";
pub(super) const CONTROLLER: &str = "depguard-controller";
pub(super) const WEBHOOK: &str = "depguard-webhook";
const DEPENDENTS: &str = "depguard-webhook-dependents";
const REFERENCES: &str = "depguard-controller-references";
/// Verbs for dependents: a review may list only their cells, and then reads each match on its own.
const READ: [&str; 2] = ["get", "list"];
/// Namespace of the Events about objects that are in no namespace.
const EVENTS: &str = "default";

/// Place in which rights are granted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(
    clippy::exhaustive_enums,
    reason = "depguard's other crates handle each variant, so that a new one must not compile unnoticed"
)]
pub enum Place {
    /// The one cluster of plain Kubernetes.
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

/// Returns all rights that `setup` needs, by the place in which they are granted.
pub fn rbac(setup: &Setup) -> Vec<(Place, Vec<Value>)> {
    let owners = setup.enable.owners.then(|| (Place::Cluster, owner_rights(setup.precreated_roles)));
    let features = [locks::rights(setup), interlock::rights(setup), denial_events::rights(setup)].concat();
    [of_rules(setup), features, owners.into_iter().collect()].concat()
}

/// Returns the rights that rules need.
pub(super) fn of_rules(setup: &Setup) -> Vec<(Place, Vec<Value>)> {
    if setup.control_plane == ControlPlane::Kubernetes {
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

/// Returns a ClusterRole that lets the webhook read the dependents of `rules`, and the targets that the rules look for,
/// in plain Kubernetes. Its label ([`AGGREGATE`]) adds it to the webhook's rights.
pub fn dependents_of(name: &str, rules: &[Value]) -> Value {
    let kind = |kind: &Value| of_kind(kind, &READ);
    let dependent = |rule: &Value| {
        let may_interlock = dependencies(rule).any(|dependency| has(dependency, "onMissing", "Deny"));
        let verbs = if may_interlock { &[&READ[..], &FOLLOW].concat()[..] } else { &READ };
        Some(of_kind(rule.pointer("/spec/dependent")?, verbs))
    };
    let mut granted: Vec<Value> = rules.iter().filter_map(dependent).collect();
    for target in rules.iter().flat_map(dependencies).filter(|dependency| looks_for_targets(dependency)).map(kind) {
        if !granted.contains(&target) {
            granted.push(target);
        }
    }
    // The review of an eviction does not contain the Pod.
    if rules.iter().any(has_pods_for_targets) {
        granted.push(allow("", ["pods"], &["get"]));
    }
    with_label(cluster_role(name, Some(&granted)), AGGREGATE)
}

/// Returns a ClusterRole that lets the controller count references to missing targets, in plain Kubernetes: it watches
/// the dependents of those `rules` that look for targets, and these targets. Its label ([`AGGREGATE_TO_CONTROLLER`]) adds
/// it to the controller's rights. `None` if no rule looks for targets.
pub fn references_of(name: &str, rules: &[Value]) -> Option<Value> {
    let mut granted: Vec<Value> = Vec::new();
    for rule in rules.iter().filter(|rule| dependencies(rule).any(looks_for_targets)) {
        let targets = dependencies(rule).filter(|dependency| looks_for_targets(dependency));
        for kind in rule.pointer("/spec/dependent").into_iter().chain(targets) {
            let right = of_kind(kind, &["list", "watch"]);
            if !granted.contains(&right) {
                granted.push(right);
            }
        }
    }
    (!granted.is_empty()).then(|| with_label(cluster_role(name, Some(&granted)), AGGREGATE_TO_CONTROLLER))
}

/// Returns the right to the kind that a rule names.
fn of_kind(kind: &Value, verbs: &[&str]) -> Value {
    let field = |name: &str| kind.get(name).cloned().unwrap_or_default();
    allow(field("group"), [field("resource")], verbs)
}

fn dependencies(rule: &Value) -> impl Iterator<Item = &Value> {
    rule.pointer("/spec/dependencies").and_then(Value::as_array).into_iter().flatten()
}

fn looks_for_targets(dependency: &Value) -> bool {
    dependency.get("onMissing").and_then(Value::as_str).is_some_and(|outcome| outcome != "Ignore")
}

fn has_pods_for_targets(rule: &Value) -> bool {
    dependencies(rule).any(|dependency| has(dependency, "group", "") && has(dependency, "resource", "pods"))
}

fn has(dependency: &Value, field: &str, text: &str) -> bool {
    dependency.get(field).and_then(Value::as_str) == Some(text)
}

/// Returns the rights in plain Kubernetes, where rules, configurations and objects are all in one cluster.
fn kubernetes() -> Vec<Value> {
    let configurations =
        |verbs: &[&str]| allow("admissionregistration.k8s.io", ["validatingwebhookconfigurations"], verbs);
    let own = configurations(&["get", "list", "watch", "update", "patch", "delete"]);
    let controller = [
        allow(api::GROUP, [api::PLURAL], &["list", "watch"]),
        allow(api::GROUP, [format!("{}/status", api::PLURAL)], &["update"]),
        with(
            own,
            "resourceNames",
            json!([RULES_CONFIGURATION, REFERENCES_CONFIGURATION, SPEC_ADMISSION_CONFIGURATION]),
        ),
        configurations(&["create"]),
        definitions(),
    ];
    let webhook =
        [allow(api::GROUP, [api::PLURAL], &["list", "watch"]), allow("", ["namespaces"], &["get"]), definitions()];
    // Deleted as a dry run only.
    let canaries = with(allow("", ["configmaps"], &["delete"]), "resourceNames", json!([canaries::NAME]));
    let at_home = [leases(), vec![canaries]].concat();
    let mut objects = accounts();
    objects.push(canary());
    objects.extend(granted(CONTROLLER, &of_account(CONTROLLER), &controller));
    objects.extend(in_namespace(CONTROLLER, NAMESPACE, &of_account(CONTROLLER), &at_home));
    objects.extend(in_namespace(CONTROLLER, EVENTS, &of_account(CONTROLLER), &[allow("", ["events"], &["create"])]));
    objects.extend(granted(WEBHOOK, &of_account(WEBHOOK), &webhook));
    for (role, label, account) in [(DEPENDENTS, AGGREGATE, WEBHOOK), (REFERENCES, AGGREGATE_TO_CONTROLLER, CONTROLLER)]
    {
        let sum = json!({"clusterRoleSelectors": [{"matchLabels": {label: "true"}}]});
        // The control plane fills in the rules: with rules in this object, an apply would empty the role for a moment.
        objects.push(with(cluster_role(role, None), "aggregationRule", sum));
        objects.push(cluster_role_binding(role, role, &of_account(account)));
    }
    objects
}

/// Returns the right to the definitions of kinds, against which a rule is held.
fn definitions() -> Value {
    allow("apiextensions.k8s.io", ["customresourcedefinitions"], &["get"])
}

/// Returns the rights in depguard's own workspace: to its endpoints, to the configuration about rules themselves, since
/// bound kinds are reviewed where their export is, and to the virtual workspace of its export, in which rules,
/// configurations and schemas are. There a right goes as far as the provider accepted the claim, and no further.
fn dep_ctrl(setup: &Setup) -> Vec<Value> {
    let content = |verbs: &[&str]| {
        with(allow("apis.kcp.io", ["apiexports/content"], verbs), "resourceNames", json!([api::GROUP]))
    };
    let write = ["get", "list", "watch", "create", "update", "patch", "delete"];
    let mut objects = match setup.identity {
        Identity::ServiceAccounts { .. } => accounts(),
        Identity::Certificates => vec![own_namespace()],
    };
    // A webhook that may list everything may list here, too.
    let lists = setup.read_through == ReadThrough::FrontProxy;
    let follow: &[&str] = if lists { &["watch"] } else { &["list", "watch"] };
    for (name, verbs, follow) in [(CONTROLLER, &write[..], &["list", "watch"][..]), (WEBHOOK, follow, follow)] {
        let slices = allow("apis.kcp.io", ["apiexportendpointslices"], follow);
        let user = own_user(setup, name);
        let mut rules = vec![slices, content(verbs)];
        if name == CONTROLLER {
            rules.push(own_configuration(SPEC_ADMISSION_CONFIGURATION));
            rules.push(allow("admissionregistration.k8s.io", ["validatingwebhookconfigurations"], &["create"]));
        }
        objects.extend(granted(name, &user, &rules));
        if name == CONTROLLER {
            objects.extend(in_namespace(name, NAMESPACE, &user, &leases()));
        }
    }
    objects
}

/// Returns the right to the configuration of this name in depguard's own workspace, but to its creation: no right to
/// create can be limited to a name.
pub(super) fn own_configuration(name: &str) -> Value {
    let verbs = ["get", "update", "patch", "delete"];
    let right = allow("admissionregistration.k8s.io", ["validatingwebhookconfigurations"], &verbs);
    with(right, "resourceNames", json!([name]))
}

/// Returns the rights in the parents of the providers' workspaces, which tell the workspace of a path.
fn parents(setup: &Setup) -> Vec<Value> {
    let workspaces = allow("tenancy.kcp.io", ["workspaces"], &["get"]);
    let grant = |name: &str| {
        let user = outside(setup, name);
        granted(name, &user, std::slice::from_ref(&workspaces))
    };
    [grant(CONTROLLER), grant(WEBHOOK)].concat()
}

/// Returns the rights in every workspace of a shard: the webhook reads dependents there, and both binaries read which
/// workspace a path leads to.
fn shards(setup: &Setup, rules: &[Value]) -> Vec<Value> {
    let grant = |name: &str, rules: &[Value]| {
        let user = outside(setup, name);
        [granted(name, &user, rules), vec![access(name, &user)]].concat()
    };
    [grant(CONTROLLER, &[itself()]), grant(WEBHOOK, rules)].concat()
}

/// Returns the right to read all kinds: any kind may be a dependent.
fn all() -> Vec<Value> {
    vec![allow("*", ["*"], &READ)]
}

/// Returns the rights to facts that belong to no provider: a workspace's bindings, the namespaces that are torn down,
/// and the workspace's identity.
fn facts() -> Vec<Value> {
    vec![allow("apis.kcp.io", ["apibindings"], &["list"]), allow("", ["namespaces"], &["get"]), itself()]
}

/// Returns the right to the LogicalCluster, in which a workspace describes itself.
fn itself() -> Value {
    allow("core.kcp.io", ["logicalclusters"], &["get"])
}

/// Returns the rights in a provider's workspace: the provider lets the webhook read their consumers' objects through
/// the virtual workspaces of their exports.
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

/// Returns the rights to two Leases: one elects the controller that writes, and an uninstall stops all controllers by
/// the other. A right to create can't be narrowed to a name.
fn leases() -> Vec<Value> {
    let leases = |verbs: &[&str]| allow("coordination.k8s.io", ["leases"], verbs);
    let names = json!([LEASE, uninstall_marker_name(LEASE)]);
    vec![leases(&["create"]), with(leases(&["get", "update"]), "resourceNames", names)]
}

/// Returns the subject of an account in plain Kubernetes.
pub(super) fn of_account(name: &str) -> Value {
    json!({"kind": "ServiceAccount", "namespace": NAMESPACE, "name": name})
}

/// Returns the user name of an account in depguard's own workspace.
pub(super) fn own_user(setup: &Setup, name: &str) -> Value {
    match setup.identity {
        Identity::Certificates => user(name),
        Identity::ServiceAccounts { .. } => user(&format!("system:serviceaccount:{NAMESPACE}:{name}")),
    }
}

/// Returns the user name of an account outside of depguard's own workspace.
///
/// The name without the logical cluster must never be bound there: each workspace's own ServiceAccount of that name
/// would get these rights in its workspace.
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

/// Returns a ClusterRole with these rules, and its binding, both of this name.
pub(super) fn granted(name: &str, subject: &Value, rules: &[Value]) -> Vec<Value> {
    vec![cluster_role(name, Some(rules)), cluster_role_binding(name, name, subject)]
}

/// Returns a Role with these rules in a namespace, and its binding, both of this name.
pub(super) fn in_namespace(name: &str, namespace: &str, subject: &Value, rules: &[Value]) -> Vec<Value> {
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

fn with_label(mut role: Value, label: &str) -> Value {
    if let Some(metadata) = role.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.insert("labels".to_owned(), json!({label: "true"}));
    }
    role
}

/// Returns the binding without which kcp lets nobody into a workspace, whatever other rights they have there. In the
/// `system:admin` workspace of a shard, it lets the account into all workspaces of the shard.
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

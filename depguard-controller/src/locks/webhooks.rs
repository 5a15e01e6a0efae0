//! Webhook configurations of locks, as narrow as the locks ask for.

use std::collections::{BTreeMap, BTreeSet};

use depguard_core::locks::{Lock, LockKind, LockTarget, Operations, Pick};
use depguard_core::model::GroupResource;
use depguard_core::{ControlPlane, api};
use serde_json::{Map, Value, json};

use crate::model::names::{COMPAT_LOCKS_CONFIGURATION, LOCK_KINDS_CONFIGURATION, LOCKS_CONFIGURATION};
use crate::model::vital_kind::VitalKind;
use crate::model::webhook_configuration::{NAMESPACE_LABEL, changed, not_in, of_webhooks, webhook};

/// Path for reviews of locks, and of locked objects.
pub(super) const PATH: &str = "/lock";
/// Path for reviews of objects that the older tool's Locks lock.
pub(super) const COMPAT_PATH: &str = "/lock/compat";

/// Label of the namespaces in which the older tool's Locks count.
const LOCKABLE: &str = "lockable";

/// Maximum number of namespaces that a selector names; beyond it, the selector selects all.
const MAX_NAMESPACES: usize = 500;

/// Resources to review at a place, as its locks ask for it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct ReviewedResources {
    resources: BTreeMap<(GroupResource, Option<String>), OperationScopes>,
    /// Namespaces in which vital kinds are reviewed, in plain Kubernetes. In kcp many workspaces have a namespace
    /// of the same name, and no review is narrowed by namespace.
    vital: BTreeMap<(GroupResource, Option<String>), Namespaces>,
}

/// Resource, or a subresource of it, and one of the namespaces in which it is reviewed.
pub(super) type Within = ((GroupResource, Option<String>), String);

/// Namespaces in which a kind is reviewed.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Namespaces {
    These(BTreeSet<String>),
    All,
}

/// Reviewed operations, each with the scope of its objects.
type OperationScopes = BTreeMap<Operation, Scope>;

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Operation {
    Create,
    Update,
    Delete,
    Connect,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Scope {
    Cluster,
    Namespaced,
    Any,
}

impl ReviewedResources {
    /// Adds the request of a lock for one of its targets.
    pub(super) fn insert(&mut self, control_plane: ControlPlane, lock: &Lock, target: &LockTarget) {
        if control_plane == ControlPlane::Kubernetes && VitalKind::from_target(target).is_some() {
            let namespaces = match lock.namespace().or(target.namespace.as_ref()) {
                Some(namespace) => Namespaces::These(BTreeSet::from([namespace.to_string()])),
                None => Namespaces::All,
            };
            let resource = (target.kind.clone(), target.subresource.clone());
            self.vital.entry(resource).and_modify(|known| known.add(&namespaces)).or_insert_with(|| namespaces.clone());
        }
        let Operations { update, delete } = lock.operations();
        let scope = match (lock.kind(), &target.namespace, &target.pick) {
            (LockKind::ObjectLock, ..) | (_, Some(_), _) => Scope::Namespaced,
            (LockKind::ClusterObjectLock, None, Pick::Name(_)) => Scope::Cluster,
            (LockKind::ClusterObjectLock, None, Pick::Labels { .. }) => Scope::Any,
        };
        let of = target.subresource.as_deref();
        // An eviction deletes a Pod without a review of the Pod's deletion.
        let is_pod = target.kind.group.is_core() && target.kind.resource.as_str() == "pods";
        let evicts = delete && is_pod && matches!(of, None | Some("eviction"));
        // An access through a subresource need not be an update: a token is created, and a shell in a Pod is a
        // connection.
        let through = update && of.is_some();
        for (operation, of) in [
            update.then_some((Operation::Update, of)),
            through.then_some((Operation::Create, of)),
            through.then_some((Operation::Connect, of)),
            delete.then_some((Operation::Delete, of)),
            evicts.then_some((Operation::Create, Some("eviction"))),
        ]
        .into_iter()
        .flatten()
        {
            let asked = self.resources.entry((target.kind.clone(), of.map(str::to_owned))).or_default();
            widen(asked, operation, scope);
        }
    }

    /// Returns the parts that are reviewed in named namespaces alone: one for each resource and namespace.
    pub(super) fn by_namespace(&self) -> impl Iterator<Item = (Within, Self)> {
        let named = self.vital.iter().filter_map(|(resource, namespaces)| Some((resource, namespaces.few()?)));
        named.flat_map(|(resource, namespaces)| {
            let asked = self.resources.get(resource).cloned().unwrap_or_default();
            namespaces.iter().map(move |namespace| {
                let alone = Namespaces::These(BTreeSet::from([namespace.clone()]));
                let part = Self {
                    resources: BTreeMap::from([(resource.clone(), asked.clone())]),
                    vital: BTreeMap::from([(resource.clone(), alone)]),
                };
                ((resource.clone(), namespace.clone()), part)
            })
        })
    }

    /// Adds a part. Leaves out each resource whose selector selects all namespaces, or would then do so.
    pub(super) fn add(&mut self, part: &Self) {
        for (resource, more) in &part.vital {
            let mut namespaces = self.vital.get(resource).unwrap_or(more).clone();
            let was_few = namespaces.few().is_some();
            namespaces.add(more);
            if !was_few || namespaces.few().is_none() {
                continue;
            }
            self.vital.insert(resource.clone(), namespaces);
            let asked = self.resources.entry(resource.clone()).or_default();
            for (operation, scope) in part.resources.get(resource).into_iter().flatten() {
                widen(asked, *operation, *scope);
            }
        }
    }

    /// Returns the configuration for these reviews; `client` says how the webhook is reached.
    ///
    /// An object that is already being deleted may be deleted again whatever locks it, so the webhook is not asked.
    pub(super) fn configuration(&self, client: &Value, own_namespace: Option<&str>) -> Value {
        // One webhook for each set of namespaces; the first webhook is for all namespaces.
        let mut rules_in = BTreeMap::from([(None, Vec::new())]);
        for ((kind, of), asked) in &self.resources {
            let resource = match of {
                Some(of) => format!("{}/{of}", kind.resource),
                None => kind.resource.to_string(),
            };
            let mut by_scope: BTreeMap<Scope, Vec<Operation>> = BTreeMap::new();
            for (operation, scope) in asked {
                by_scope.entry(*scope).or_default().push(*operation);
            }
            let of_kind = by_scope
                .iter()
                .map(|(scope, operations)| entry(operations, kind.group.as_str(), &[&resource], scope.as_str()));
            let within = self.vital.get(&(kind.clone(), of.clone())).and_then(Namespaces::few);
            rules_in.entry(within).or_default().extend(of_kind);
        }
        let condition = json!({
            "name": "not-yet-being-deleted",
            "expression": "request.operation != 'DELETE' || oldObject == null || !has(oldObject.metadata.deletionTimestamp)",
        });
        let is_only = rules_in.len() == 1;
        let rules_in = rules_in.into_iter().enumerate().filter(|(_, (_, rules))| is_only || !rules.is_empty());
        let webhooks = rules_in.map(|(number, (within, rules))| {
            let name = match number {
                0 => "locks.dependencies.opendefense.cloud".to_owned(),
                number => format!("locks-{number}.dependencies.opendefense.cloud"),
            };
            let mut selector = namespaces(own_namespace, None);
            if let (Some(within), Some(selector)) = (within, selector.as_object_mut()) {
                let expressions = selector.entry("matchExpressions").or_insert_with(|| json!([]));
                if let Some(expressions) = expressions.as_array_mut() {
                    expressions.push(json!({"key": NAMESPACE_LABEL, "operator": "In", "values": within}));
                }
            }
            let fields = [("matchConditions", json!([condition])), ("namespaceSelector", selector)];
            changed(webhook(&name, "Fail", &rules, client), fields)
        });
        of_webhooks(LOCKS_CONFIGURATION, &webhooks.collect::<Vec<_>>())
    }
}

/// Adds the review of an operation on objects of this scope.
fn widen(asked: &mut OperationScopes, operation: Operation, scope: Scope) {
    asked.entry(operation).and_modify(|known| *known = known.with(scope)).or_insert(scope);
}

impl Namespaces {
    fn add(&mut self, other: &Self) {
        match (&mut *self, other) {
            (Self::These(known), Self::These(more)) => known.extend(more.iter().cloned()),
            (known, Self::All) => *known = Self::All,
            (Self::All, Self::These(_)) => {}
        }
    }

    /// Returns the namespaces for a selector to name; `None` if it selects all.
    fn few(&self) -> Option<&BTreeSet<String>> {
        match self {
            Self::These(namespaces) if namespaces.len() <= MAX_NAMESPACES => Some(namespaces),
            Self::These(_) | Self::All => None,
        }
    }
}

/// Returns a configuration that also has all reviews of an existing one.
pub(super) fn no_narrower(mut configuration: Value, existing: &Value) -> Value {
    let rules = "/webhooks/0/rules";
    let there = existing.pointer(rules).and_then(Value::as_array);
    if let (Some(there), Some(Value::Array(rules))) = (there, configuration.pointer_mut(rules)) {
        let more: Vec<_> = there.iter().filter(|rule| !rules.contains(rule)).cloned().collect();
        rules.extend(more);
    }
    configuration
}

/// Returns the configuration about locks themselves: each new lock is noted in its tables before it is stored.
pub(super) fn of_lock_kinds(client: &Value, own_namespace: Option<&str>) -> Value {
    let operations = [Operation::Create, Operation::Update, Operation::Delete];
    let rules = [entry(&operations, api::GROUP, &LockKind::ALL.map(LockKind::plural), "*")];
    let fields = [("sideEffects", json!("NoneOnDryRun")), ("namespaceSelector", namespaces(own_namespace, None))];
    let name = "lock-kinds.dependencies.opendefense.cloud";
    of_webhooks(LOCK_KINDS_CONFIGURATION, &[changed(webhook(name, "Fail", &rules, client), fields)])
}

/// Returns the configuration about objects that the older tool's Locks lock, in the namespaces with its label. An
/// eviction deletes a Pod without a review of the Pod's deletion, so evictions are reviewed as well.
pub(super) fn of_compat_locks(kinds: &BTreeSet<GroupResource>, client: &Value, own_namespace: Option<&str>) -> Value {
    let operations = [Operation::Update, Operation::Delete];
    let scope = Scope::Namespaced.as_str();
    let objects = kinds.iter().map(|kind| entry(&operations, kind.group.as_str(), &[kind.resource.as_str()], scope));
    let pods = kinds.iter().filter(|kind| kind.group.is_core() && kind.resource.as_str() == "pods");
    let evictions = pods.map(|pods| entry(&[Operation::Create], pods.group.as_str(), &["pods/eviction"], scope));
    let rules: Vec<_> = objects.chain(evictions).collect();
    let fields = [("namespaceSelector", namespaces(own_namespace, Some(LOCKABLE)))];
    let name = "compat-locks.dependencies.opendefense.cloud";
    of_webhooks(COMPAT_LOCKS_CONFIGURATION, &[changed(webhook(name, "Fail", &rules, client), fields)])
}

impl Scope {
    /// Returns a scope that includes both.
    fn with(self, other: Self) -> Self {
        if self == other { self } else { Self::Any }
    }

    fn as_str(self) -> &'static str {
        match self {
            Self::Cluster => "Cluster",
            Self::Namespaced => "Namespaced",
            Self::Any => "*",
        }
    }
}

fn entry(operations: &[Operation], group: &str, resources: &[&str], scope: &str) -> Value {
    let operations = operations.iter().map(|operation| match operation {
        Operation::Create => "CREATE",
        Operation::Update => "UPDATE",
        Operation::Delete => "DELETE",
        Operation::Connect => "CONNECT",
    });
    json!({
        "operations": operations.collect::<Vec<_>>(),
        "apiGroups": [group],
        "apiVersions": ["*"],
        "resources": resources,
        "scope": scope,
    })
}

/// Returns a selector of all namespaces. `own`, in plain Kubernetes, leaves out depguard's own namespace, in which
/// nothing is protected; `label` selects only the namespaces in which this label is true.
fn namespaces(own: Option<&str>, label: Option<&str>) -> Value {
    let mut selector = Map::new();
    if let Some(own) = own {
        selector.insert("matchExpressions".to_owned(), json!([not_in(own)]));
    }
    if let Some(label) = label {
        selector.insert("matchLabels".to_owned(), json!({label: "true"}));
    }
    Value::Object(selector)
}

#[cfg(test)]
mod tests {
    use depguard_core::locks::LockKind::{ClusterObjectLock, ObjectLock};

    use super::*;

    fn guarded(locks: &[(LockKind, Value)]) -> ReviewedResources {
        let mut guarded = ReviewedResources::default();
        for (kind, spec) in locks {
            let namespace = (*kind == ObjectLock).then_some("default");
            let lock = json!({"metadata": {"name": "a", "namespace": namespace}, "spec": spec});
            let lock = Lock::parse(*kind, &lock).unwrap();
            lock.targets().iter().for_each(|target| guarded.insert(ControlPlane::Kubernetes, &lock, target));
        }
        guarded
    }

    /// Returns entries such as `UPDATE,DELETE vpcs.network.example.com Namespaced`.
    fn entries(guarded: &ReviewedResources) -> Vec<String> {
        let configuration = guarded.configuration(&json!({"url": "https://host/lock"}), None);
        let list = |value: &Value| {
            value.as_array().unwrap().iter().map(|text| text.as_str().unwrap().to_owned()).collect::<Vec<_>>().join(",")
        };
        let rules = configuration["webhooks"][0]["rules"].as_array().unwrap().clone();
        let of = |rule: &Value| {
            let [operations, resources, groups] =
                ["operations", "resources", "apiGroups"].map(|field| list(&rule[field]));
            let dot = if groups.is_empty() { "" } else { "." };
            format!("{operations} {resources}{dot}{groups} {}", rule["scope"].as_str().unwrap())
        };
        rules.iter().map(of).collect()
    }

    fn target(resource: &str) -> Value {
        json!({"group": "", "resource": resource, "name": "a"})
    }

    #[test]
    fn a_configuration_is_no_wider_than_its_locks() {
        for (locks, expected) in [
            (
                vec![(ObjectLock, json!({"targets": [target("configmaps")]}))],
                &["UPDATE,DELETE configmaps Namespaced"][..],
            ),
            (
                vec![(ObjectLock, json!({"targets": [target("configmaps")], "operations": ["Update"]}))],
                &["UPDATE configmaps Namespaced"],
            ),
            (
                vec![(ObjectLock, json!({"targets": [target("pods")], "operations": ["Delete"]}))],
                &["DELETE pods Namespaced", "CREATE pods/eviction Namespaced"],
            ),
            (
                vec![(
                    ObjectLock,
                    json!({"targets": [{"group": "apps", "resource": "deployments/scale", "name": "a"}]}),
                )],
                &["CREATE,UPDATE,DELETE,CONNECT deployments/scale.apps Namespaced"],
            ),
            (vec![(ClusterObjectLock, json!({"targets": [target("nodes")]}))], &["UPDATE,DELETE nodes Cluster"]),
            (
                vec![
                    (ClusterObjectLock, json!({"targets": [{"resource": "secrets", "namespace": "a", "name": "b"}]})),
                    (
                        ClusterObjectLock,
                        json!({"targets": [{"resource": "nodes", "selector": {}}], "operations": ["Delete"]}),
                    ),
                ],
                &["DELETE nodes *", "UPDATE,DELETE secrets Namespaced"],
            ),
            (
                vec![
                    (ObjectLock, json!({"targets": [target("secrets")], "operations": ["Update"]})),
                    (
                        ClusterObjectLock,
                        json!({"targets": [{"resource": "secrets", "selector": {}}], "operations": ["Delete"]}),
                    ),
                ],
                &["UPDATE secrets Namespaced", "DELETE secrets *"],
            ),
        ] {
            assert_eq!(entries(&guarded(&locks)), expected, "{locks:?}");
        }
    }

    #[test]
    fn what_is_vital_is_reviewed_only_in_the_namespaces_of_its_locks() {
        let lock = |namespace: &str, resource: &str| {
            let object =
                json!({"metadata": {"name": "a", "namespace": namespace}, "spec": {"targets": [target(resource)]}});
            Lock::parse(ObjectLock, &object).unwrap()
        };
        let configured = |control_plane, locks: &[Lock]| {
            let mut guarded = ReviewedResources::default();
            for lock in locks {
                lock.targets().iter().for_each(|target| guarded.insert(control_plane, lock, target));
            }
            let webhooks = guarded.configuration(&json!({"url": "https://host/lock"}), Some("own"))["webhooks"].clone();
            let shown = |webhook: &Value| {
                let resources: Vec<_> =
                    webhook["rules"].as_array().unwrap().iter().map(|rule| rule["resources"][0].clone()).collect();
                (json!(resources), webhook.pointer("/namespaceSelector/matchExpressions/1/values").cloned())
            };
            webhooks.as_array().unwrap().iter().map(shown).collect::<Vec<_>>()
        };
        let locks = [lock("a", "secrets"), lock("a", "events"), lock("b", "events"), lock("c", "pods/status")];
        assert_eq!(
            configured(ControlPlane::Kubernetes, &locks),
            [
                (json!(["secrets"]), None),
                (json!(["events"]), Some(json!(["a", "b"]))),
                (json!(["pods/status"]), Some(json!(["c"])))
            ]
        );
        assert_eq!(configured(ControlPlane::Kcp, &locks[1..]), [(json!(["events", "pods/status"]), None)]);
        let many: Vec<_> = (0..=MAX_NAMESPACES).map(|number| lock(&format!("n{number}"), "events")).collect();
        assert_eq!(configured(ControlPlane::Kubernetes, &many), [(json!(["events"]), None)]);
    }

    #[test]
    fn a_configuration_that_may_lack_something_keeps_what_is_there_and_is_renewed() {
        let [a, b] =
            ["configmaps", "secrets"].map(|resource| guarded(&[(ObjectLock, json!({"targets": [target(resource)]}))]));
        let [old, new] = ["old", "new"].map(|url| json!({"url": url}));
        let existing = a.configuration(&old, None);
        let both = no_narrower(b.configuration(&new, None), &existing);
        let resources: Vec<_> =
            both["webhooks"][0]["rules"].as_array().unwrap().iter().map(|rule| &rule["resources"][0]).collect();
        assert_eq!(resources, ["secrets", "configmaps"]);
        assert_eq!(both["webhooks"][0]["clientConfig"], new);
        assert_eq!(no_narrower(b.configuration(&new, None), &both), both);
        assert_eq!(no_narrower(ReviewedResources::default().configuration(&old, None), &existing), existing);
    }

    #[test]
    fn nothing_in_depguards_own_namespace_is_asked_about() {
        let client = json!({"url": "https://host/lock"});
        let kinds = BTreeSet::from(["pods".parse().unwrap()]);
        let locks = guarded(&[(ObjectLock, json!({"targets": [target("configmaps")]}))]);
        let own = Some("depguard-system");
        for configuration in
            [locks.configuration(&client, own), of_lock_kinds(&client, own), of_compat_locks(&kinds, &client, own)]
        {
            let webhook = &configuration["webhooks"][0];
            assert_eq!(webhook["namespaceSelector"]["matchExpressions"][0]["operator"], "NotIn");
            assert_eq!(webhook["failurePolicy"], "Fail");
            assert_eq!(webhook["matchPolicy"], "Equivalent");
        }
    }

    #[test]
    fn the_older_tools_locks_count_where_a_namespace_says_so() {
        let kinds = ["pods", "deployments.apps"].map(|kind| kind.parse().unwrap()).into();
        let configuration = of_compat_locks(&kinds, &json!({}), None);
        let selector = &configuration["webhooks"][0]["namespaceSelector"];
        assert_eq!(*selector, json!({"matchLabels": {"lockable": "true"}}));
        let reviewed = |kinds: &[&str]| {
            let kinds = kinds.iter().map(|kind| kind.parse().unwrap()).collect();
            let configuration = of_compat_locks(&kinds, &json!({}), None);
            let rules = configuration["webhooks"][0]["rules"].as_array().unwrap().clone();
            let shown = |rule: Value| json!([rule["operations"], rule["apiGroups"], rule["resources"], rule["scope"]]);
            rules.into_iter().map(shown).collect::<Vec<_>>()
        };
        let changes = json!(["UPDATE", "DELETE"]);
        let deployments = json!([changes, ["apps"], ["deployments"], "Namespaced"]);
        let pods = json!([changes, [""], ["pods"], "Namespaced"]);
        let evictions = json!([["CREATE"], [""], ["pods/eviction"], "Namespaced"]);
        assert_eq!(reviewed(&["pods", "deployments.apps"]), [pods, deployments.clone(), evictions]);
        // A kind of another group that is named pods has no evictions.
        let others = json!([changes, ["example.com"], ["pods"], "Namespaced"]);
        assert_eq!(reviewed(&["deployments.apps", "pods.example.com"]), [deployments, others]);
    }
}

//! The webhook configurations of locks, as narrow as the locks ask.

use std::collections::{BTreeMap, BTreeSet};

use depguard_core::locks::{Lock, LockKind, LockTarget, Operations, Pick};
use depguard_core::{GroupResource, api};
use serde_json::{Map, Value, json};

use super::{COMPAT_CONFIGURATION, CONFIGURATION, KINDS_CONFIGURATION};
use crate::configuration::{not_in, of_webhooks, webhook};

/// Where the webhook is asked about locks and what they lock.
pub(super) const PATH: &str = "/lock";
/// Where it is asked about what the older tool's Locks lock.
pub(super) const COMPAT_PATH: &str = "/lock/compat";

/// The label of the namespaces in which the older tool's Locks count.
const LOCKABLE: &str = "lockable";

/// What is to be reviewed at a place, as its locks ask for it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Guarded {
    resources: BTreeMap<(GroupResource, Option<String>), Asked>,
}

/// The operations, each with where its objects are.
type Asked = BTreeMap<Operation, Scope>;

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

impl Guarded {
    /// Adds what a lock asks for by one of its targets.
    pub(super) fn insert(&mut self, lock: &Lock, target: &LockTarget) {
        let Operations { update, delete } = lock.operations();
        let scope = match (lock.kind(), &target.namespace, &target.pick) {
            (LockKind::ObjectLock, ..) | (_, Some(_), _) => Scope::Namespaced,
            (LockKind::ClusterObjectLock, None, Pick::Name(_)) => Scope::Cluster,
            (LockKind::ClusterObjectLock, None, Pick::Labels { .. }) => Scope::Any,
        };
        let of = target.subresource.as_deref();
        // A Pod that is evicted is deleted without a review of its deletion.
        let is_pod = target.kind.group.is_core() && target.kind.resource.as_str() == "pods";
        let evicts = delete && is_pod && matches!(of, None | Some("eviction"));
        // What is done through a subresource need be no update: a token is created, and a shell in a Pod connected to.
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
            asked.entry(operation).and_modify(|known| *known = known.with(scope)).or_insert(scope);
        }
    }

    /// The configuration that has it reviewed; `client` is how the webhook is reached.
    ///
    /// What is being deleted already may be deleted again whatever locks it, so nobody is asked.
    pub(super) fn configuration(&self, client: &Value, own_namespace: Option<&str>) -> Value {
        let mut rules = Vec::new();
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
            rules.extend(of_kind);
        }
        let condition = json!({
            "name": "not-yet-being-deleted",
            "expression": "request.operation != 'DELETE' || oldObject == null || !has(oldObject.metadata.deletionTimestamp)",
        });
        let fields = [("matchConditions", json!([condition])), ("namespaceSelector", namespaces(own_namespace, None))];
        let name = "locks.dependencies.opendefense.cloud";
        of_webhooks(CONFIGURATION, &[changed(webhook(name, "Fail", &rules, client), fields)])
    }
}

/// A configuration with what an existing one has reviewed besides.
pub(super) fn no_narrower(mut configuration: Value, existing: &Value) -> Value {
    let rules = "/webhooks/0/rules";
    let there = existing.pointer(rules).and_then(Value::as_array);
    if let (Some(there), Some(Value::Array(rules))) = (there, configuration.pointer_mut(rules)) {
        let more: Vec<_> = there.iter().filter(|rule| !rules.contains(rule)).cloned().collect();
        rules.extend(more);
    }
    configuration
}

/// The configuration about locks themselves: each that is made is noted in its tables before it is stored.
pub(super) fn of_lock_kinds(client: &Value, own_namespace: Option<&str>) -> Value {
    let operations = [Operation::Create, Operation::Update, Operation::Delete];
    let rules = [entry(&operations, api::GROUP, &LockKind::ALL.map(LockKind::plural), "*")];
    let fields = [("sideEffects", json!("NoneOnDryRun")), ("namespaceSelector", namespaces(own_namespace, None))];
    let name = "lock-kinds.dependencies.opendefense.cloud";
    of_webhooks(KINDS_CONFIGURATION, &[changed(webhook(name, "Fail", &rules, client), fields)])
}

/// The configuration about what the older tool's Locks lock: where they count, its namespaces say.
pub(super) fn of_compat_locks(kinds: &BTreeSet<GroupResource>, client: &Value, own_namespace: Option<&str>) -> Value {
    let operations = [Operation::Update, Operation::Delete];
    let rules = kinds
        .iter()
        .map(|kind| entry(&operations, kind.group.as_str(), &[kind.resource.as_str()], Scope::Namespaced.as_str()));
    let rules: Vec<_> = rules.collect();
    let fields = [("namespaceSelector", namespaces(own_namespace, Some(LOCKABLE)))];
    let name = "compat-locks.dependencies.opendefense.cloud";
    of_webhooks(COMPAT_CONFIGURATION, &[changed(webhook(name, "Fail", &rules, client), fields)])
}

impl Scope {
    /// What holds both.
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

/// All namespaces but depguard's own, in home kubernetes, where nothing is protected; and only those with a label, which
/// is true.
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

fn changed<const N: usize>(mut webhook: Value, fields: [(&str, Value); N]) -> Value {
    if let Some(webhook) = webhook.as_object_mut() {
        webhook.extend(fields.map(|(field, value)| (field.to_owned(), value)));
    }
    webhook
}

#[cfg(test)]
mod tests {
    use depguard_core::locks::LockKind::{ClusterObjectLock, ObjectLock};

    use super::*;

    fn guarded(locks: &[(LockKind, Value)]) -> Guarded {
        let mut guarded = Guarded::default();
        for (kind, spec) in locks {
            let namespace = (*kind == ObjectLock).then_some("default");
            let lock = json!({"metadata": {"name": "a", "namespace": namespace}, "spec": spec});
            let lock = Lock::parse(*kind, &lock).unwrap();
            lock.targets().iter().for_each(|target| guarded.insert(&lock, target));
        }
        guarded
    }

    /// `UPDATE,DELETE vpcs.network.example.com Namespaced`
    fn entries(guarded: &Guarded) -> Vec<String> {
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
        assert_eq!(no_narrower(Guarded::default().configuration(&old, None), &existing), existing);
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
        let webhook = &configuration["webhooks"][0];
        assert_eq!(webhook["namespaceSelector"], json!({"matchLabels": {"lockable": "true"}}));
        assert_eq!(webhook["rules"][1]["apiGroups"], json!(["apps"]));
        for rule in webhook["rules"].as_array().unwrap() {
            assert_eq!(rule["operations"], json!(["UPDATE", "DELETE"]));
        }
    }
}

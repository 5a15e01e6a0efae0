//! Drift of an installed webhook configuration: what a controller would write otherwise, for the same kinds and the same
//! address. A reader without the controller's flags and watches finds by it what somebody else has changed.

use std::collections::BTreeSet;

use depguard_core::model::{GroupResource, Resource};
use depguard_core::rule::PartialRule;
use depguard_core::{ControlPlane, Group, Rule};
use serde_json::{Value, json};

use crate::model::names::{REFERENCES_CONFIGURATION, RULES_CONFIGURATION};
use crate::model::reference_configuration::restored;
use crate::model::webhook_configuration::{
    CANARY_WEBHOOK, ClientConfigs, IGNORING_WEBHOOK, Kinds, ProtectedKinds, WEBHOOK, desired, webhooks,
};

/// Returns the fields that differ in a configuration for rules, each with the name of its webhook: `failurePolicy of
/// dependency-controller.dependencies.opendefense.cloud`. A configuration of another name has none. `own_namespace`:
/// depguard's own, on Kubernetes. `rules`: all of them; `None` if they could not be read, so that nobody knows which names
/// they exclude.
pub fn drift(configuration: &Value, own_namespace: Option<&str>, rules: Option<&[Value]>) -> BTreeSet<String> {
    let existing = webhooks(configuration);
    let expected = match text(configuration.pointer("/metadata/name")) {
        RULES_CONFIGURATION => webhooks(&of_rules(&existing, own_namespace, rules.unwrap_or_default())),
        REFERENCES_CONFIGURATION => {
            let restored = existing.iter().filter_map(|webhook| restored(webhook, own_namespace));
            webhooks(&json!({"webhooks": restored.collect::<Vec<_>>()}))
        }
        _ => return BTreeSet::new(),
    };
    let pairs = existing.iter().filter_map(|webhook| Some((webhook, named(&expected, text(webhook.get("name")))?)));
    let differing = pairs.flat_map(|(webhook, expected)| {
        let fields = [webhook, expected].into_iter().filter_map(Value::as_object).flat_map(|fields| fields.keys());
        let differs = |field: &&String| webhook.get(*field) != expected.get(*field);
        let is_known = |field: &&String| rules.is_some() || *field != "matchConditions";
        let differing: BTreeSet<_> = fields.filter(differs).filter(is_known).collect();
        differing.into_iter().map(|field| format!("{field} of {}", text(webhook.get("name"))))
    });
    differing.collect()
}

/// Returns the configuration about deletions that has the same kinds reviewed at the same address.
fn of_rules(existing: &[Value], own_namespace: Option<&str>, rules: &[Value]) -> Value {
    let client = |name: &str| Some(named(existing, name)?.get("clientConfig")?.clone());
    let kinds = |name: &str, named_by_rules: &ProtectedKinds| {
        let kinds = named(existing, name).map(reviewed).unwrap_or_default().into_iter();
        let excluded = |kind: &GroupResource| named_by_rules.get(kind).cloned().unwrap_or_default();
        kinds.map(|kind| (kind.clone(), excluded(&kind))).collect()
    };
    let by_rules = protected(rules);
    let clients = ClientConfigs {
        fail: client(WEBHOOK).unwrap_or_default(),
        ignore: client(IGNORING_WEBHOOK).or_else(|| client(CANARY_WEBHOOK)).unwrap_or_default(),
        own_namespace: own_namespace.map(str::to_owned),
    };
    let (fail, ignore) = (kinds(WEBHOOK, &by_rules.fail), kinds(IGNORING_WEBHOOK, &by_rules.ignore));
    desired(&Kinds { fail, ignore }, &clients)
}

/// Returns the kinds that rules protect on Kubernetes, with the names that they exclude.
fn protected(rules: &[Value]) -> Kinds {
    let mut kinds = Kinds::default();
    for rule in rules {
        if let Ok(rule) = Rule::parse(ControlPlane::Kubernetes, rule) {
            for edge in rule.edges() {
                kinds.insert(rule.failure_policy(), edge.target.gvr.group_resource(), &edge.exclude_names);
            }
        } else if let Some(rule) = PartialRule::read(ControlPlane::Kubernetes, rule) {
            rule.targets.into_iter().for_each(|(_, kind)| kinds.insert(rule.failure_policy, kind, &[]));
        }
    }
    kinds
}

fn named<'w>(webhooks: &'w [Value], name: &str) -> Option<&'w Value> {
    webhooks.iter().find(|webhook| text(webhook.get("name")) == name)
}

/// Returns the kinds in the rules of a webhook, without their subresources.
fn reviewed(webhook: &Value) -> BTreeSet<GroupResource> {
    let list = |value: &Value, field: &str| value.get(field).and_then(Value::as_array).cloned().unwrap_or_default();
    let kinds = list(webhook, "rules").into_iter().flat_map(|rule| {
        let resources = list(&rule, "resources");
        list(&rule, "apiGroups").into_iter().flat_map(move |group| {
            let kind = |resource: &Value| {
                let (group, resource) =
                    (Group::parse(group.as_str()?).ok()?, Resource::parse(resource.as_str()?).ok()?);
                Some(GroupResource { group, resource })
            };
            resources.iter().filter_map(kind).collect::<Vec<_>>()
        })
    });
    kinds.collect()
}

fn text(value: Option<&Value>) -> &str {
    value.and_then(Value::as_str).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use depguard_core::api::FailurePolicy;
    use depguard_core::{ControlPlane, Rule};

    use super::*;
    use crate::model::reference_configuration::{self, CheckedReferences, ReferringKinds};

    fn kind(group: &str, resource: &str) -> GroupResource {
        GroupResource { group: group.parse().unwrap(), resource: resource.parse().unwrap() }
    }

    fn clients(own_namespace: Option<&str>) -> ClientConfigs {
        let client = |path: &str| json!({"service": {"namespace": "own", "name": "webhook", "path": path}});
        ClientConfigs { fail: client("/a"), ignore: client("/b"), own_namespace: own_namespace.map(str::to_owned) }
    }

    /// Returns what a controller writes about deletions and about references, in kcp and on Kubernetes.
    fn written() -> Vec<(Option<&'static str>, Value)> {
        let kinds = Kinds {
            fail: [kind("", "secrets"), kind("", "pods"), kind("network.example.com", "vpcs")]
                .map(|kind| (kind, BTreeSet::new()))
                .into(),
            ignore: [(kind("", "configmaps"), BTreeSet::new())].into(),
        };
        let mut referring = ReferringKinds::default();
        for (resource, kind, path, policy) in [
            ("pods", "Pod", ".spec.nodeName", FailurePolicy::Fail),
            ("secrets", "Secret", ".metadata.annotations.a", FailurePolicy::Fail),
            ("configmaps", "ConfigMap", ".data.a", FailurePolicy::Ignore),
        ] {
            let rule = json!({"metadata": {"name": "r"}, "spec": {
                "dependent": {"group": "", "version": "v1", "kind": kind, "resource": resource},
                "dependencies": [{"group": "", "version": "v1", "resource": "nodes", "onMissing": "Deny", "fieldRef": {"path": path}}],
            }});
            let rule = Rule::parse(ControlPlane::Kubernetes, &rule).unwrap();
            referring.insert(policy, &CheckedReferences::from_rule(&rule).unwrap());
        }
        [None, Some("own")]
            .into_iter()
            .flat_map(|own| {
                let clients = clients(own);
                [desired(&kinds, &clients), reference_configuration::desired(&referring, &clients)].map(|it| (own, it))
            })
            .collect()
    }

    #[test]
    fn what_a_controller_writes_has_no_drift() {
        for (own, configuration) in written() {
            assert_eq!(drift(&configuration, own, Some(&[])), BTreeSet::new(), "{configuration}");
            let foreign =
                json!({"metadata": {"name": "other"}, "webhooks": [{"name": "w", "failurePolicy": "Ignore"}]});
            assert_eq!(drift(&foreign, own, Some(&[])), BTreeSet::new());
        }
    }

    #[test]
    fn each_edit_that_narrows_a_webhook_is_told() {
        for (own, configuration) in written() {
            let webhooks = configuration["webhooks"].as_array().unwrap();
            for (index, webhook) in webhooks.iter().enumerate() {
                let other = if webhook["failurePolicy"] == "Fail" { "Ignore" } else { "Fail" };
                for (field, value) in [
                    ("failurePolicy", json!(other)),
                    ("matchPolicy", json!("Exact")),
                    ("objectSelector", json!({"matchLabels": {"a": "b"}})),
                    ("namespaceSelector", json!({"matchLabels": {"a": "b"}})),
                    (
                        "namespaceSelector",
                        json!({"matchExpressions": [
                            {"key": "kubernetes.io/metadata.name", "operator": "NotIn", "values": ["own", "shop"]},
                        ]}),
                    ),
                    ("matchConditions", json!([{"name": "never", "expression": "false"}])),
                ] {
                    let mut edited = configuration.clone();
                    edited["webhooks"][index][field] = value;
                    let name = webhook["name"].as_str().unwrap();
                    assert!(
                        drift(&edited, own, Some(&[])).iter().any(|it| it.ends_with(name)),
                        "{field} of {name}: {:?}",
                        drift(&edited, own, Some(&[]))
                    );
                }
                for (field, value) in
                    [("scope", json!("Cluster")), ("operations", json!(["CONNECT"])), ("apiVersions", json!(["v9"]))]
                {
                    let mut edited = configuration.clone();
                    edited["webhooks"][index]["rules"][0][field] = value;
                    let is_version = field == "apiVersions" && webhook["name"].as_str().unwrap().contains("references");
                    assert_eq!(drift(&edited, own, Some(&[])).is_empty(), is_version, "{field}: {edited}");
                }
            }
        }
    }

    #[test]
    fn a_name_that_no_webhook_hears_of_is_drift_unless_all_rules_exclude_it() {
        let rule = |policy: &str, names: Value| {
            json!({"metadata": {"name": "r"}, "spec": {
                "failurePolicy": policy,
                "dependent": {"group": "", "version": "v1", "kind": "Pod", "resource": "pods"},
                "dependencies": [{"group": "", "version": "v1", "resource": "configmaps", "excludeNames": names,
                    "fieldRef": {"path": ".spec.a"}}],
            }})
        };
        let (one, two) = (rule("Fail", json!(["a", "b"])), rule("Fail", json!(["b", "c"])));
        let written = |rules: &[Value]| desired(&protected(rules), &clients(Some("own")));
        let both = [one.clone(), two.clone()];
        let of = "matchConditions of dependency-controller.dependencies.opendefense.cloud".to_owned();
        let told = |configuration: &Value, rules: Option<&[Value]>| drift(configuration, Some("own"), rules);
        assert_eq!(told(&written(&both), Some(&both)), BTreeSet::new());
        // Nobody knows what to compare with if the rules can't be read.
        assert_eq!(told(&written(&both), None), BTreeSet::new());
        for (installed, rules) in [
            (&[one.clone()][..], &both[..]),
            (&both[..], &[one.clone()][..]),
            (&both, &[]),
            (&both, &[one.clone(), two.clone(), rule("Fail", json!(null))]),
            // A rule that can't be used refuses for each name.
            (&both, &[one.clone(), two.clone(), rule("Fail", json!(["B!"]))]),
        ] {
            assert_eq!(told(&written(installed), Some(rules)), BTreeSet::from([of.clone()]), "{installed:?} {rules:?}");
        }
        let beside = [one, two, rule("Ignore", json!(null))];
        assert_eq!(told(&written(&beside), Some(&beside)), BTreeSet::new());
    }
}

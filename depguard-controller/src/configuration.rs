//! The one webhook configuration of a place: what it is to be, whether it is that, and what to do where it is not.

use std::collections::BTreeSet;

use depguard_core::GroupResource;
use depguard_core::api::FailurePolicy;
use serde_json::{Map, Value, json};

/// The name of the configuration; the reference's.
pub(crate) const NAME: &str = "dependency-controller";
/// The name of its webhook; the reference's, too.
pub(crate) const WEBHOOK: &str = "dependency-controller.dependencies.opendefense.cloud";
/// The name of the webhook of the rules with `failurePolicy: Ignore`.
pub(crate) const IGNORING_WEBHOOK: &str = "ignore.dependency-controller.dependencies.opendefense.cloud";

const MANAGED_BY: (&str, &str) = ("app.kubernetes.io/managed-by", "depguard");

/// The kinds to protect at a place, by what is to happen where nobody can decide. A kind may be in both.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Kinds {
    pub(crate) fail: BTreeSet<GroupResource>,
    pub(crate) ignore: BTreeSet<GroupResource>,
}

/// How API servers reach the webhook, for rules of either policy.
#[derive(Debug, Clone)]
pub(crate) struct ClientConfigs {
    pub(crate) fail: Value,
    pub(crate) ignore: Value,
}

/// What to do about the configuration of a place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Step {
    /// It is as it should be, or not there and should not be.
    Nothing,
    /// It is not there.
    Create,
    /// It is ours and differs.
    Apply,
    /// It is ours and nothing is left to protect.
    Delete,
    /// It is somebody else's: leave it.
    LeaveForeign,
}

/// What to do, given what is there and what should be.
pub(crate) fn step(existing: Option<&Value>, desired: Option<&Value>) -> Step {
    match (existing, desired) {
        (None, None) => Step::Nothing,
        (None, Some(_)) => Step::Create,
        (Some(existing), _) if !is_ours(existing) => Step::LeaveForeign,
        (Some(existing), None) if existing.pointer("/metadata/deletionTimestamp").is_some() => Step::Nothing,
        (Some(_), None) => Step::Delete,
        (Some(existing), Some(desired)) if is_installed(existing, desired) => Step::Nothing,
        (Some(_), Some(_)) => Step::Apply,
    }
}

/// The configuration that protects these kinds: a webhook a policy, and in it an entry each, sorted, in every version
/// and scope.
///
/// Every field is written out that would weaken it if it had another value, so that an apply takes it back.
pub(crate) fn desired(kinds: &Kinds, clients: &ClientConfigs) -> Value {
    let webhooks =
        [(WEBHOOK, "Fail", &kinds.fail, &clients.fail), (IGNORING_WEBHOOK, "Ignore", &kinds.ignore, &clients.ignore)];
    let webhooks = webhooks.into_iter().filter(|(_, _, targets, _)| !targets.is_empty());
    let webhooks: Vec<_> =
        webhooks.map(|(name, policy, targets, client)| webhook(name, policy, targets, client)).collect();
    json!({
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingWebhookConfiguration",
        "metadata": {"name": NAME, "labels": {MANAGED_BY.0: MANAGED_BY.1}},
        "webhooks": webhooks,
    })
}

fn webhook(name: &str, policy: &str, targets: &BTreeSet<GroupResource>, client_config: &Value) -> Value {
    let rules: Vec<_> = targets
        .iter()
        .map(|target| {
            json!({
                "operations": ["DELETE"],
                "apiGroups": [target.group],
                "apiVersions": ["*"],
                "resources": [target.resource],
                "scope": "*",
            })
        })
        .collect();
    json!({
        "name": name,
        "clientConfig": client_config,
        "rules": rules,
        "failurePolicy": policy,
        "matchPolicy": "Equivalent",
        "namespaceSelector": {},
        "objectSelector": {},
        "sideEffects": "None",
        "timeoutSeconds": 10,
        "admissionReviewVersions": ["v1"],
    })
}

/// Whether `existing` does what `desired` says, no more and no less. A field that neither is set here nor is a default
/// of the API server counts as a difference: it may weaken the configuration.
pub(crate) fn is_installed(existing: &Value, desired: &Value) -> bool {
    has_label(existing) && webhooks(existing) == webhooks(desired)
}

/// The whole of `existing`, made as desired, to be PUT with its own `resourceVersion`: what an apply can't remove, such
/// as another manager's entry in a list, goes with it. Labels and annotations of others stay.
pub(crate) fn replacement(existing: &Value, desired: &Value) -> Value {
    let mut object = existing.clone();
    if let Some(fields) = object.as_object_mut() {
        for field in ["apiVersion", "kind", "webhooks"] {
            fields.insert(field.to_owned(), desired.get(field).cloned().unwrap_or_default());
        }
        let metadata = fields.entry("metadata").or_insert_with(|| json!({}));
        if let Some(metadata) = metadata.as_object_mut() {
            metadata.remove("managedFields");
            let labels = metadata.entry("labels").or_insert_with(|| json!({}));
            if !labels.is_object() {
                *labels = json!({});
            }
            if let Some(labels) = labels.as_object_mut() {
                labels.insert(MANAGED_BY.0.to_owned(), Value::from(MANAGED_BY.1));
            }
        }
    }
    object
}

impl Kinds {
    pub(crate) fn insert(&mut self, policy: FailurePolicy, kind: GroupResource) {
        match policy {
            FailurePolicy::Fail => self.fail.insert(kind),
            FailurePolicy::Ignore => self.ignore.insert(kind),
        };
    }
}

/// Ours is what has our label, and what holds the reference's one webhook and no other, which is taken over.
fn is_ours(existing: &Value) -> bool {
    let webhooks = existing.get("webhooks").and_then(Value::as_array).map(Vec::as_slice);
    let of_the_reference =
        matches!(webhooks, Some([webhook]) if webhook.get("name").and_then(Value::as_str) == Some(WEBHOOK));
    has_label(existing) || of_the_reference
}

fn has_label(existing: &Value) -> bool {
    let labels = existing.pointer("/metadata/labels");
    labels.and_then(|labels| labels.get(MANAGED_BY.0)).and_then(Value::as_str) == Some(MANAGED_BY.1)
}

/// The webhooks with the API server's defaults filled in, so that equal is what does the same.
fn webhooks(configuration: &Value) -> Vec<Value> {
    let webhooks = configuration.get("webhooks").and_then(Value::as_array);
    webhooks.into_iter().flatten().cloned().map(with_defaults).collect()
}

fn with_defaults(mut webhook: Value) -> Value {
    let Some(fields) = webhook.as_object_mut() else { return webhook };
    for (field, default) in [
        ("failurePolicy", json!("Fail")),
        ("matchPolicy", json!("Equivalent")),
        ("namespaceSelector", json!({})),
        ("objectSelector", json!({})),
        ("timeoutSeconds", json!(10)),
    ] {
        default_to(fields, field, default);
    }
    if fields.get("matchConditions").is_some_and(|conditions| conditions.as_array().is_some_and(Vec::is_empty)) {
        fields.remove("matchConditions");
    }
    for rule in fields.get_mut("rules").and_then(Value::as_array_mut).into_iter().flatten() {
        if let Some(rule) = rule.as_object_mut() {
            default_to(rule, "scope", json!("*"));
        }
    }
    let service = fields.get_mut("clientConfig").and_then(|config| config.get_mut("service"));
    if let Some(service) = service.and_then(Value::as_object_mut) {
        default_to(service, "port", json!(443));
    }
    webhook
}

fn default_to(fields: &mut Map<String, Value>, field: &str, default: Value) {
    let value = fields.entry(field).or_insert(Value::Null);
    if value.is_null() {
        *value = default;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{client_configs, desired_for, kind, stored};

    #[test]
    fn there_is_one_entry_a_target_sorted_and_once() {
        let object = desired_for(&["vpcs.network.example.com", "configmaps", "vpcs.network.example.com"]);
        let rules = object.pointer("/webhooks/0/rules").unwrap();
        assert_eq!(
            *rules,
            json!([
                {"operations": ["DELETE"], "apiGroups": [""], "apiVersions": ["*"], "resources": ["configmaps"], "scope": "*"},
                {"operations": ["DELETE"], "apiGroups": ["network.example.com"], "apiVersions": ["*"], "resources": ["vpcs"], "scope": "*"},
            ])
        );
    }

    #[test]
    fn rules_that_ignore_failures_have_a_webhook_of_their_own() {
        let mut kinds = Kinds::default();
        kinds.insert(FailurePolicy::Ignore, kind("configmaps"));
        let alone = desired(&kinds, &client_configs());
        assert_eq!(alone["webhooks"].as_array().unwrap().len(), 1);
        kinds.insert(FailurePolicy::Fail, kind("configmaps"));
        let both = desired(&kinds, &client_configs());
        assert_eq!(both["webhooks"][1], alone["webhooks"][0]);
        assert_eq!(both["webhooks"][0]["failurePolicy"], "Fail");
        assert_eq!(both["webhooks"][1]["failurePolicy"], "Ignore");
        assert_eq!(both["webhooks"][1]["clientConfig"]["url"], "https://webhook.example.com/validate/ignore");
        assert_ne!(both["webhooks"][0]["name"], both["webhooks"][1]["name"]);
        assert_eq!(step(Some(&stored(&both)), Some(&both)), Step::Nothing);
        assert_eq!(step(Some(&stored(&both)), Some(&alone)), Step::Apply);
    }

    #[test]
    fn what_an_api_server_stores_of_it_is_installed() {
        let desired = desired_for(&["vpcs.network.example.com"]);
        assert!(is_installed(&stored(&desired), &desired));
        // What is not written is defaulted.
        let mut sparse = stored(&desired);
        for field in ["failurePolicy", "matchPolicy", "namespaceSelector", "objectSelector", "timeoutSeconds"] {
            sparse["webhooks"][0].as_object_mut().unwrap().remove(field);
        }
        sparse["webhooks"][0]["rules"][0].as_object_mut().unwrap().remove("scope");
        sparse["webhooks"][0]["matchConditions"] = json!([]);
        assert!(is_installed(&sparse, &desired));
    }

    #[test]
    fn whatever_weakens_it_is_put_right() {
        let desired = desired_for(&["vpcs.network.example.com"]);
        type Edit = fn(&mut Value);
        let edits: &[(&str, Edit)] = &[
            ("namespaceSelector", |w| w["namespaceSelector"] = json!({"matchLabels": {"a": "b"}})),
            ("objectSelector", |w| w["objectSelector"] = json!({"matchLabels": {"a": "b"}})),
            ("matchConditions", |w| w["matchConditions"] = json!([{"name": "no", "expression": "false"}])),
            ("fewer rules", |w| w["rules"] = json!([])),
            ("another group", |w| w["rules"][0]["apiGroups"] = json!(["other.example.com"])),
            ("one version", |w| w["rules"][0]["apiVersions"] = json!(["v1"])),
            ("another operation", |w| w["rules"][0]["operations"] = json!(["CREATE"])),
            ("a scope", |w| w["rules"][0]["scope"] = json!("Cluster")),
            ("failurePolicy", |w| w["failurePolicy"] = json!("Ignore")),
            ("matchPolicy", |w| w["matchPolicy"] = json!("Exact")),
            ("timeout", |w| w["timeoutSeconds"] = json!(1)),
            ("url", |w| w["clientConfig"]["url"] = json!("https://elsewhere.example.com/validate")),
            ("caBundle", |w| w["clientConfig"]["caBundle"] = json!("AAAA")),
            ("no caBundle", |w| {
                w["clientConfig"].as_object_mut().unwrap().remove("caBundle");
            }),
            ("review versions", |w| w["admissionReviewVersions"] = json!(["v1beta1", "v1"])),
            ("side effects", |w| w["sideEffects"] = json!("NoneOnDryRun")),
            ("a field not known here", |w| w["onlyOnSundays"] = json!(true)),
            ("its name", |w| w["name"] = json!("x.example.com")),
        ];
        for (what, edit) in edits {
            let mut existing = stored(&desired);
            edit(&mut existing["webhooks"][0]);
            assert_eq!(step(Some(&existing), Some(&desired)), Step::Apply, "{what}");
            assert!(is_installed(&replacement(&existing, &desired), &desired), "{what}");
        }
        let mut existing = stored(&desired);
        existing["webhooks"].as_array_mut().unwrap().push(json!({"name": "a.b.c"}));
        assert_eq!(step(Some(&existing), Some(&desired)), Step::Apply, "a second webhook");
        assert!(is_installed(&replacement(&existing, &desired), &desired));
    }

    #[test]
    fn what_others_put_on_it_stays() {
        let desired = desired_for(&["vpcs.network.example.com"]);
        let mut existing = stored(&desired);
        existing["metadata"]["labels"]["claimed.internal.apis.kcp.io/x"] = json!("y");
        existing["metadata"]["annotations"]["note"] = json!("kept");
        assert_eq!(step(Some(&existing), Some(&desired)), Step::Nothing);

        existing["webhooks"] = json!([]);
        let replacement = replacement(&existing, &desired);
        assert_eq!(replacement["metadata"]["labels"]["claimed.internal.apis.kcp.io/x"], "y");
        assert_eq!(replacement["metadata"]["annotations"]["note"], "kept");
        assert_eq!(replacement["metadata"]["resourceVersion"], existing["metadata"]["resourceVersion"]);
    }

    #[test]
    fn the_reference_s_own_is_taken_over_and_a_foreign_one_is_left() {
        let desired = desired_for(&["vpcs.network.example.com"]);
        let mut unlabelled = stored(&desired);
        unlabelled["metadata"].as_object_mut().unwrap().remove("labels");
        assert_eq!(step(Some(&unlabelled), Some(&desired)), Step::Apply);
        assert_eq!(step(Some(&unlabelled), None), Step::Delete);
        assert!(is_installed(&replacement(&unlabelled, &desired), &desired));

        let mut two = unlabelled.clone();
        two["webhooks"].as_array_mut().unwrap().push(json!({"name": "mine.example.com"}));
        let mut other = unlabelled.clone();
        other["webhooks"][0]["name"] = json!("mine.example.com");
        let mut none = unlabelled.clone();
        none["webhooks"] = json!([]);
        for foreign in [two, other, none] {
            assert_eq!(step(Some(&foreign), Some(&desired)), Step::LeaveForeign);
            assert_eq!(step(Some(&foreign), None), Step::LeaveForeign);
        }
    }

    #[test]
    fn the_last_target_gone_it_is_deleted_once() {
        let mut existing = stored(&desired_for(&["vpcs.network.example.com"]));
        assert_eq!(step(Some(&existing), None), Step::Delete);
        existing["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
        assert_eq!(step(Some(&existing), None), Step::Nothing);
        assert_eq!(step(None, None), Step::Nothing);
    }
}

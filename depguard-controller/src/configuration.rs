//! The one webhook configuration of a place: what it is to be, whether it is that, and what to do where it is not.

use std::collections::BTreeSet;

use depguard_core::api::FailurePolicy;
use depguard_core::{GroupResource, canary};
use serde_json::{Map, Value, json};

/// The name of the configuration; the reference's.
pub(crate) const NAME: &str = "dependency-controller";
/// The name of its webhook; the reference's, too.
pub(crate) const WEBHOOK: &str = "dependency-controller.dependencies.opendefense.cloud";
/// The name of the webhook of the rules with `failurePolicy: Ignore`.
pub(crate) const IGNORING_WEBHOOK: &str = "ignore.dependency-controller.dependencies.opendefense.cloud";

/// The name of the webhook that is asked about the canary.
pub(crate) const CANARY_WEBHOOK: &str = "canary.dependency-controller.dependencies.opendefense.cloud";

const MANAGED_BY: (&str, &str) = ("app.kubernetes.io/managed-by", "depguard");
/// The label that an API server puts on each namespace, and lets nobody change.
pub(crate) const NAMESPACE_LABEL: &str = "kubernetes.io/metadata.name";
/// Says how new the version is that wrote a configuration, where they differ in what they make of the same rules.
const REVISION_ANNOTATION: &str = "dependencies.opendefense.cloud/configuration-revision";
/// To be raised with each change of what [`desired`] makes of the same kinds.
const REVISION: u32 = 2;

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
    /// depguard's own namespace, in home kubernetes. Nothing in it is protected: with the webhook gone it could else
    /// neither be put right nor be deleted.
    pub(crate) own_namespace: Option<String>,
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
    /// A newer version of depguard wrote it: leave it to that one for a while. Until then it does what it should, or not.
    Defer { in_force: bool },
}

/// What to do, given what is there and what should be.
pub(crate) fn step(existing: Option<&Value>, desired: Option<&Value>) -> Step {
    match (existing, desired) {
        (None, None) => Step::Nothing,
        (None, Some(_)) => Step::Create,
        (Some(existing), _) if !is_ours(existing) => Step::LeaveForeign,
        (Some(existing), None) if existing.pointer("/metadata/deletionTimestamp").is_some() => Step::Nothing,
        (Some(existing), Some(desired)) if is_installed(existing, desired) => Step::Nothing,
        (Some(existing), desired) if is_newer(existing) => {
            Step::Defer { in_force: desired.is_some_and(|desired| covers(existing, desired)) }
        }
        (Some(_), None) => Step::Delete,
        (Some(_), Some(_)) => Step::Apply,
    }
}

/// The configuration that protects these kinds: a webhook a policy, and in it an entry each, sorted, in every version
/// and scope; in home kubernetes one for the canary, too.
///
/// Every field is written out that would weaken it if it had another value, so that an apply takes it back.
pub(crate) fn desired(kinds: &Kinds, clients: &ClientConfigs) -> Value {
    let own_namespace = clients.own_namespace.as_deref();
    let webhooks =
        [(WEBHOOK, "Fail", &kinds.fail, &clients.fail), (IGNORING_WEBHOOK, "Ignore", &kinds.ignore, &clients.ignore)];
    let webhooks = webhooks.into_iter().filter(|(_, _, targets, _)| !targets.is_empty());
    let webhooks = webhooks.map(|(name, policy, targets, client)| {
        let rules: Vec<_> = targets.iter().flat_map(|kind| entries(kind, own_namespace.is_some())).collect();
        exempting(webhook(name, policy, &rules, client), targets, own_namespace)
    });
    let canary = own_namespace.map(|namespace| canary_webhook(namespace, &clients.ignore));
    of_webhooks(NAME, &webhooks.chain(canary).collect::<Vec<_>>())
}

/// The configuration of this name, as ours.
pub(crate) fn of_webhooks(name: &str, webhooks: &[Value]) -> Value {
    json!({
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingWebhookConfiguration",
        "metadata": {
            "name": name,
            "labels": {MANAGED_BY.0: MANAGED_BY.1},
            "annotations": {REVISION_ANNOTATION: REVISION.to_string()},
        },
        "webhooks": webhooks,
    })
}

/// What the webhook `name` of a configuration decides by; `None`: it is the canary's, or not ours.
pub(crate) fn policy_of(webhook: &Value) -> Option<FailurePolicy> {
    match webhook.get("name").and_then(Value::as_str) {
        Some(WEBHOOK) => Some(FailurePolicy::Fail),
        Some(IGNORING_WEBHOOK) => Some(FailurePolicy::Ignore),
        _ => None,
    }
}

/// A webhook, with every field in it that would weaken it if it had another value.
pub(crate) fn webhook(name: &str, policy: &str, rules: &[Value], client_config: &Value) -> Value {
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

/// What has the deletions of a kind reviewed. A Pod is deleted by an eviction too, which is no DELETE; a kcp serves none.
fn entries(kind: &GroupResource, in_kubernetes: bool) -> impl Iterator<Item = Value> {
    let (group, resource) = (kind.group.as_str(), kind.resource.as_str());
    let evicts = in_kubernetes && kind.group.is_core() && resource == "pods";
    let deletions = entry("DELETE", group, resource, "*");
    [deletions].into_iter().chain(evicts.then(|| entry("CREATE", group, "pods/eviction", "*")))
}

fn entry(operation: &str, group: &str, resource: &str, scope: &str) -> Value {
    json!({
        "operations": [operation],
        "apiGroups": [group],
        "apiVersions": ["*"],
        "resources": [resource],
        "scope": scope,
    })
}

/// The webhook without what it must never hold up: depguard's own namespace, and the Secrets in which Helm keeps its
/// releases, by their type, which nobody can change once a Secret is there.
fn exempting(mut webhook: Value, targets: &BTreeSet<GroupResource>, own_namespace: Option<&str>) -> Value {
    let (Some(namespace), Some(fields)) = (own_namespace, webhook.as_object_mut()) else { return webhook };
    fields.insert("namespaceSelector".to_owned(), json!({"matchExpressions": [not_in(namespace)]}));
    if targets.iter().any(|kind| kind.group.is_core() && kind.resource.as_str() == "secrets") {
        let condition = json!({
            "name": "not-a-helm-release",
            "expression": "request.resource.group != '' || request.resource.resource != 'secrets' || \
                           !has(oldObject.type) || oldObject.type != 'helm.sh/release.v1'",
        });
        fields.insert("matchConditions".to_owned(), json!([condition]));
    }
    webhook
}

/// Every namespace but this one.
pub(crate) fn not_in(namespace: &str) -> Value {
    json!({"key": NAMESPACE_LABEL, "operator": "NotIn", "values": [namespace]})
}

/// Asks about the dry run of one labelled ConfigMap in depguard's own namespace, and holds nothing up where no answer
/// comes.
fn canary_webhook(namespace: &str, client_config: &Value) -> Value {
    let mut webhook =
        webhook(CANARY_WEBHOOK, "Ignore", &[entry("DELETE", "", "configmaps", "Namespaced")], client_config);
    if let Some(fields) = webhook.as_object_mut() {
        fields.insert("namespaceSelector".to_owned(), json!({"matchLabels": {NAMESPACE_LABEL: namespace}}));
        fields.insert("objectSelector".to_owned(), json!({"matchLabels": {canary::LABEL: "true"}}));
    }
    webhook
}

/// The namespace that was depguard's own for whoever wrote the configuration, in home kubernetes.
pub(crate) fn own_namespace(existing: &Value) -> Option<&str> {
    let mut webhooks = existing.get("webhooks").and_then(Value::as_array)?.iter();
    let canary = webhooks.find(|webhook| webhook.get("name").and_then(Value::as_str) == Some(CANARY_WEBHOOK))?;
    canary.get("namespaceSelector")?.get("matchLabels")?.get(NAMESPACE_LABEL)?.as_str()
}

/// Whether `existing` does what `desired` says, no more and no less. A field that neither is set here nor is a default
/// of the API server counts as a difference: it may weaken the configuration.
pub(crate) fn is_installed(existing: &Value, desired: &Value) -> bool {
    has_label(existing) && revision(existing) == REVISION && webhooks(existing) == webhooks(desired)
}

/// Whether it is installed, or does the same as a newer version of depguard wrote it.
pub(crate) fn is_in_force(existing: &Value, desired: &Value) -> bool {
    is_installed(existing, desired) || (is_newer(existing) && covers(existing, desired))
}

/// Whether a newer version of depguard wrote it.
fn is_newer(existing: &Value) -> bool {
    has_label(existing) && revision(existing) > REVISION
}

/// Whether `existing` has everything reviewed that `desired` has, in the same way: it may have more webhooks, and more
/// rules in each, and nothing else may differ. Of any other field, also of one that is not known here, nobody can tell
/// whether it narrows what is reviewed, and whoever may write the configuration may write a newer version's revision.
fn covers(existing: &Value, desired: &Value) -> bool {
    let existing = webhooks(existing);
    let named = |name: &Value| existing.iter().find(|webhook| webhook.get("name") == Some(name));
    let is_canary = |webhook: &&Value| webhook.get("name").and_then(Value::as_str) == Some(CANARY_WEBHOOK);
    webhooks(desired).iter().filter(|wanted| !is_canary(wanted)).all(|wanted| {
        let Some(found) = wanted.get("name").and_then(named) else { return false };
        let ((found, reviewed), (wanted, needed)) = (without_rules(found), without_rules(wanted));
        found == wanted && needed.iter().all(|rule| reviewed.contains(rule))
    })
}

/// A webhook's other fields, and its rules.
fn without_rules(webhook: &Value) -> (Value, Vec<Value>) {
    let mut webhook = webhook.clone();
    let rules = webhook.as_object_mut().and_then(|fields| fields.remove("rules"));
    let Some(Value::Array(rules)) = rules else { return (webhook, Vec::new()) };
    (webhook, rules)
}

/// 0: written by who knows no revisions, as the reference.
fn revision(configuration: &Value) -> u32 {
    let annotations = configuration.pointer("/metadata/annotations");
    let revision = annotations.and_then(|annotations| annotations.get(REVISION_ANNOTATION)).and_then(Value::as_str);
    revision.and_then(|revision| revision.parse().ok()).unwrap_or_default()
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
            for (field, key, value) in [
                ("labels", MANAGED_BY.0, MANAGED_BY.1.to_owned()),
                ("annotations", REVISION_ANNOTATION, REVISION.to_string()),
            ] {
                let entries = metadata.entry(field).or_insert_with(|| json!({}));
                if !entries.is_object() {
                    *entries = json!({});
                }
                if let Some(entries) = entries.as_object_mut() {
                    entries.insert(key.to_owned(), Value::from(value));
                }
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
pub(crate) fn is_ours(existing: &Value) -> bool {
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
mod tests;

//! The webhook configuration of a place: builds the desired one, compares it with the existing one, and chooses the
//! next step.

use std::collections::{BTreeMap, BTreeSet};

use depguard_core::api::FailurePolicy;
use depguard_core::interlock::Generation;
use depguard_core::model::{GroupResource, ObjectName};
use depguard_core::probe::dispatch_canary;
use depguard_kcp::PathKey;
use serde_json::{Map, Value, json};

use crate::model::names::RULES_CONFIGURATION;

/// Name of its webhook, the same as the reference's.
pub(crate) const WEBHOOK: &str = "dependency-controller.dependencies.opendefense.cloud";
/// Name of the webhook for rules with `failurePolicy: Ignore`.
pub(crate) const IGNORING_WEBHOOK: &str = "ignore.dependency-controller.dependencies.opendefense.cloud";

/// Name of the webhook for the canary.
pub(crate) const CANARY_WEBHOOK: &str = "canary.dependency-controller.dependencies.opendefense.cloud";

const MANAGED_BY: (&str, &str) = ("app.kubernetes.io/managed-by", "depguard");
/// Label that an API server puts on each namespace, and lets nobody change.
pub(crate) const NAMESPACE_LABEL: &str = "kubernetes.io/metadata.name";
/// Annotation with the revision of the version that wrote a configuration. Versions that make different configurations
/// of the same rules differ in it.
const REVISION_ANNOTATION: &str = "dependencies.opendefense.cloud/configuration-revision";
/// Revision of this version. Raise it with each change of the configuration that [`desired`] makes of the same kinds.
const REVISION: u32 = 5;
/// Maximum number of match conditions of kinds in a webhook: API servers allow 64, one is about deletions, and one may be
/// about Helm's releases.
pub(crate) const MAX_CONDITIONS: usize = 62;
/// Maximum length of a match condition's expression, in bytes.
pub(crate) const MAX_EXPRESSION: usize = 4096;

/// Kinds to protect at a place, by the failure policy of their rules. A kind may be in both.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Kinds {
    pub(crate) fail: ProtectedKinds,
    pub(crate) ignore: ProtectedKinds,
}

/// Kinds to protect, each with the names that all of its rules exclude.
pub(crate) type ProtectedKinds = BTreeMap<GroupResource, BTreeSet<ObjectName>>;

/// Client configurations by which API servers reach the webhook, for rules of either policy.
#[derive(Debug, Clone)]
pub(crate) struct ClientConfigs {
    pub(crate) fail: Value,
    pub(crate) ignore: Value,
    /// depguard's own namespace, in plain Kubernetes. Nothing in it is protected: without a running webhook, the
    /// namespace could otherwise be neither repaired nor deleted.
    pub(crate) own_namespace: Option<String>,
}

/// Next step for the configuration of a place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Step {
    /// Do nothing: the configuration is as it should be, or is rightly absent.
    Nothing,
    /// Create the missing configuration.
    Create,
    /// Apply: the configuration is ours and differs.
    Apply,
    /// Delete: the configuration is ours and nothing is left to protect.
    Delete,
    /// Leave somebody else's configuration as it is.
    LeaveForeign,
    /// Leave the configuration to a newer version of depguard, which wrote it, for a while. `in_force` is true if it
    /// has everything reviewed meanwhile.
    Defer { in_force: bool },
}

/// Chooses the next step from the existing and the desired configuration.
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

/// Returns the configuration that protects these kinds: one webhook a policy, with one sorted entry a kind, in every
/// version and scope; in plain Kubernetes also a webhook for the canary.
///
/// Every field that would weaken the configuration with another value is written out, so that an apply restores it.
pub(crate) fn desired(kinds: &Kinds, clients: &ClientConfigs) -> Value {
    let own_namespace = clients.own_namespace.as_deref();
    let webhooks =
        [(WEBHOOK, "Fail", &kinds.fail, &clients.fail), (IGNORING_WEBHOOK, "Ignore", &kinds.ignore, &clients.ignore)];
    let webhooks = webhooks.into_iter().filter(|(_, _, targets, _)| !targets.is_empty());
    let webhooks = webhooks.map(|(name, policy, targets, client)| {
        let rules: Vec<_> = targets.keys().flat_map(|kind| entries(kind, own_namespace.is_some())).collect();
        let webhook = exempting(webhook(name, policy, &rules, client), targets.keys(), own_namespace, "oldObject");
        // Nobody has tried match conditions in a kcp.
        let excluded = own_namespace.map(|_| targets.iter().filter_map(|(kind, names)| excluding(kind, names)));
        with(webhook, excluded.into_iter().flatten().take(MAX_CONDITIONS))
    });
    let canary = own_namespace.map(|namespace| canary_webhook(namespace, &clients.ignore));
    of_webhooks(RULES_CONFIGURATION, &webhooks.chain(canary).collect::<Vec<_>>())
}

/// Returns a configuration of this name with our label and our revision.
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

/// Returns the policy of a configuration's webhook; `None` if the webhook is the canary's.
pub(crate) fn policy_of(webhook: &Value) -> Option<FailurePolicy> {
    let is_canary = webhook.get("name").and_then(Value::as_str) == Some(CANARY_WEBHOOK);
    match webhook.get("failurePolicy").and_then(Value::as_str) {
        Some("Fail") if !is_canary => Some(FailurePolicy::Fail),
        Some("Ignore") if !is_canary => Some(FailurePolicy::Ignore),
        _ => None,
    }
}

/// Returns a webhook with every field that would weaken it if it had another value.
pub(crate) fn webhook(name: &str, policy: &str, rules: &[Value], client_config: &Value) -> Value {
    json!({
        "name": name,
        "clientConfig": client_config,
        "rules": rules,
        "failurePolicy": policy,
        "matchPolicy": "Equivalent",
        "namespaceSelector": {},
        "objectSelector": {},
        "sideEffects": "NoneOnDryRun",
        "timeoutSeconds": 10,
        "admissionReviewVersions": ["v1"],
    })
}

/// Returns the webhook with other values of these fields.
pub(crate) fn changed<const N: usize>(mut webhook: Value, fields: [(&str, Value); N]) -> Value {
    if let Some(webhook) = webhook.as_object_mut() {
        webhook.extend(fields.map(|(field, value)| (field.to_owned(), value)));
    }
    webhook
}

/// Rules that have the deletions of a kind reviewed. An eviction deletes a Pod too, and is no DELETE; a kcp serves none.
fn entries(kind: &GroupResource, in_kubernetes: bool) -> impl Iterator<Item = Value> {
    let (group, resource) = (kind.group.as_str(), kind.resource.as_str());
    let evicts = in_kubernetes && kind.group.is_core() && resource == "pods";
    let deletions = entry(&["DELETE"], group, "*", resource, "*");
    [deletions].into_iter().chain(evicts.then(|| entry(&["CREATE"], group, "*", "pods/eviction", "*")))
}

/// Returns a rule of a webhook.
pub(crate) fn entry(operations: &[&str], group: &str, version: &str, resource: &str, scope: &str) -> Value {
    json!({
        "operations": operations,
        "apiGroups": [group],
        "apiVersions": [version],
        "resources": [resource],
        "scope": scope,
    })
}

/// Returns true if API servers call by this configuration at paths of this generation of registers, wherever one
/// belongs.
pub(crate) fn names_generation(configuration: &Value, generation: Option<Generation>) -> bool {
    let webhooks = configuration.get("webhooks").and_then(Value::as_array).into_iter().flatten();
    let mut of_fail = webhooks.filter(|webhook| policy_of(webhook) == Some(FailurePolicy::Fail));
    of_fail.all(|webhook| {
        let path =
            ["/clientConfig/url", "/clientConfig/service/path"].iter().find_map(|at| webhook.pointer(at)?.as_str());
        path.unwrap_or_default().split('/').find_map(Generation::from_segment) == generation
    })
}

/// Returns the webhook without the objects that it must never hold up: those in depguard's own namespace, and the
/// Secrets in which Helm keeps its releases. These have a type of their own, which nobody can change once a Secret
/// exists. `state` is the state of an object that each review holds: `oldObject` of a deletion, `object` of a change.
pub(crate) fn exempting<'k>(
    mut webhook: Value,
    kinds: impl IntoIterator<Item = &'k GroupResource>,
    own_namespace: Option<&str>,
    state: &str,
) -> Value {
    let (Some(namespace), Some(fields)) = (own_namespace, webhook.as_object_mut()) else { return webhook };
    fields.insert("namespaceSelector".to_owned(), json!({"matchExpressions": [not_in(namespace)]}));
    if kinds.into_iter().any(|kind| kind.group.is_core() && kind.resource.as_str() == "secrets") {
        let expression = format!(
            "request.resource.group != '' || request.resource.resource != 'secrets' || \
             !has({state}.type) || {state}.type != 'helm.sh/release.v1'"
        );
        let condition = json!({"name": "not-a-helm-release", "expression": expression});
        fields.insert("matchConditions".to_owned(), json!([condition]));
    }
    webhook
}

/// Returns the webhook with further match conditions.
pub(crate) fn with(mut webhook: Value, conditions: impl IntoIterator<Item = Value>) -> Value {
    let mut conditions = conditions.into_iter().peekable();
    if let (Some(fields), Some(_)) = (webhook.as_object_mut(), conditions.peek()) {
        let all = fields.entry("matchConditions").or_insert_with(|| json!([]));
        all.as_array_mut().into_iter().for_each(|all| all.extend(conditions.by_ref()));
    }
    webhook
}

/// Returns a match condition about a kind; `None` if it would be too long, so that API servers ask about each request. The
/// expression is true for each other kind. `holds` must never fail: API servers refuse a request for which an expression
/// fails, or don't ask about it if failures are to be ignored.
pub(crate) fn condition(kind: &GroupResource, holds: &str) -> Option<Value> {
    let GroupResource { group, resource } = kind;
    let expression =
        format!("request.resource.group != '{group}' || request.resource.resource != '{resource}' || {holds}");
    let name = if group.is_core() { resource.to_string() } else { format!("{group}/{resource}") };
    (expression.len() <= MAX_EXPRESSION).then(|| json!({"name": name, "expression": expression}))
}

/// Returns the match condition that is false for deletions of these objects of a kind, so that these go while no webhook
/// answers; `None` if there are none. The request has no name where a collection is deleted, as it is with its namespace;
/// the object has one.
fn excluding(kind: &GroupResource, names: &BTreeSet<ObjectName>) -> Option<Value> {
    let names: Vec<_> = names.iter().map(|name| format!("'{name}'")).collect();
    let holds = format!(
        "oldObject == null || !has(oldObject.metadata.name) || !(oldObject.metadata.name in [{}])",
        names.join(", ")
    );
    if names.is_empty() { None } else { condition(kind, &holds) }
}

/// Returns the selector expression for every namespace but this one.
pub(crate) fn not_in(namespace: &str) -> Value {
    json!({"key": NAMESPACE_LABEL, "operator": "NotIn", "values": [namespace]})
}

/// Returns the webhook for the dry-run deletion of one labelled ConfigMap in depguard's own namespace. It holds nothing
/// up if no answer comes.
fn canary_webhook(namespace: &str, client_config: &Value) -> Value {
    let mut webhook =
        webhook(CANARY_WEBHOOK, "Ignore", &[entry(&["DELETE"], "", "*", "configmaps", "Namespaced")], client_config);
    if let Some(fields) = webhook.as_object_mut() {
        fields.insert("namespaceSelector".to_owned(), json!({"matchLabels": {NAMESPACE_LABEL: namespace}}));
        fields.insert("objectSelector".to_owned(), json!({"matchLabels": {dispatch_canary::LABEL: "true"}}));
    }
    webhook
}

/// Returns the namespace that was depguard's own for the writer of the configuration, in plain Kubernetes.
pub(crate) fn own_namespace(existing: &Value) -> Option<&str> {
    let mut webhooks = existing.get("webhooks").and_then(Value::as_array)?.iter();
    let canary = webhooks.find(|webhook| webhook.get("name").and_then(Value::as_str) == Some(CANARY_WEBHOOK))?;
    canary.get("namespaceSelector")?.get("matchLabels")?.get(NAMESPACE_LABEL)?.as_str()
}

/// Returns true if `existing` does what `desired` says, no more and no less. A field that is neither set here nor a
/// default of the API server counts as a difference: it may weaken the configuration.
pub(crate) fn is_installed(existing: &Value, desired: &Value) -> bool {
    has_label(existing) && revision(existing) == REVISION && webhooks(existing) == webhooks(desired)
}

/// Returns true if the desired configuration is installed, or if a newer version of depguard wrote one that does the
/// same. The signatures of paths with registers may differ: a webhook takes the former one for another period.
pub(crate) fn is_in_force(existing: &Value, desired: &Value) -> bool {
    let (existing, desired) = (&without_signatures(existing), &without_signatures(desired));
    is_installed(existing, desired) || (is_newer(existing) && covers(existing, desired))
}

/// Returns a configuration without the signatures of paths with registers, which are renewed.
pub(crate) fn without_signatures(configuration: &Value) -> Value {
    let mut configuration = configuration.clone();
    let webhooks = configuration.get_mut("webhooks").and_then(Value::as_array_mut);
    for client in webhooks.into_iter().flatten().filter_map(|webhook| webhook.get_mut("clientConfig")) {
        for at in ["/url", "/service/path"] {
            if let Some(Value::String(path)) = client.pointer_mut(at)
                && let Some((before, mac)) = path.rsplit_once('/')
                && before.split('/').any(|segment| Generation::from_segment(segment).is_some())
                && mac.len() == PathKey::MAC_LEN
            {
                path.truncate(before.len());
            }
        }
    }
    configuration
}

/// Returns true if a newer version of depguard wrote the configuration.
fn is_newer(existing: &Value) -> bool {
    has_label(existing) && revision(existing) > REVISION
}

/// Returns true if `existing` has everything reviewed that `desired` has, in the same way. `existing` may have more
/// webhooks, and more rules in each, and nothing else may differ. Any other field, also an unknown one, may narrow the
/// reviews, and everybody who may write the configuration may write a newer version's revision. The canary's webhook is
/// not compared.
fn covers(existing: &Value, desired: &Value) -> bool {
    let existing = webhooks(existing);
    let named = |name: &Value| existing.iter().find(|webhook| webhook.get("name") == Some(name));
    let is_canary = |webhook: &&Value| webhook.get("name").and_then(Value::as_str) == Some(CANARY_WEBHOOK);
    webhooks(desired).iter().filter(|webhook| !is_canary(webhook)).all(|webhook| {
        let Some(found) = webhook.get("name").and_then(named) else { return false };
        let ((found, reviewed), (webhook, needed)) = (without_rules(found), without_rules(webhook));
        found == webhook && needed.iter().all(|rule| reviewed.contains(rule))
    })
}

/// Splits a webhook into its other fields and its rules.
fn without_rules(webhook: &Value) -> (Value, Vec<Value>) {
    let mut webhook = webhook.clone();
    let rules = webhook.as_object_mut().and_then(|fields| fields.remove("rules"));
    let Some(Value::Array(rules)) = rules else { return (webhook, Vec::new()) };
    (webhook, rules)
}

/// Returns the revision of a configuration; 0 if its writer knows no revisions, as the reference.
fn revision(configuration: &Value) -> u32 {
    let annotations = configuration.pointer("/metadata/annotations");
    let revision = annotations.and_then(|annotations| annotations.get(REVISION_ANNOTATION)).and_then(Value::as_str);
    revision.and_then(|revision| revision.parse().ok()).unwrap_or_default()
}

/// Returns the whole of `existing`, made as desired, for a PUT with its own `resourceVersion`. This also removes what
/// an apply can't remove, such as another manager's entry in a list. Labels and annotations of others stay.
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
    /// Adds a target of a rule, and the names that the dependency excludes.
    pub(crate) fn insert(&mut self, policy: FailurePolicy, kind: GroupResource, excluded: &[ObjectName]) {
        let kinds = match policy {
            FailurePolicy::Fail => &mut self.fail,
            FailurePolicy::Ignore => &mut self.ignore,
        };
        let all = kinds.entry(kind).or_insert_with(|| excluded.iter().cloned().collect());
        all.retain(|name| excluded.contains(name));
    }
}

/// Returns true if a configuration is ours: it has our label, or it holds the reference's one webhook and no other, and
/// is taken over.
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

/// Returns the webhooks with the API server's defaults filled in, so that webhooks that do the same are equal.
pub(crate) fn webhooks(configuration: &Value) -> Vec<Value> {
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

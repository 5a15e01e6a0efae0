//! The webhook configuration that has the references of dependents reviewed when they are made: creations and updates of
//! the dependents' kinds.
//!
//! The paths of a rule hold for one version of its dependents. So there is a webhook for each version, to which API
//! servers convert requests of other versions. Match conditions keep updates away from the webhook that change nothing
//! that a rule reads.

use std::collections::{BTreeMap, BTreeSet};

use depguard_core::api::{FailurePolicy, OnMissing};
use depguard_core::model::{GroupResource, Resource, Version};
use depguard_core::protocol::Subresource;
use depguard_core::rule::PartialRule;
use depguard_core::{FieldPath, Group, Rule};
use serde_json::{Value, json};

use crate::model::input_fields::InputFields;
use crate::model::names::REFERENCES_CONFIGURATION;
use crate::model::webhook_configuration::{
    self, ClientConfigs, MAX_CONDITIONS, MAX_EXPRESSION, entry, exempting, with,
};

/// Path at which the webhook reviews references, beside that for rules.
pub(crate) const PATH: &str = "/reference";
/// This path for rules with `failurePolicy: Ignore`.
pub(crate) const IGNORE_PATH: &str = "/reference/ignore";

/// Name of the webhook for rules that can't be used. That of a version has the version before it.
const WEBHOOK: &str = "dependency-references.dependencies.opendefense.cloud";
/// The same for rules with `failurePolicy: Ignore`.
const IGNORING_WEBHOOK: &str = "ignore.dependency-references.dependencies.opendefense.cloud";

/// Places in CEL of the fields that a Binding changes in a Pod.
const ANNOTATIONS: &str = r#"[?"metadata"][?"annotations"]"#;
const LABELS: &str = r#"[?"metadata"][?"labels"]"#;
const NODE_NAME: &str = r#"[?"spec"][?"nodeName"]"#;

/// Part of a rule that says which requests about its dependents are to be reviewed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct CheckedReferences {
    kind: GroupResource,
    /// Version of the dependents in which they are reviewed; `None` for a rule that can't be used: each version.
    version: Option<Version>,
    /// Fields that the rule reads; `None` if they are unknown.
    inputs: Option<InputFields>,
    /// Subresources that can change an input.
    subresources: BTreeSet<&'static str>,
    /// Strictest outcome for a reference to a missing target.
    on_missing: OnMissing,
}

/// Kinds to review at a place, by the failure policy and the version of their rules.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct ReferringKinds(BTreeMap<(FailurePolicy, Option<Version>), BTreeMap<GroupResource, ReviewedFields>>);

/// Fields of a kind that rules read.
#[derive(Debug, Clone, PartialEq, Eq)]
struct ReviewedFields {
    /// The fields; `None` if they are unknown.
    inputs: Option<InputFields>,
    /// Subresources that can change one of them.
    subresources: BTreeSet<&'static str>,
}

impl CheckedReferences {
    /// Returns the references that a rule has checked; `None` if it looks for no target.
    pub(crate) fn from_rule(rule: &Rule) -> Option<Self> {
        let mut edges = rule.edges().iter().filter(|edge| edge.on_missing != OnMissing::Ignore).peekable();
        edges.peek()?;
        let on_missing = rule.edges().iter().map(|edge| edge.on_missing).max().unwrap_or_default();
        let dependent = rule.dependent();
        let kind = dependent.gvr.group_resource();
        // An object that goes with its owner may refer to the owner while that is being deleted, as long as it names the
        // owner.
        let paths: Vec<_> = edges.flat_map(|edge| edge.inputs(dependent)).chain([FieldPath::owners()]).collect();
        let subresources = Subresource::from_kind(&kind).filter(|below| paths.iter().any(|path| below.changes(path)));
        Some(Self {
            subresources: subresources.map(|below| below.name).collect(),
            kind,
            version: Some(dependent.gvr.version.clone()),
            inputs: Some(paths.iter().map(InputFields::from_path).fold(InputFields::none(), InputFields::and)),
            on_missing,
        })
    }

    /// Returns the references of a rule that can't be used, as far as it can be read.
    pub(crate) fn from_partial(rule: &PartialRule) -> Option<Self> {
        let PartialRule { dependent, on_missing, .. } = rule;
        let checked = || Self {
            kind: dependent.clone(),
            version: None,
            inputs: None,
            // Nobody knows the inputs of such a rule, and subresources go on being written.
            subresources: BTreeSet::new(),
            on_missing: *on_missing,
        };
        (*on_missing != OnMissing::Ignore).then(checked)
    }

    /// Returns the kind of the dependents.
    pub(crate) fn kind(&self) -> &GroupResource {
        &self.kind
    }

    /// Returns the strictest outcome for a reference to a missing target.
    pub(crate) fn on_missing(&self) -> OnMissing {
        self.on_missing
    }

    /// Returns true if a Pod can be bound to a node without a review while no webhook answers, although the rule reads
    /// what the binding changes.
    pub(crate) fn tolerate_bindings(&self) -> bool {
        let reads = |inputs: &InputFields| !(inputs.within(NODE_NAME).is_empty() && inputs.within(LABELS).is_empty());
        self.subresources.contains(Subresource::BINDING) && self.inputs.as_ref().is_some_and(reads)
    }
}

impl ReferringKinds {
    pub(crate) fn insert(&mut self, policy: FailurePolicy, references: &CheckedReferences) {
        let CheckedReferences { kind, version, inputs, subresources, on_missing: _ } = references;
        let kinds = self.0.entry((policy, version.clone())).or_default();
        let none = || ReviewedFields { inputs: Some(InputFields::none()), subresources: BTreeSet::new() };
        let known = kinds.entry(kind.clone()).or_insert_with(none);
        known.inputs = known.inputs.take().zip(inputs.clone()).map(|(known, inputs)| known.and(inputs));
        known.subresources.extend(subresources);
    }
}

/// Returns the configuration that has the references of these kinds reviewed.
pub(crate) fn desired(kinds: &ReferringKinds, clients: &ClientConfigs) -> Value {
    let webhooks = kinds.0.iter().flat_map(|((policy, version), kinds)| {
        let (name, policy, client) = match policy {
            FailurePolicy::Fail => (WEBHOOK, "Fail", &clients.fail),
            FailurePolicy::Ignore => (IGNORING_WEBHOOK, "Ignore", &clients.ignore),
        };
        let name = version.as_ref().map_or_else(|| name.to_owned(), |version| format!("{version}.{name}"));
        let rules = kinds.iter().flat_map(|(kind, fields)| entries(kind, version.as_ref(), fields));
        let webhook = webhook_configuration::webhook(&name, policy, &rules.collect::<Vec<_>>(), client);
        let webhook = exempting(webhook, kinds.keys(), clients.own_namespace.as_deref(), "object");
        let of_bindings = of_bindings(kinds).map(|(prefix, is_tolerated, condition)| {
            let policy = if is_tolerated { "Ignore" } else { policy };
            let rules = ["pods/binding", "bindings"].map(|resource| entry(&["CREATE"], "", "v1", resource, "*"));
            let webhook = webhook_configuration::webhook(&format!("{prefix}.{name}"), policy, &rules, client);
            with(exempting(webhook, [], clients.own_namespace.as_deref(), "object"), condition)
        });
        [with_conditions(webhook, kinds)].into_iter().chain(of_bindings).collect::<Vec<_>>()
    });
    webhook_configuration::of_webhooks(REFERENCES_CONFIGURATION, &webhooks.collect::<Vec<_>>())
}

/// Returns a webhook of an installed configuration with the values that [`desired`] gives it for the same rules, as far as
/// the webhook itself tells: the address, the kinds and the fields that the rules read stay.
pub(crate) fn restored(webhook: &Value, own_namespace: Option<&str>) -> Option<Value> {
    let list = |of: &Value, field: &str| of.get(field).and_then(Value::as_array).cloned().unwrap_or_default();
    let name = webhook.get("name")?.as_str()?;
    let (is_of_bindings, is_tolerated) =
        (name.contains("bindings.") || name.contains("annotations."), name.starts_with("bindings."));
    let policy = if is_tolerated || name.ends_with(IGNORING_WEBHOOK) { "Ignore" } else { "Fail" };
    let mut kinds = BTreeSet::new();
    let rules = list(webhook, "rules").into_iter().map(|mut rule| {
        let resource = rule.pointer("/resources/0").and_then(Value::as_str).unwrap_or_default().to_owned();
        let operations: &[&str] = match (is_of_bindings, resource.contains('/')) {
            (true, _) => &["CREATE"],
            (false, true) => &["UPDATE"],
            (false, false) => &["CREATE", "UPDATE"],
        };
        let group = rule.pointer("/apiGroups/0").and_then(Value::as_str).and_then(|group| Group::parse(group).ok());
        kinds.extend(
            group.zip(Resource::parse(&resource).ok()).map(|(group, resource)| GroupResource { group, resource }),
        );
        if let Some(fields) = rule.as_object_mut() {
            fields.insert("operations".to_owned(), json!(operations));
            fields.insert("scope".to_owned(), json!("*"));
        }
        rule
    });
    let restored =
        webhook_configuration::webhook(name, policy, &rules.collect::<Vec<_>>(), webhook.get("clientConfig")?);
    let exempted = kinds.iter().filter(|_| !is_of_bindings);
    let restored = exempting(restored, exempted, own_namespace, "object");
    let is_ours = |condition: &Value| {
        let text = |field: &str| condition.get(field).and_then(Value::as_str).unwrap_or_default();
        match text("name") {
            "binding" => text("expression").starts_with("object["),
            "not-being-deleted" => text("expression") == not_being_deleted(),
            _ => text("expression").starts_with("request.resource.group != '"),
        }
    };
    let exemptions = list(&restored, "matchConditions");
    let others = list(webhook, "matchConditions").into_iter().filter(|it| is_ours(it) && !exemptions.contains(it));
    Some(with(restored, others))
}

/// Returns the rules of a webhook about a kind: creations and updates, also those of subresources that can change an
/// input, except the bindings of Pods.
fn entries(kind: &GroupResource, version: Option<&Version>, fields: &ReviewedFields) -> Vec<Value> {
    let (group, resource) = (kind.group.as_str(), kind.resource.as_str());
    let version = version.map_or("*", Version::as_str);
    let below = fields.subresources.iter().filter(|below| **below != Subresource::BINDING);
    let below = below.map(|below| entry(&["UPDATE"], group, version, &format!("{resource}/{below}"), "*"));
    [entry(&["CREATE", "UPDATE"], group, version, resource, "*")].into_iter().chain(below).collect()
}

/// Returns the webhooks for bindings of Pods to nodes, if rules read what a binding changes: for each the prefix of its
/// name, true if bindings pass while the webhook doesn't answer, and its match condition.
///
/// Each binding has the name of a node, and API servers add labels to it. No webhook may stop the scheduler. The
/// scheduler writes no annotations.
fn of_bindings(kinds: &BTreeMap<GroupResource, ReviewedFields>) -> impl Iterator<Item = (&str, bool, Option<Value>)> {
    let pods = kinds.iter().find(|(kind, fields)| is_pods(kind) && fields.subresources.contains(Subresource::BINDING));
    let within = |place| pods.and_then(|(_, fields)| fields.inputs.as_ref()).map(|inputs| inputs.within(place));
    let [annotations, labels, node] = [ANNOTATIONS, LABELS, NODE_NAME].map(|place| within(place).unwrap_or_default());
    let present = |places: &BTreeSet<String>, all: &str| {
        let any: Vec<_> = places.iter().map(|place| format!("object{place}.hasValue()")).collect();
        let any = any.join(" || ");
        let expression = if any.len() <= MAX_EXPRESSION { any } else { format!("object{all}.hasValue()") };
        json!({"name": "binding", "expression": expression})
    };
    let annotated = (!annotations.is_empty()).then(|| ("annotations", false, Some(present(&annotations, ANNOTATIONS))));
    let scheduled = match (node.is_empty(), labels.is_empty()) {
        (false, _) => Some(("bindings", true, None)),
        (true, false) => Some(("bindings", true, Some(present(&labels, LABELS)))),
        (true, true) => None,
    };
    annotated.into_iter().chain(scheduled)
}

fn is_pods(kind: &GroupResource) -> bool {
    kind.group.is_core() && kind.resource.as_str() == "pods"
}

/// Returns the webhook with a match condition that is false for updates of what is being deleted, and one for each kind,
/// which is true for creations and for updates that change an input. Where an expression would be too long, or there are
/// too many, API servers ask about each update.
fn with_conditions(webhook: Value, kinds: &BTreeMap<GroupResource, ReviewedFields>) -> Value {
    let deleted = json!({"name": "not-being-deleted", "expression": not_being_deleted()});
    let conditions = kinds.iter().filter_map(|(kind, fields)| condition(kind, fields.inputs.as_ref()?));
    with(webhook, [deleted].into_iter().chain(conditions.take(MAX_CONDITIONS)))
}

fn not_being_deleted() -> String {
    let deleted = r#"object[?"metadata"][?"deletionTimestamp"].orValue(null) == null"#;
    format!("request.operation != 'UPDATE' || {deleted}")
}

/// Returns the match condition of a kind; `None` if it would be too long.
fn condition(kind: &GroupResource, inputs: &InputFields) -> Option<Value> {
    webhook_configuration::condition(kind, &format!("request.operation != 'UPDATE' || {}", inputs.difference()))
}

#[cfg(test)]
mod tests;

//! The webhook configuration that has the references of dependents reviewed when they are made: creations and updates of
//! the dependents' kinds.
//!
//! The paths of a rule hold for one version of its dependents. So there is a webhook for each version, to which API
//! servers convert requests of other versions. Match conditions keep updates away from the webhook that change nothing
//! that a rule reads.

use std::collections::BTreeMap;

use depguard_core::Rule;
use depguard_core::api::{FailurePolicy, OnMissing};
use depguard_core::model::{GroupResource, Version};
use depguard_core::rule::PartialRule;
use serde_json::{Value, json};

use crate::model::input_fields::InputFields;
use crate::model::names::REFERENCES_CONFIGURATION;
use crate::model::webhook_configuration::{self, ClientConfigs, entry, exempting};

/// Path at which the webhook reviews references, beside that for rules.
pub(crate) const PATH: &str = "/reference";
/// This path for rules with `failurePolicy: Ignore`.
pub(crate) const IGNORE_PATH: &str = "/reference/ignore";

/// Name of the webhook for rules that can't be used. That of a version has the version before it.
const WEBHOOK: &str = "dependency-references.dependencies.opendefense.cloud";
/// The same for rules with `failurePolicy: Ignore`.
const IGNORING_WEBHOOK: &str = "ignore.dependency-references.dependencies.opendefense.cloud";
/// Maximum number of match conditions of kinds in a webhook: API servers allow 64, and one may be for Helm's releases.
const MAX_CONDITIONS: usize = 63;
/// Maximum length of a match condition's expression, in bytes.
const MAX_EXPRESSION: usize = 4096;

/// Part of a rule that says which requests about its dependents are to be reviewed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct CheckedReferences {
    kind: GroupResource,
    /// Version of the dependents in which they are reviewed; `None` for a rule that can't be used: each version.
    version: Option<Version>,
    /// Fields that the rule reads; `None` if they are unknown.
    inputs: Option<InputFields>,
    /// Strictest outcome for a reference to a missing target.
    on_missing: OnMissing,
}

/// Kinds to review at a place, by the failure policy and the version of their rules, each with the fields that the rules
/// read.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct ReferringKinds(
    BTreeMap<(FailurePolicy, Option<Version>), BTreeMap<GroupResource, Option<InputFields>>>,
);

impl CheckedReferences {
    /// Returns the references that a rule has checked; `None` if it looks for no target.
    pub(crate) fn from_rule(rule: &Rule) -> Option<Self> {
        let mut edges = rule.edges().iter().filter(|edge| edge.on_missing != OnMissing::Ignore).peekable();
        edges.peek()?;
        let on_missing = rule.edges().iter().map(|edge| edge.on_missing).max().unwrap_or_default();
        let dependent = rule.dependent();
        let inputs = edges.flat_map(|edge| edge.inputs(dependent)).map(|path| InputFields::from_path(&path));
        Some(Self {
            kind: dependent.gvr.group_resource(),
            version: Some(dependent.gvr.version.clone()),
            inputs: Some(inputs.fold(InputFields::none(), InputFields::and)),
            on_missing,
        })
    }

    /// Returns the references of a rule that can't be used, as far as it can be read.
    pub(crate) fn from_partial(rule: &PartialRule) -> Option<Self> {
        let PartialRule { dependent, on_missing, .. } = rule;
        let checked = || Self { kind: dependent.clone(), version: None, inputs: None, on_missing: *on_missing };
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
}

impl ReferringKinds {
    pub(crate) fn insert(&mut self, policy: FailurePolicy, references: &CheckedReferences) {
        let CheckedReferences { kind, version, inputs, on_missing: _ } = references;
        let kinds = self.0.entry((policy, version.clone())).or_default();
        let known = kinds.entry(kind.clone()).or_insert_with(|| Some(InputFields::none()));
        *known = known.take().zip(inputs.clone()).map(|(known, inputs)| known.and(inputs));
    }
}

/// Returns the configuration that has the references of these kinds reviewed.
pub(crate) fn desired(kinds: &ReferringKinds, clients: &ClientConfigs) -> Value {
    let webhooks = kinds.0.iter().map(|((policy, version), kinds)| {
        let (name, policy, client) = match policy {
            FailurePolicy::Fail => (WEBHOOK, "Fail", &clients.fail),
            FailurePolicy::Ignore => (IGNORING_WEBHOOK, "Ignore", &clients.ignore),
        };
        let name = version.as_ref().map_or_else(|| name.to_owned(), |version| format!("{version}.{name}"));
        let rules = kinds.iter().flat_map(|(kind, inputs)| entries(kind, version.as_ref(), inputs.as_ref()));
        let webhook = webhook_configuration::webhook(&name, policy, &rules.collect::<Vec<_>>(), client);
        let webhook = exempting(webhook, kinds.keys(), clients.own_namespace.as_deref(), "object");
        with_conditions(webhook, kinds)
    });
    webhook_configuration::of_webhooks(REFERENCES_CONFIGURATION, &webhooks.collect::<Vec<_>>())
}

/// Returns the rules of a webhook about a kind: creations and updates, also those of subresources that can change an
/// input. Nobody knows the inputs of a rule that can't be used, and subresources go on being written.
fn entries(kind: &GroupResource, version: Option<&Version>, inputs: Option<&InputFields>) -> Vec<Value> {
    let (group, resource) = (kind.group.as_str(), kind.resource.as_str());
    let version = version.map_or("*", Version::as_str);
    let reach = |field: &str| inputs.is_some_and(|inputs| inputs.reach(field));
    let by_status = reach("status") || (is_built_in(kind) && reach("metadata"));
    let by_containers = kind.group.is_core() && resource == "pods" && reach("spec");
    let below = [(by_status, "status"), (by_containers, "ephemeralcontainers")];
    let below = below.into_iter().filter(|(is_reviewed, _)| *is_reviewed);
    let below = below.map(|(_, below)| entry(&["UPDATE"], group, version, &format!("{resource}/{below}"), "*"));
    [entry(&["CREATE", "UPDATE"], group, version, resource, "*")].into_iter().chain(below).collect()
}

/// Returns true if the kind may be one of Kubernetes' own: an update of its status may change labels and annotations,
/// too. That of another kind can't.
fn is_built_in(kind: &GroupResource) -> bool {
    let group = kind.group.as_str();
    !group.contains('.') || group.ends_with(".k8s.io")
}

/// Returns the webhook with a match condition for each kind. It is true for creations, and for updates that change an
/// input; nothing is asked about an object that is being deleted. Where an expression would be too long, or there are too
/// many, API servers ask about each update.
fn with_conditions(mut webhook: Value, kinds: &BTreeMap<GroupResource, Option<InputFields>>) -> Value {
    let conditions = kinds.iter().filter_map(|(kind, inputs)| condition(kind, inputs.as_ref()?));
    let conditions: Vec<_> = conditions.take(MAX_CONDITIONS).collect();
    if let (Some(fields), false) = (webhook.as_object_mut(), conditions.is_empty()) {
        let all = fields.entry("matchConditions").or_insert_with(|| json!([]));
        all.as_array_mut().into_iter().for_each(|all| all.extend(conditions.iter().cloned()));
    }
    webhook
}

/// Returns the match condition of a kind; `None` if it would be too long. The expression is true for each other kind,
/// and it never fails: API servers refuse a request for which an expression fails.
fn condition(kind: &GroupResource, inputs: &InputFields) -> Option<Value> {
    let GroupResource { group, resource } = kind;
    let expression = format!(
        "request.resource.group != '{group}' || request.resource.resource != '{resource}' || \
         request.operation != 'UPDATE' || \
         (object[?\"metadata\"][?\"deletionTimestamp\"].orValue(null) == null && ({}))",
        inputs.difference()
    );
    let name = if group.is_core() { resource.to_string() } else { format!("{group}/{resource}") };
    (expression.len() <= MAX_EXPRESSION).then(|| json!({"name": name, "expression": expression}))
}

#[cfg(test)]
mod tests;

//! Rules, and the webhook configurations that are installed for them.

use std::collections::{BTreeMap, BTreeSet};

use depguard_core::locks::LockKind;
use depguard_core::{ControlPlane, api};
use depguard_kcp::{ApiError, Endpoint};
use k8s_openapi::jiff::Timestamp;
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;

use super::{StatusReadFailure, parts, unread};
use crate::cluster::api_server::{ApiServer, next_step};
use crate::cluster::kinds::resource_name;
use crate::cluster::resource_path::text;
use crate::cluster::rules::CheckedRules;
use crate::io::age::since;
use crate::io::exit::Failure;
use crate::io::output::some_of;
use crate::io::table::Table;
use crate::io::terminal::Tone;

/// Conditions, in the order in which they become true.
const CONDITIONS: [&str; 4] = ["Accepted", "ResolvedRefs", "Programmed", "Enforced"];
/// Condition of the rules whose references are interlocked with deletions.
const INTERLOCKED: &str = "Interlocked";
/// Reason while all parts of the interlock are in order, but have not been for long enough.
const WAITING: &str = "Waiting";
/// Reason of a rule about kinds that are not installed.
const DORMANT: &str = "Dormant";
/// Reasons for which a rule's references can't be interlocked, whatever the installation does: the rule's author knows.
const NEVER: [&str; 7] =
    ["FailurePolicyIgnore", "DeletionAllowed", "NoSingleTarget", "Cycle", "Pods", "OwnedDependents", "Status"];
/// Conditions that only some rules have, each with its column.
const OF_SOME: [(&str, &str); 2] = [("TargetsExist", "TARGETS EXIST"), (INTERLOCKED, "INTERLOCKED")];
const SLICES: &str = "/apis/apis.kcp.io/v1alpha1/apiexportendpointslices";
const BINDINGS: &str = "/apis/apis.kcp.io/v1alpha2/apibindings";
pub(crate) const CONFIGURATIONS: &str = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations";
/// Configurations for rules: about deletions, and about references that are made.
const OF_RULES: [&str; 2] = ["dependency-controller", "dependency-references"];
/// Operations of configurations for rules.
const DELETE: &str = "DELETE";
const CREATE: &str = "CREATE";
/// Configurations of features beside rules.
const OTHERS: [&str; 5] =
    ["depguard-rules", "depguard-locks", "depguard-lock-kinds", "depguard-compat-locks", "depguard-owners"];

/// Rules and configurations that were found.
#[derive(Debug, Default)]
pub(crate) struct RuleInventory {
    pub(super) rules: Vec<RuleStatus>,
    /// The rules as they were read, if this is a cluster of its own; `None` if they could not be read.
    objects: Option<Vec<Value>>,
    pub(crate) configurations: Vec<Value>,
    /// True if all configurations that matter for the rules were read.
    all_configurations: bool,
    /// True if depguard is installed in another workspace of the kcp, and serves this one, too.
    pub(super) is_elsewhere: bool,
}

impl RuleInventory {
    /// Number of rules.
    pub(crate) fn count(&self) -> usize {
        self.rules.len()
    }
}

/// Status of a rule.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub(super) struct RuleStatus {
    /// Workspace of the rule, if it may differ from the kubeconfig's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) workspace: Option<String>,
    pub(super) name: String,
    /// True if the condition `Enforced` is true for the current version of the rule.
    pub(super) enforced: bool,
    #[serde(skip)]
    created: String,
    /// Requests that must be reviewed for the rule.
    #[serde(skip)]
    reviewed: Vec<ReviewedKind>,
    pub(super) conditions: Vec<Condition>,
}

/// Kind of which API servers must ask about some requests.
#[derive(Debug, Clone, PartialEq, Eq)]
struct ReviewedKind {
    /// Operation, as a webhook configuration names it.
    operation: &'static str,
    /// Failure policy of the rule, which its webhook has, too.
    failure_policy: String,
    group: String,
    resource: String,
}

/// Condition of a rule.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct Condition {
    #[serde(rename = "type")]
    pub(super) type_: String,
    pub(super) status: String,
    pub(super) reason: String,
    pub(super) message: String,
    pub(super) last_transition_time: String,
    /// True if the condition is about an earlier version of the rule.
    pub(super) outdated: bool,
}

/// Reads the rules and configurations. In depguard's own workspace, these are the ones of every workspace that has
/// bound depguard's export.
pub(crate) async fn read(live: &ApiServer, unread: &mut Vec<StatusReadFailure>) -> Result<RuleInventory, Failure> {
    let views = match live.control_plane() {
        ControlPlane::Kcp => views(live, unread).await?,
        ControlPlane::Kubernetes => Vec::new(),
    };
    if views.is_empty() {
        let mut found = here(&live.endpoint(), live.control_plane(), unread).await?;
        if live.control_plane() == ControlPlane::Kcp {
            bound(live, &mut found, unread).await?;
        }
        return Ok(found);
    }
    let objects = Some(Vec::new());
    let mut found = RuleInventory { all_configurations: true, is_elsewhere: true, objects, ..RuleInventory::default() };
    for view in views {
        let paths = match view.list_json(BINDINGS).await {
            Ok(list) => list.items.iter().filter_map(path_of).collect(),
            // Without paths, workspaces are shown by their logical clusters.
            Err(_) => BTreeMap::new(),
        };
        for object in view.list_json(&rules()).await.map_err(|why| rules_failure(&why))?.items {
            let cluster = cluster_of(&object);
            let workspace = paths.get(&cluster).cloned().unwrap_or(cluster);
            found.rules.push(RuleStatus { workspace: Some(workspace), ..RuleStatus::from_rule(&object) });
        }
        configurations(&view, unread, &mut found, true).await;
    }
    found.rules.sort_by(|a, b| (&a.workspace, &a.name).cmp(&(&b.workspace, &b.name)));
    Ok(found)
}

pub(super) fn table(rules: &[RuleStatus], now: Timestamp) -> Table {
    let of_many = rules.iter().any(|rule| rule.workspace.is_some());
    let of_conditions = ["ACCEPTED", "RESOLVED", "PROGRAMMED", "ENFORCED"];
    let has = |name: &str| rules.iter().any(|rule| rule.condition(name).is_some());
    let of_some: Vec<_> = OF_SOME.into_iter().filter(|(name, _)| has(name)).collect();
    let painted: Vec<_> = of_conditions.into_iter().chain(of_some.iter().map(|(_, heading)| *heading)).collect();
    let headings = ["RULE"].into_iter().chain(painted.iter().copied()).chain(["AGE"]);
    let mut table =
        Table::new(of_many.then_some("WORKSPACE").into_iter().chain(headings)).painted(&painted, tone_of_status);
    for rule in rules {
        let cells = CONDITIONS.map(|name| match rule.condition(name) {
            Some(condition) => condition.short(),
            None => "Unknown".to_owned(),
        });
        let of_some = of_some.iter().map(|(name, _)| rule.condition(name).map_or(String::new(), Condition::short));
        let age = since(&rule.created, now);
        let workspace = of_many.then(|| rule.workspace.clone().unwrap_or_default());
        table.push(workspace.into_iter().chain([rule.name.clone()]).chain(cells).chain(of_some).chain([age]));
    }
    table
}

/// Returns the tone of a condition's status, which its reason may follow.
fn tone_of_status(status: &str) -> Option<Tone> {
    match status.split([' ', ':']).next() {
        Some("False") if [WAITING, DORMANT].iter().any(|reason| status.ends_with(&format!("({reason})"))) => {
            Some(Tone::Warning)
        }
        Some("False") => Some(Tone::Bad),
        Some("Unknown") => Some(Tone::Warning),
        _ => None,
    }
}

/// Builds a table with one row for each condition, including its message.
pub(super) fn wide(rules: &[RuleStatus], now: Timestamp) -> Table {
    let of_many = rules.iter().any(|rule| rule.workspace.is_some());
    let headings = ["RULE", "CONDITION", "STATUS", "REASON", "AGE", "MESSAGE"];
    let mut table =
        Table::new(of_many.then_some("WORKSPACE").into_iter().chain(headings)).painted(&["STATUS"], tone_of_status);
    for rule in rules {
        let workspace = || of_many.then(|| rule.workspace.clone().unwrap_or_default());
        if rule.conditions.is_empty() {
            let cells = ["", "Unknown", "", "", "no controller has checked it yet"].map(str::to_owned);
            table.push(workspace().into_iter().chain([rule.name.clone()]).chain(cells));
        }
        for it in &rule.conditions {
            let age = since(&it.last_transition_time, now);
            let message = if it.outdated {
                format!("(about an earlier version of the rule) {}", it.message)
            } else {
                it.message.clone()
            };
            let cells = [rule.name.clone(), it.type_.clone(), it.status.clone(), it.reason.clone(), age, message];
            table.push(workspace().into_iter().chain(cells));
        }
    }
    table
}

/// Returns the virtual workspaces of depguard's export, if this is the workspace of the export.
async fn views(live: &ApiServer, unread_: &mut Vec<StatusReadFailure>) -> Result<Vec<Endpoint>, Failure> {
    let slices = match live.endpoint().list_json(SLICES).await {
        Ok(list) => list.items,
        Err(why) if why.is_not_found() => return Ok(Vec::new()),
        Err(why) if why.status() == Some(403) => {
            let right = "list apiexportendpointslices.apis.kcp.io";
            unread_.push(unread("the APIExportEndpointSlices of this workspace", right, &why));
            return Ok(Vec::new());
        }
        Err(why) => return Err(Failure::new(why)),
    };
    let ours = slices.iter().filter(|slice| text(slice, "/spec/export/name") == api::GROUP);
    let endpoints = ours.filter_map(|slice| slice.pointer("/status/endpoints")?.as_array());
    let mut views = Vec::new();
    for url in endpoints.flatten().map(|endpoint| text(endpoint, "/url")) {
        views.push(live.connection().at(url).map_err(Failure::new)?.join("/clusters/*"));
    }
    Ok(views)
}

/// Reads the rules and configurations of the cluster or workspace that the kubeconfig points to.
async fn here(
    endpoint: &Endpoint,
    control_plane: ControlPlane,
    unread: &mut Vec<StatusReadFailure>,
) -> Result<RuleInventory, Failure> {
    // In kcp, the configurations of a target's provider are in another workspace.
    let mut found =
        RuleInventory { all_configurations: control_plane == ControlPlane::Kubernetes, ..RuleInventory::default() };
    match endpoint.list_json(&rules()).await {
        Ok(list) => {
            found.rules = list.items.iter().map(RuleStatus::from_rule).collect();
            // The kind is served in each workspace that has bound depguard's export.
            found.is_elsewhere = control_plane == ControlPlane::Kcp;
            found.objects = Some(list.items);
        }
        Err(why) if why.is_not_found() => found.objects = Some(Vec::new()),
        // kcp answers 403 for a kind that is not bound.
        Err(why) if why.status() == Some(403) => {
            let unread_ = self::unread("the rules", "list dependencyrules.dependencies.opendefense.cloud", &why);
            unread.push(StatusReadFailure { is_vital: control_plane == ControlPlane::Kubernetes, ..unread_ });
        }
        Err(why) => return Err(rules_failure(&why)),
    }
    configurations(endpoint, unread, &mut found, control_plane == ControlPlane::Kubernetes).await;
    Ok(found)
}

/// Adds the rules of workspaces whose exports are bound, if they protect a kind here.
async fn bound(
    live: &ApiServer,
    found: &mut RuleInventory,
    unread: &mut Vec<StatusReadFailure>,
) -> Result<(), Failure> {
    let rules = live.rules().await?;
    let own = rules.bound.as_ref().and_then(|bound| bound.cluster.clone());
    // The conditions of a rule that can't be used are shown in its own workspace.
    let CheckedRules { usable, unread: unreadable } = rules.check();
    for (object, rule) in &usable {
        let is_foreign = rule.key().cluster.is_some() && rule.key().cluster != own;
        if is_foreign && rule.edges().iter().any(|edge| rules.applies(rule, edge)) {
            let shown = rules.shown(rule.key());
            let workspace = shown.split_once('|').map(|(workspace, _)| workspace.to_owned());
            found.rules.push(RuleStatus { workspace, ..RuleStatus::from_rule(object) });
            found.is_elsewhere = true;
        }
    }
    let is_vital = !found.is_elsewhere;
    let unreadable = unreadable.into_iter().filter(|it| !rules.flawed.contains(it));
    unread.extend(unreadable.map(|it| StatusReadFailure { what: it.what, why: it.why, is_vital }));
    Ok(())
}

/// Counts the ObjectLocks and ClusterObjectLocks.
pub(super) async fn locks(live: &ApiServer, unread_: &mut Vec<StatusReadFailure>) -> usize {
    let mut count = 0_usize;
    for kind in LockKind::ALL {
        match live.endpoint().list_json(&kind.path(None)).await {
            Ok(list) => count = count.saturating_add(list.items.len()),
            Err(why) if why.is_not_found() => {}
            Err(why) => {
                let right = format!("list {}.{}", kind.plural(), api::GROUP);
                unread_.push(unread(format!("the {}s", kind.kind()), &right, &why));
            }
        }
    }
    count
}

/// Reads the webhook configurations. `is_vital`: it is unknown without them whether rules are enforced.
async fn configurations(
    endpoint: &Endpoint,
    unread_: &mut Vec<StatusReadFailure>,
    found: &mut RuleInventory,
    is_vital: bool,
) {
    match endpoint.list_json(CONFIGURATIONS).await {
        Ok(list) => {
            let is_ours = |object: &Value| {
                let name = text(object, "/metadata/name");
                OF_RULES.contains(&name) || OTHERS.contains(&name)
            };
            found.configurations.extend(list.items.into_iter().filter(is_ours));
        }
        Err(why) => {
            found.all_configurations = false;
            let right = "list validatingwebhookconfigurations.admissionregistration.k8s.io";
            unread_.push(StatusReadFailure { is_vital, ..unread("the webhook configurations", right, &why) });
        }
    }
}

impl RuleInventory {
    /// Returns what somebody has changed in the webhook configurations for rules. A controller that runs restores it.
    pub(super) fn drifts(&self) -> Vec<String> {
        let own_namespace = parts::namespace(&self.configurations);
        let drifts = self.configurations.iter().filter_map(|configuration| {
            let fields = depguard_controller::drift(configuration, own_namespace.as_deref(), self.objects.as_deref());
            let name = text(configuration, "/metadata/name");
            (!fields.is_empty()).then(|| {
                format!(
                    "the webhook configuration {name} is not as a controller of this version writes it, so API servers may \
                     not ask about each request: {}; a controller that runs restores it",
                    some_of(fields, ", ")
                )
            })
        });
        drifts.collect()
    }

    /// Returns the kinds whose deletions the webhook configurations have reviewed.
    pub(super) fn reviewed_kinds(&self) -> BTreeSet<String> {
        let configurations =
            self.configurations.iter().filter(|object| OF_RULES.first() == Some(&text(object, "/metadata/name")));
        let webhooks = configurations.filter_map(|object| object.get("webhooks")?.as_array()).flatten();
        let webhooks = webhooks.filter(|webhook| text(webhook, "/name") != parts::CANARY);
        let rules = webhooks.filter_map(|webhook| webhook.get("rules")?.as_array()).flatten();
        let first = |rule: &Value, field: &str| text(rule, &format!("/{field}/0")).to_owned();
        rules.map(|rule| resource_name(&first(rule, "resources"), &first(rule, "apiGroups"))).collect()
    }

    /// Sets `Enforced` and `Interlocked` to false for each rule with a target, or with dependents to check, that no
    /// configuration covers: a controller that is gone doesn't correct its conditions.
    pub(super) fn correct_by_configurations(&mut self, control_plane: ControlPlane) {
        if !self.all_configurations {
            return;
        }
        let configurations =
            self.configurations.iter().filter(|object| OF_RULES.contains(&text(object, "/metadata/name")));
        let webhooks = configurations.filter_map(|object| object.get("webhooks")?.as_array()).flatten();
        let reviewed = webhooks.flat_map(|webhook| {
            let rules = webhook.get("rules").and_then(Value::as_array).into_iter().flatten();
            rules.map(move |rule| (policy(webhook), rule))
        });
        let reviewed: Vec<_> = reviewed.collect();
        for rule in self.rules.iter_mut().filter(|rule| rule.enforced) {
            let is_reviewed = |ReviewedKind { operation, failure_policy, group, resource }: &&ReviewedKind| {
                let names = |rule: &Value, field: &str, name: &str| {
                    let names = rule.get(field).and_then(Value::as_array).into_iter().flatten();
                    names.filter_map(Value::as_str).any(|named| named == "*" || named == name)
                };
                reviewed.iter().any(|(policy, rule)| {
                    policy == failure_policy
                        && names(rule, "operations", operation)
                        && names(rule, "apiGroups", group)
                        && names(rule, "resources", resource)
                })
            };
            let Some(missing) = rule.reviewed.iter().find(|kind| !is_reviewed(kind)).cloned() else { continue };
            let requests = if missing.operation == DELETE { "deletions" } else { "creations" };
            let place = if control_plane == ControlPlane::Kcp { "its provider's workspace" } else { "the cluster" };
            rule.enforced = false;
            let is_untrue = |condition: &&mut Condition| ["Enforced", INTERLOCKED].contains(&&*condition.type_);
            for condition in rule.conditions.iter_mut().filter(is_untrue) {
                condition.status = "False".to_owned();
                condition.reason = "NotInstalled".to_owned();
                condition.message = format!(
                    "No webhook configuration of {place} covers {requests} of {}; the stored condition is out of date.",
                    resource_name(&missing.resource, &missing.group)
                );
            }
        }
    }
}

/// Returns the failure policy of a rule's spec or of a webhook.
fn policy(of: &Value) -> &str {
    match text(of, "/failurePolicy") {
        "" => "Fail",
        policy => policy,
    }
}

/// Builds the failure of a command that can't read the rules.
fn rules_failure(why: &ApiError) -> Failure {
    let failure = Failure::new(format!("could not read the rules: {why}"));
    match why.status() {
        Some(401 | 403) => failure.hint("you need the right to list dependencyrules.dependencies.opendefense.cloud"),
        _ => failure.hint(next_step(why)),
    }
}

fn rules() -> String {
    format!("/apis/{}/{}/{}", api::GROUP, api::VERSION, api::PLURAL)
}

fn cluster_of(object: &Value) -> String {
    text(object, "/metadata/annotations/kcp.io~1cluster").to_owned()
}

fn path_of(binding: &Value) -> Option<(String, String)> {
    let path = binding.pointer("/metadata/annotations/kcp.io~1path")?.as_str()?;
    Some((cluster_of(binding), path.to_owned()))
}

impl RuleStatus {
    fn from_rule(rule: &Value) -> Self {
        let generation = rule.pointer("/metadata/generation").and_then(Value::as_i64);
        let conditions = rule.pointer("/status/conditions").and_then(Value::as_array).into_iter().flatten();
        let mut conditions: Vec<_> =
            conditions.map(|condition| Condition::from_object(condition, generation)).collect();
        conditions.sort_by_key(|condition| CONDITIONS.iter().position(|known| *known == condition.type_));
        let enforced = conditions.iter().find(|it| it.type_ == "Enforced");
        let dependencies = rule.pointer("/spec/dependencies").and_then(Value::as_array).into_iter().flatten();
        let looks = |dependency: &Value| !matches!(text(dependency, "/onMissing"), "" | "Ignore");
        let dependent = rule.pointer("/spec/dependent").filter(|_| dependencies.clone().any(looks));
        let kind = |operation, kind: &Value| ReviewedKind {
            operation,
            failure_policy: policy(rule.get("spec").unwrap_or(&Value::Null)).to_owned(),
            group: text(kind, "/group").to_owned(),
            resource: text(kind, "/resource").to_owned(),
        };
        let reviewed =
            dependencies.map(|target| kind(DELETE, target)).chain(dependent.map(|dependent| kind(CREATE, dependent)));
        Self {
            workspace: None,
            created: text(rule, "/metadata/creationTimestamp").to_owned(),
            reviewed: reviewed.collect(),
            name: text(rule, "/metadata/name").to_owned(),
            enforced: enforced.is_some_and(|it| it.status == "True" && !it.outdated),
            conditions,
        }
    }

    /// Returns true if every condition exists, is true, and is about the current version of the rule. `TargetsExist`
    /// doesn't count, and `Interlocked` may be missing, waiting, or out of the rule's reach. A rule that sleeps is well.
    pub(super) fn is_well(&self) -> bool {
        let is_excused = |it: &Condition| {
            it.status == "False" && (it.reason == WAITING || NEVER.contains(&&*it.reason)) && !it.outdated
        };
        if self.sleeps() {
            return true;
        }
        self.enforced
            && CONDITIONS.into_iter().all(|name| self.condition(name).is_some_and(Condition::is_true))
            && self.condition(INTERLOCKED).is_none_or(|it| it.is_true() || is_excused(it))
    }

    /// Returns true if the rule is in order and only waits for its kinds to be installed.
    pub(super) fn sleeps(&self) -> bool {
        let is_dormant = |it: &Condition| it.status == "False" && it.reason == DORMANT && !it.outdated;
        ["Accepted", "Programmed"].into_iter().all(|name| self.condition(name).is_some_and(Condition::is_true))
            && ["ResolvedRefs", "Enforced"].into_iter().all(|name| self.condition(name).is_some_and(is_dormant))
    }

    fn condition(&self, type_: &str) -> Option<&Condition> {
        self.conditions.iter().find(|condition| condition.type_ == type_)
    }
}

impl Condition {
    fn from_object(condition: &Value, generation: Option<i64>) -> Self {
        let field = |pointer: &str| text(condition, pointer).to_owned();
        let observed = condition.get("observedGeneration").and_then(Value::as_i64);
        Self {
            type_: field("/type"),
            status: field("/status"),
            reason: field("/reason"),
            message: field("/message"),
            last_transition_time: field("/lastTransitionTime"),
            outdated: observed.is_some() && observed != generation,
        }
    }

    fn is_true(&self) -> bool {
        self.status == "True" && !self.outdated
    }

    fn short(&self) -> String {
        match self.status.as_str() {
            _ if self.outdated => "Unknown (Outdated)".to_owned(),
            "True" => "True".to_owned(),
            status => format!("{status} ({})", self.reason),
        }
    }
}

#[cfg(test)]
mod tests;

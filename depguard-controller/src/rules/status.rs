//! Status of each rule: pure.

mod inputs;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use depguard_core::Rule;
use depguard_core::api::{Condition, DependencyRuleStatus, Strategy, TargetStatus};
use depguard_core::model::GroupResource;
use depguard_core::schema;
use depguard_kcp::ObjectText;
use serde_json::{Value, json};

use crate::model::condition::{Figures, Finding, conditions, stored_conditions, was_true};
use crate::model::configuration_key::ConfigurationKey;
use crate::model::install_outcome::Outcome;
use crate::model::names::INTERLOCKED;
use crate::model::reference_count::ReferenceCounts;
use crate::probe::outstanding::Outstanding;
use crate::probe::result::ProbeResults;
use crate::rules::enforced::Flaws;
use crate::rules::interlocked::{InterlockView, Obstacles, ReferenceGraph};
use crate::rules::named_kinds::NamedKinds;
use crate::rules::plan::{Plan, PlanInput, RulePlan, TargetPlan};
use crate::rules::targets_exist::{TARGETS_EXIST, targets_exist};
use crate::rules::written_rule::{ALLOWANCE_EXCEEDED, Unusable};
use crate::rules::{accepted, enforced, interlocked, programmed, resolved_refs};
use crate::schema::kind_reader::Kinds;

const ENFORCED: &str = "Enforced";
/// Maximum number of resources that a rule's summary names.
const MAX_NAMED: usize = 6;

/// Results of carrying out a plan.
#[derive(Debug, Default)]
pub(crate) struct RoundOutcomes {
    pub(crate) outcomes: BTreeMap<ConfigurationKey, Outcome>,
    pub(crate) kinds: Kinds,
    pub(crate) probe_results: ProbeResults,
    pub(crate) outstanding: Outstanding,
    pub(crate) counts: Arc<ReferenceCounts>,
    /// The interlock as it is now; `None`: it is off.
    pub(crate) interlock: Option<InterlockView>,
}

/// New status of one rule.
pub(crate) struct RuleStatus<'p> {
    pub(crate) rule: &'p RulePlan,
    pub(crate) figures: Figures,
    /// The stored object, and the whole object to be PUT on its status subresource, if the status has changed.
    pub(crate) change: Option<(Value, Value)>,
}

/// Rules whose stored status was found to be as it should be: it is not made anew before one of its inputs changes.
#[derive(Debug, Default)]
pub(crate) struct SettledRules {
    /// By the address of the rule's text.
    by_text: HashMap<usize, Settled>,
    /// Conditions that settled rules have.
    conditions: BTreeSet<Arc<Vec<[String; 3]>>>,
    /// Facts about kinds that the inputs name by their addresses.
    kinds: Kinds,
}

#[derive(Debug)]
struct Settled {
    /// Text of the rule, which keeps its address.
    _text: Arc<ObjectText>,
    inputs: u64,
    figures: Figures,
}

impl SettledRules {
    /// Returns the new status of each rule, and takes note of those that are as they should be. `now` is in RFC 3339.
    pub(crate) fn new_statuses<'p>(
        &mut self,
        input: &PlanInput<'_>,
        plan: &'p Plan,
        found: &RoundOutcomes,
        now: &str,
    ) -> Vec<RuleStatus<'p>> {
        let graph = found.interlock.as_ref().map(|_| ReferenceGraph::of_rules(plan)).unwrap_or_default();
        let mut known = std::mem::take(&mut self.by_text);
        let said = plan.rules.iter().map(|rule| {
            let (text, inputs) = (Arc::as_ptr(&rule.object).addr(), inputs::inputs(input, rule, found, &graph));
            if let Some(settled) = known.remove(&text).filter(|settled| settled.inputs == inputs) {
                debug_assert!(
                    change(input, rule, found, &graph, now).1.is_none(),
                    "an input is missing: {:?}",
                    rule.key
                );
                let figures = settled.figures.clone();
                self.by_text.insert(text, settled);
                return RuleStatus { rule, figures, change: None };
            }
            let (status, change) = change(input, rule, found, &graph, now);
            let figures = self.figures(&status);
            // Time alone ends the waiting.
            let waits = status.conditions.iter().any(|condition| condition.reason == interlocked::WAITING);
            if change.is_none() && !waits {
                let settled = Settled { _text: Arc::clone(&rule.object), inputs, figures: figures.clone() };
                self.by_text.insert(text, settled);
            }
            RuleStatus { rule, figures, change }
        });
        let said = said.collect();
        self.conditions.retain(|conditions| Arc::strong_count(conditions) > 1);
        self.kinds = found.kinds.clone();
        said
    }

    fn figures(&mut self, status: &DependencyRuleStatus) -> Figures {
        let of = |Condition { type_, status, reason, .. }: &Condition| [type_, status, reason].map(String::clone);
        let conditions = Arc::new(status.conditions.iter().map(of).collect());
        let shared = self.conditions.get(&conditions).cloned();
        let conditions = shared.unwrap_or(conditions);
        self.conditions.insert(Arc::clone(&conditions));
        Figures { conditions, dangling: status.dangling_references.as_ref().map(|dangling| dangling.count) }
    }
}

/// Returns the status of a rule, and if it has changed the stored object and the whole object to be written.
fn change(
    input: &PlanInput<'_>,
    rule: &RulePlan,
    found: &RoundOutcomes,
    graph: &ReferenceGraph,
    now: &str,
) -> (DependencyRuleStatus, Option<(Value, Value)>) {
    let before = rule.object.read();
    let status = status(input, rule, found, graph, &before, now);
    let (old, mut new) = (before.get("status"), json!(status));
    let is_new = old != Some(&new) && !tells_of_too_many(rule, &before);
    let change = is_new.then(|| {
        let mut after = before.clone();
        after.as_object_mut().into_iter().for_each(|fields| drop(fields.insert("status".to_owned(), new.take())));
        (before, after)
    });
    (status, change)
}

/// Returns true if the stored status already says that there are too many rules for this one to be read. Nothing more
/// is known of such a rule.
fn tells_of_too_many(rule: &RulePlan, object: &Value) -> bool {
    let generation = object.pointer("/metadata/generation");
    let mut accepted =
        stored_conditions(object).filter(|condition| condition.get("type").is_some_and(|of| of == "Accepted"));
    rule.rule().is_err_and(|why| why.reason == ALLOWANCE_EXCEEDED)
        && accepted.any(|condition| {
            condition.get("reason").is_some_and(|reason| reason == ALLOWANCE_EXCEEDED)
                && condition.get("observedGeneration") == generation
        })
}

fn status(
    input: &PlanInput<'_>,
    rule: &RulePlan,
    found: &RoundOutcomes,
    graph: &ReferenceGraph,
    before: &Value,
    now: &str,
) -> DependencyRuleStatus {
    let (old, generation) = (before.get("status"), before.pointer("/metadata/generation").and_then(Value::as_i64));
    let mut dangling_references = None;
    let findings = match rule.rule() {
        Ok(parsed) => {
            let was_enforced = was_true(before, ENFORCED);
            let mut findings = of_rule(input, rule, parsed, found, graph, was_enforced);
            let (count, kinds) = (found.counts.get(&rule.key), NamedKinds::new(input, &found.kinds, rule, parsed));
            let in_no_namespace = |resource: &str| kinds.are_cluster_scoped(resource);
            if let Some((finding, dangling)) = targets_exist(parsed, count, in_no_namespace, old, generation) {
                findings.push((TARGETS_EXIST, finding));
                dangling_references = dangling;
            }
            findings
        }
        Err(error) => of_invalid(input, rule, error, &found.outcomes),
    };
    DependencyRuleStatus {
        observed_generation: generation,
        summary: summary(rule),
        conditions: conditions(findings, old, generation, now),
        targets: targets(input, rule, &found.kinds),
        dangling_references,
    }
}

fn of_rule(
    input: &PlanInput<'_>,
    rule: &RulePlan,
    parsed: &Rule,
    found: &RoundOutcomes,
    graph: &ReferenceGraph,
    was_enforced: bool,
) -> Vec<(&'static str, Finding)> {
    let programmed = programmed::programmed(input, rule, &found.outcomes);
    let named = NamedKinds::new(input, &found.kinds, rule, parsed);
    let exports = resolved_refs::export_problems(input, rule, parsed);
    let missing_exports = exports.iter().filter(|problem| problem.status == "False");
    let was_in_force = |key: &ConfigurationKey| {
        was_enforced && found.outstanding.get(key).is_some_and(|not_in_force| !not_in_force.contains(&rule.key))
    };
    // As long as no probe has a result, nothing is said anew.
    let is_arriving = |kind: &GroupResource| {
        let result = |key| found.probe_results.get(&key).is_some_and(|result| result.arriving.contains(kind));
        rule.configurations().any(|key| was_in_force(&key) || result(key))
    };
    let flaws = Flaws {
        unmatchable: named.unmatchable_dependencies(),
        unreviewed: schema::unreviewed(parsed),
        missing_exports: missing_exports.map(|problem| problem.message.clone()).collect(),
        missing: named.missing_kinds(),
        aggregated: named.aggregated_kinds(is_arriving),
    };
    let hindrance = enforced::hindrance(input, rule, parsed, &flaws, &programmed);
    let enforced = enforced::enforced(rule, parsed, hindrance.clone(), &found.probe_results, was_in_force);
    let interlocked = found.interlock.as_ref().and_then(|interlock| {
        let own_namespace = input.clients.own_namespace.as_deref();
        let obstacles = Obstacles { plan: rule, rule: parsed, kinds: &named, graph, own_namespace };
        interlocked::interlocked(&obstacles, hindrance.as_ref(), &found.probe_results, interlock)
    });
    let conditions = [
        ("Accepted", accepted::accepted(parsed, named.schema())),
        ("ResolvedRefs", resolved_refs::resolved(input, rule, parsed, &named, exports)),
        ("Programmed", programmed),
        (ENFORCED, enforced),
    ];
    conditions.into_iter().chain(interlocked.map(|interlocked| (INTERLOCKED, interlocked))).collect()
}

fn of_invalid(
    input: &PlanInput<'_>,
    rule: &RulePlan,
    Unusable { reason, message }: &Unusable,
    outcomes: &BTreeMap<ConfigurationKey, Outcome>,
) -> Vec<(&'static str, Finding)> {
    let programmed = programmed::programmed(input, rule, outcomes);
    let not_checked = || Finding::unknown(reason, "not checked: the rule is not accepted");
    let looks_for_targets = rule.checked_references().is_some();
    let conditions = [
        ("Accepted", Finding::no(reason, message)),
        ("ResolvedRefs", not_checked()),
        (
            "Programmed",
            if rule.configurations().next().is_none() && rule.targets.is_empty() {
                Finding::no(reason, "nothing to install")
            } else {
                programmed
            },
        ),
        (ENFORCED, enforced::of_invalid(rule)),
    ];
    conditions.into_iter().chain(looks_for_targets.then(|| (TARGETS_EXIST, not_checked()))).collect()
}

/// Returns the resources of the targets, each once: `vpcs,subnets`.
fn summary(rule: &RulePlan) -> Option<String> {
    let mut names: Vec<&str> = Vec::new();
    for target in &rule.targets {
        let name = target.kind.resource.as_str();
        if !names.contains(&name) {
            names.push(name);
        }
    }
    let more = names.len().saturating_sub(MAX_NAMED);
    let mut text = names.into_iter().take(MAX_NAMED).collect::<Vec<_>>().join(",");
    if more > 0 {
        text.push_str(&format!(" and {more} more"));
    }
    (!text.is_empty()).then_some(text)
}

/// Returns the status of each target: the place of the dependency, and the way in which its dependents are found.
fn targets(input: &PlanInput<'_>, rule: &RulePlan, kinds: &Kinds) -> Vec<TargetStatus> {
    let Ok(parsed) = rule.rule() else { return Vec::new() };
    let named = NamedKinds::new(input, kinds, rule, parsed);
    let targets = rule.targets.iter().enumerate();
    targets.map(|(index, target)| target_status(input, target, named.lookup(index))).collect()
}

fn target_status(
    input: &PlanInput<'_>,
    target: &TargetPlan,
    (lookup, hint): (Option<Strategy>, Option<String>),
) -> TargetStatus {
    let cluster = target.places.first().and_then(Option::as_ref).or(target.refused.first());
    let named = target.export.as_ref().map(|export| export.path.to_string());
    let own = || input.bindings.of(cluster?)?.path.as_ref().map(ToString::to_string);
    TargetStatus {
        dependency: u32::try_from(target.dependency).unwrap_or(u32::MAX),
        workspace: named.or_else(own),
        logical_cluster: cluster.map(ToString::to_string),
        lookup,
        hint,
    }
}

#[cfg(test)]
mod tests;

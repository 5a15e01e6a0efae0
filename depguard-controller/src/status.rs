//! What is said on each rule: pure.

use std::collections::BTreeMap;

use depguard_core::Rule;
use depguard_core::api::{DependencyRuleStatus, Strategy, TargetStatus};
use serde_json::{Value, json};

use crate::check::Checks;
use crate::checks::{self, Kinds};
use crate::enforced::Flaws;
use crate::findings::{Finding, conditions};
use crate::plan::{Place, Plan, RulePlan, TargetPlan, World};
use crate::written_rule::{ALLOWANCE_EXCEEDED, Unusable};
use crate::{enforced, programmed, references};

/// The resources that a rule's summary names.
const MOST_NAMED: usize = 6;

/// What carrying out a plan showed.
#[derive(Debug, Default)]
pub(crate) struct Found {
    pub(crate) outcomes: BTreeMap<Place, Outcome>,
    pub(crate) kinds: Kinds,
    pub(crate) checks: Checks,
}

/// How it stands with the configuration of a place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// It is as desired.
    Installed,
    /// Somebody else's configuration has its name.
    Foreign,
    /// The workspace does not let us write it.
    ClaimNotAccepted,
    /// A newer version of depguard wrote it, and has a while to see to it. Until then it does what it should, or not.
    Newer { in_force: bool },
    /// It could not be written yet, and why; it is tried again at once.
    Pending(String),
    /// It could not be written, and why; it is tried again later.
    Failed(String),
}

impl Outcome {
    /// Whether what is there has everything reviewed that should be.
    pub(crate) fn is_in_force(&self) -> bool {
        matches!(self, Self::Installed | Self::Newer { in_force: true })
    }
}

/// What is to be said on one rule.
pub(crate) struct Said<'p> {
    pub(crate) rule: &'p RulePlan<'p>,
    /// The whole object, to be PUT on its status subresource.
    pub(crate) object: Value,
    /// Whether its status was another.
    pub(crate) is_new: bool,
}

/// What is to be said on each rule. `now` is RFC 3339.
pub(crate) fn all<'p>(world: &World<'_>, plan: &'p Plan<'_>, found: &Found, now: &str) -> Vec<Said<'p>> {
    let said = plan.rules.iter().filter_map(|rule| {
        let old = rule.object.get("status");
        let status = json!(status(world, rule, found, old, now));
        let mut object = rule.object.clone();
        let is_new = old != Some(&status) && !tells_of_too_many(rule, old);
        object.as_object_mut()?.insert("status".to_owned(), status);
        Some(Said { rule, object, is_new })
    });
    said.collect()
}

/// Whether the status tells already that there are too many rules for this one to be read. Then no more is known of it than
/// that.
fn tells_of_too_many(rule: &RulePlan<'_>, old: Option<&Value>) -> bool {
    let generation = rule.object.pointer("/metadata/generation");
    let conditions = old.and_then(|old| old.get("conditions")?.as_array()).into_iter().flatten();
    let mut accepted = conditions.filter(|condition| condition.get("type").is_some_and(|of| of == "Accepted"));
    rule.rule().is_err_and(|why| why.reason == ALLOWANCE_EXCEEDED)
        && accepted.any(|condition| {
            condition.get("reason").is_some_and(|reason| reason == ALLOWANCE_EXCEEDED)
                && condition.get("observedGeneration") == generation
        })
}

fn status(
    world: &World<'_>,
    rule: &RulePlan<'_>,
    found: &Found,
    old: Option<&Value>,
    now: &str,
) -> DependencyRuleStatus {
    let generation = rule.object.pointer("/metadata/generation").and_then(Value::as_i64);
    let findings = match rule.rule() {
        Ok(parsed) => of_rule(world, rule, parsed, found),
        Err(error) => of_invalid(world, rule, error, &found.outcomes),
    };
    DependencyRuleStatus {
        observed_generation: generation,
        summary: summary(rule),
        conditions: conditions(findings, old, generation, now),
        targets: targets(world, rule, &found.kinds),
    }
}

fn of_rule(world: &World<'_>, rule: &RulePlan<'_>, parsed: &Rule, found: &Found) -> Vec<(&'static str, Finding)> {
    let programmed = programmed::programmed(world, rule, &found.outcomes);
    let flaws = Flaws {
        blind: checks::blind(world, &found.kinds, rule, parsed),
        unreviewed: checks::unreviewed(parsed),
        missing: checks::missing(world, &found.kinds, rule, parsed),
    };
    let enforced = enforced::enforced(world, rule, parsed, &flaws, &programmed, &found.checks);
    vec![
        ("Accepted", checks::accepted(world, &found.kinds, rule, parsed)),
        ("ResolvedRefs", references::resolved(world, &found.kinds, rule, parsed)),
        ("Programmed", programmed),
        ("Enforced", enforced),
    ]
}

fn of_invalid(
    world: &World<'_>,
    rule: &RulePlan<'_>,
    Unusable { reason, message }: &Unusable,
    outcomes: &BTreeMap<Place, Outcome>,
) -> Vec<(&'static str, Finding)> {
    let programmed = programmed::programmed(world, rule, outcomes);
    vec![
        ("Accepted", Finding::no(reason, message)),
        ("ResolvedRefs", Finding::unknown(reason, "not looked at: the rule is not accepted")),
        ("Programmed", if rule.targets.is_empty() { Finding::no(reason, "nothing to install") } else { programmed }),
        ("Enforced", enforced::of_invalid(rule)),
    ]
}

/// The resources of the targets, each once: `vpcs,subnets`.
fn summary(rule: &RulePlan<'_>) -> Option<String> {
    let mut names: Vec<&str> = Vec::new();
    for target in &rule.targets {
        let name = target.kind.resource.as_str();
        if !names.contains(&name) {
            names.push(name);
        }
    }
    let more = names.len().saturating_sub(MOST_NAMED);
    let mut text = names.into_iter().take(MOST_NAMED).collect::<Vec<_>>().join(",");
    if more > 0 {
        text.push_str(&format!(" and {more} more"));
    }
    (!text.is_empty()).then_some(text)
}

/// Where each dependency was found, and how its dependents are.
fn targets(world: &World<'_>, rule: &RulePlan<'_>, kinds: &Kinds) -> Vec<TargetStatus> {
    let Ok(parsed) = rule.rule() else { return Vec::new() };
    let targets = rule.targets.iter().enumerate();
    targets
        .map(|(index, target)| target_status(world, target, checks::lookup(world, kinds, rule, parsed, index)))
        .collect()
}

fn target_status(
    world: &World<'_>,
    target: &TargetPlan,
    (lookup, hint): (Option<Strategy>, Option<String>),
) -> TargetStatus {
    let cluster = target.places.first().and_then(Option::as_ref).or(target.refused.first());
    let named = target.export.as_ref().map(|export| export.path.to_string());
    let own = || world.bindings.of(cluster?)?.path.as_ref().map(ToString::to_string);
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

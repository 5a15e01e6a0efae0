//! What is said on each rule: pure.

use std::collections::{BTreeMap, BTreeSet};

use depguard_core::api::{Condition, DependencyRuleStatus, TargetStatus};
use depguard_core::{Home, Rule};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::plan::{Place, Plan, RulePlan, TargetPlan, World};
use crate::references::{Finding, Findings, Lookups};

/// What carrying out a plan showed.
#[derive(Debug, Default)]
pub(crate) struct Found {
    pub(crate) outcomes: BTreeMap<Place, Outcome>,
    pub(crate) lookups: Lookups,
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
    /// It could not be written yet, and why; it is tried again at once.
    Pending(String),
    /// It could not be written, and why; it is tried again later.
    Failed(String),
}

/// The rules whose status is no longer right, each with the whole object to be PUT on its status subresource.
///
/// `now` is RFC 3339.
pub(crate) fn changed<'p>(
    world: &World<'_>,
    plan: &'p Plan<'_>,
    found: &Found,
    now: &str,
) -> Vec<(&'p RulePlan<'p>, Value)> {
    let changed = plan.rules.iter().filter_map(|rule| {
        let old = rule.object.get("status").cloned().unwrap_or_default();
        let status = json!(status(world, rule, found, &old, now));
        let mut object = rule.object.clone();
        let differs = old != status;
        object.as_object_mut()?.insert("status".to_owned(), status);
        differs.then_some((rule, object))
    });
    changed.collect()
}

fn status(world: &World<'_>, rule: &RulePlan<'_>, found: &Found, old: &Value, now: &str) -> DependencyRuleStatus {
    let old = DependencyRuleStatus::deserialize(old).unwrap_or_default();
    let generation = rule.object.pointer("/metadata/generation").and_then(Value::as_i64);
    let findings = match &rule.rule {
        Ok(parsed) => of_rule(world, rule, parsed, found),
        Err(error) => of_invalid(world, rule, error, &found.outcomes),
    };
    let conditions = findings.into_iter().map(|(type_, finding)| {
        let before = old.conditions.iter().find(|old| old.type_ == type_ && old.status == finding.status);
        Condition {
            type_: type_.to_owned(),
            status: finding.status.to_owned(),
            observed_generation: generation,
            last_transition_time: before.map_or_else(|| now.to_owned(), |old| old.last_transition_time.clone()),
            reason: finding.reason.to_owned(),
            message: finding.message,
        }
    });
    DependencyRuleStatus {
        observed_generation: generation,
        conditions: conditions.collect(),
        targets: targets(world, rule),
    }
}

fn of_rule(world: &World<'_>, rule: &RulePlan<'_>, parsed: &Rule, found: &Found) -> [(&'static str, Finding); 3] {
    [
        ("Accepted", Finding::yes("Accepted", "the rule is well formed")),
        ("ResolvedRefs", crate::references::resolved(world, &found.lookups, rule, parsed)),
        ("Programmed", programmed(world, rule, &found.outcomes)),
    ]
}

fn of_invalid(
    world: &World<'_>,
    rule: &RulePlan<'_>,
    error: &str,
    outcomes: &BTreeMap<Place, Outcome>,
) -> [(&'static str, Finding); 3] {
    const INVALID: &str = "Invalid";
    let kinds: BTreeSet<_> = rule.targets.iter().map(|target| target.kind.to_string()).collect();
    let effect = if kinds.is_empty() {
        "the rule protects nothing: it can't be read which kinds it speaks of".to_owned()
    } else {
        let kinds = kinds.into_iter().collect::<Vec<_>>().join(", ");
        let installed = programmed(world, rule, outcomes).message;
        format!("until the rule is put right, deletions of {kinds} are refused where it bears ({installed})")
    };
    [
        ("Accepted", Finding::no(INVALID, error)),
        ("ResolvedRefs", Finding::unknown(INVALID, "not looked at: the rule is not accepted")),
        ("Programmed", Finding::no(INVALID, effect)),
    ]
}

/// Whether the targets' configurations are as desired.
fn programmed(world: &World<'_>, rule: &RulePlan<'_>, outcomes: &BTreeMap<Place, Outcome>) -> Finding {
    let mut findings = Findings::default();
    let mut installed = BTreeSet::new();
    for target in &rule.targets {
        if let (true, Some(export)) = (target.places.is_empty(), &target.export) {
            let path = &export.path;
            findings.push(Finding::no("Pending", format!("nothing is installed in workspace {path} before it binds")));
        }
        for place in &target.places {
            match problem(world, place, outcomes.get(place)) {
                Some(finding) => findings.push(finding),
                None => {
                    installed.insert(of_place(world, place));
                }
            }
        }
    }
    let done = match installed.into_iter().collect::<Vec<_>>().as_slice() {
        [] => "there is nothing to install: the rule names no dependency".to_owned(),
        places => format!("installed in {}", places.join(", ")),
    };
    // What somebody must act on comes before what only waits.
    findings.sum_up(&["ClaimNotAccepted", "ForeignConfiguration", "ApplyFailed", "Pending"], "Programmed", &done)
}

fn problem(world: &World<'_>, place: &Place, outcome: Option<&Outcome>) -> Option<Finding> {
    let place = of_place(world, place);
    let name = crate::configuration::NAME;
    let finding = match outcome {
        Some(Outcome::Installed) => return None,
        None => Finding::no("Pending", format!("waiting to see the APIBinding in {place}")),
        Some(Outcome::Pending(why)) => Finding::no("Pending", format!("not yet installed in {place}: {why}")),
        Some(Outcome::ClaimNotAccepted) => {
            let export = world.export_name;
            Finding::no(
                "ClaimNotAccepted",
                format!(
                    "claim on validatingwebhookconfigurations not accepted in {place}: accept it in the APIBinding of \
                     {export} there (state: Accepted, selector: matchAll)"
                ),
            )
        }
        Some(Outcome::Foreign) => Finding::no(
            "ForeignConfiguration",
            format!(
                "ValidatingWebhookConfiguration {name} in {place} is not depguard's and was left alone: delete or \
                 rename it, or label it app.kubernetes.io/managed-by=depguard to hand it over"
            ),
        ),
        Some(Outcome::Failed(why)) => {
            Finding::no("ApplyFailed", format!("could not install in {place}, trying again: {why}"))
        }
    };
    Some(finding)
}

/// `workspace root:providers:network`, or `the cluster`.
fn of_place(world: &World<'_>, place: &Place) -> String {
    match place {
        Some(cluster) => format!("workspace {}", world.bindings.display(cluster)),
        None => "the cluster".to_owned(),
    }
}

/// Where each dependency was found; in home kubernetes there is nowhere else.
fn targets(world: &World<'_>, rule: &RulePlan<'_>) -> Vec<TargetStatus> {
    if world.home == Home::Kubernetes || rule.rule.is_err() {
        return Vec::new();
    }
    rule.targets.iter().map(|target| target_status(world, target)).collect()
}

fn target_status(world: &World<'_>, target: &TargetPlan) -> TargetStatus {
    let cluster = target.places.first().and_then(Option::as_ref);
    let named = target.export.as_ref().map(|export| export.path.to_string());
    let own = || world.bindings.of(cluster?)?.path.as_ref().map(ToString::to_string);
    TargetStatus {
        dependency: u32::try_from(target.dependency).unwrap_or(u32::MAX),
        workspace: named.or_else(own),
        logical_cluster: cluster.map(ToString::to_string),
        lookup: None,
    }
}

#[cfg(test)]
mod tests;

//! Condition `Enforced`: the effect of a rule on deletions.

use std::collections::{BTreeMap, BTreeSet};

use depguard_core::api::{FailurePolicy, OnDelete};
use depguard_core::{ControlPlane, Rule};
use depguard_kcp::ReadThrough;

use crate::model::condition::{Finding, Findings};
use crate::probe::result::{NOT_ASKED, ORDER, ProbeResults};
use crate::rules::plan::{PlanInput, RulePlan};

const NOT_ENFORCEABLE: &str = "NotEnforceable";

/// Flaws that keep a rule from doing what it says, even if it is installed.
#[derive(Debug, Default)]
pub(crate) struct Flaws {
    /// Dependencies that no dependent can hold.
    pub(crate) unmatchable: Vec<usize>,
    /// Fields that name kinds about which API servers ask no webhook, each with the reason.
    pub(crate) unreviewed: Vec<(String, String)>,
    /// Kinds that the rule names and that are missing.
    pub(crate) missing: Vec<String>,
}

impl Flaws {
    fn sum_up(&self) -> Option<Finding> {
        if !self.unreviewed.is_empty() {
            let why: Vec<_> = self.unreviewed.iter().map(|(_, why)| why.as_str()).collect();
            return Some(Finding::no(NOT_ENFORCEABLE, format!("the rule refuses no deletion: {}", why.join("; "))));
        }
        if !self.unmatchable.is_empty() {
            let fields: Vec<_> = self.unmatchable.iter().map(|index| format!("spec.dependencies[{index}]")).collect();
            return Some(Finding::no(
                NOT_ENFORCEABLE,
                format!("{} can't find dependents: see the condition Accepted", fields.join(", ")),
            ));
        }
        let missing = || Finding::no("KindNotFound", self.missing.join("; "));
        (!self.missing.is_empty()).then(missing)
    }
}

/// Returns the condition of a usable rule: true if it is in force for all its targets. `probe_results` has the results
/// of each place.
pub(crate) fn enforced(
    input: &PlanInput<'_>,
    rule: &RulePlan<'_>,
    parsed: &Rule,
    flaws: &Flaws,
    programmed: &Finding,
    probe_results: &ProbeResults,
) -> Finding {
    if rule.targets.iter().any(|target| !target.refused.is_empty()) {
        let kinds = kinds(rule.targets.iter().filter(|target| target.places.is_empty()).map(|target| &target.kind));
        return Finding::no(
            NOT_ENFORCEABLE,
            format!("the rule does not protect {kinds}: their provider does not accept it"),
        );
    }
    if let Some(flaw) = flaws.sum_up() {
        return flaw;
    }
    if programmed.status != "True" {
        return Finding::no(
            "NotProgrammed",
            format!("a webhook configuration is not installed: {}", programmed.message),
        );
    }
    let mut by_effect: BTreeMap<OnDelete, BTreeSet<String>> = BTreeMap::new();
    for edge in parsed.edges() {
        by_effect.entry(edge.on_delete).or_default().insert(edge.target.gvr.group_resource().to_string());
    }
    let effects = by_effect.into_iter().map(|(effect, targets)| {
        let effect = match effect {
            OnDelete::Deny => "refuses",
            OnDelete::Warn => "warns about",
            OnDelete::Audit => "records",
        };
        format!("depguard {effect} deletions of {} while dependents refer to them", kinds(targets))
    });
    let mut message = effects.collect::<Vec<_>>().join("; ");
    if message.is_empty() {
        message = "the rule names no dependency, so it protects nothing".to_owned();
    } else if parsed.failure_policy() == FailurePolicy::Ignore {
        message.push_str(
            "; if depguard can't find out whether dependents exist, it allows the deletion (failurePolicy: Ignore)",
        );
    }
    let mut findings = Findings::default();
    if input.control_plane == ControlPlane::Kcp
        && input.read_through == ReadThrough::Export
        && parsed.dependent().export.is_none()
    {
        findings.push(Finding::unknown(
            "LocalDependents",
            format!(
                "no APIExport serves {}: with --read-through export the webhook can list them only where it has the \
                 right; elsewhere deletions of {} are refused",
                parsed.dependent().gvr.group_resource(),
                kinds(rule.targets.iter().map(|target| &target.kind)),
            ),
        ));
    }
    for place in rule.targets.iter().flat_map(|target| &target.places) {
        let generation = parsed.generation().unwrap_or_default();
        findings.extend(match probe_results.get(place) {
            Some(result) => result.of_rule(&rule.key, parsed.failure_policy(), generation),
            None => Some(Finding::unknown(NOT_ASKED, "depguard is asking the webhook whether it has loaded the rule")),
        });
    }
    findings.sum_up(&ORDER, "Enforced", &message)
}

/// Returns the condition of a rule that can't be used: its effect on deletions.
pub(crate) fn of_invalid(rule: &RulePlan<'_>) -> Finding {
    let installed: Vec<_> = rule.targets.iter().filter(|target| !target.places.is_empty()).collect();
    if installed.is_empty() {
        let why = if rule.targets.is_empty() { "its kinds can't be read" } else { "nothing is installed" };
        return Finding::no(NOT_ENFORCEABLE, format!("the rule protects nothing: {why}"));
    }
    let kinds = kinds(installed.iter().map(|target| &target.kind));
    let effect = match rule.failure_policy {
        FailurePolicy::Fail => "are refused where it applies",
        FailurePolicy::Ignore => "are allowed as if the rule did not exist (failurePolicy: Ignore)",
    };
    Finding::no(NOT_ENFORCEABLE, format!("until the rule is corrected, deletions of {kinds} {effect}"))
}

fn kinds(kinds: impl IntoIterator<Item = impl ToString>) -> String {
    let kinds: BTreeSet<_> = kinds.into_iter().map(|kind| kind.to_string()).collect();
    kinds.into_iter().collect::<Vec<_>>().join(", ")
}

//! Condition `Enforced`: the effect of a rule on deletions, and on the references that its dependents make.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use depguard_core::api::{FailurePolicy, OnDelete, OnMissing};
use depguard_core::{ControlPlane, Rule};
use depguard_kcp::ReadThrough;

use crate::model::condition::{Finding, Findings};
use crate::model::configuration_key::ConfigurationKey;
use crate::model::reference_configuration::CheckedReferences;
use crate::probe::result::{NOT_ASKED, ORDER, ProbeResults};
use crate::rules::plan::{PlanInput, RulePlan};

const NOT_ENFORCEABLE: &str = "NotEnforceable";

/// Flaws that keep a rule from doing what it says, even if it is installed.
#[derive(Debug, Default)]
pub(crate) struct Flaws {
    /// Dependencies whose dependents are not found.
    pub(crate) unmatchable: Vec<usize>,
    /// Fields that name kinds about which API servers ask no webhook, each with the reason.
    pub(crate) unreviewed: Vec<(String, String)>,
    /// APIExports that the rule names and that are missing, or don't serve the rule's kinds.
    pub(crate) missing_exports: Vec<String>,
    /// Kinds that the rule names and that are missing.
    pub(crate) missing: Option<Finding>,
    /// Kinds that the rule names and about which webhooks may not be asked.
    pub(crate) aggregated: Option<Finding>,
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
                format!("{} can't find the dependents that it means: see the condition Accepted", fields.join(", ")),
            ));
        }
        self.missing.clone()
    }
}

/// Returns the reason why a usable rule can't be in force, whatever the probes find; `None` if there is none.
pub(crate) fn hindrance(
    input: &PlanInput<'_>,
    rule: &RulePlan,
    parsed: &Rule,
    flaws: &Flaws,
    programmed: &Finding,
) -> Option<Finding> {
    if rule.targets.iter().any(|target| !target.refused.is_empty()) {
        let kinds = kinds(rule.targets.iter().filter(|target| target.places.is_empty()).map(|target| &target.kind));
        let why = format!("the rule does not protect {kinds}: their provider does not accept it");
        return Some(Finding::no(NOT_ENFORCEABLE, why));
    }
    if let Some(flaw) = flaws.sum_up() {
        return Some(flaw);
    }
    if programmed.status != "True" {
        let why = format!("a webhook configuration is not installed: {}", programmed.message);
        return Some(Finding::no("NotProgrammed", why));
    }
    if !flaws.missing_exports.is_empty() {
        return Some(Finding::no("ExportNotFound", flaws.missing_exports.join("; ")));
    }
    let is_local = input.control_plane == ControlPlane::Kcp
        && input.read_through == ReadThrough::Export
        && parsed.dependent().export.is_none();
    let why = || {
        format!(
            "no APIExport serves {}: with --read-through export the webhook can list them only where it has the right; \
             elsewhere deletions of {} are refused",
            parsed.dependent().gvr.group_resource(),
            kinds(rule.targets.iter().map(|target| &target.kind)),
        )
    };
    is_local.then(|| Finding::unknown("LocalDependents", why())).or_else(|| flaws.aggregated.clone())
}

/// Returns the condition of a usable rule: true if it is in force for all its targets, and for its dependents if it looks
/// for targets. `is_bearable` tells of a configuration whose probe is outstanding if the rule may still be said to be in
/// force there.
pub(crate) fn enforced(
    rule: &RulePlan,
    parsed: &Rule,
    hindrance: Option<Finding>,
    probe_results: &ProbeResults,
    is_bearable: impl Fn(&ConfigurationKey) -> bool,
) -> Finding {
    let mut findings = Findings::default();
    match hindrance {
        Some(hindrance) if hindrance.status == "False" => return hindrance,
        hindrance => findings.extend(hindrance),
    }
    let mut message = effects(parsed).join("; ");
    if message.is_empty() {
        message = "the rule names no dependency, so it protects nothing".to_owned();
    } else if parsed.failure_policy() == FailurePolicy::Ignore {
        message.push_str(
            "; if depguard can't find out whether dependents exist, it allows the deletion (failurePolicy: Ignore)",
        );
    } else if rule.checked_references().is_some_and(CheckedReferences::tolerate_bindings) {
        message.push_str("; while no webhook answers, the scheduler binds Pods to nodes without a check");
    }
    let expected = rule.expected();
    for key in rule.configurations() {
        findings.extend(match probe_results.get(&key) {
            Some(result) if !result.is_outstanding() => result.of_rule(&rule.key, &expected),
            _ if is_bearable(&key) => None,
            Some(result) if result.problem.is_some() => result.problem.clone(),
            _ => Some(Finding::unknown(NOT_ASKED, "depguard is asking the webhook whether it has loaded the rule")),
        });
    }
    findings.sum_up(&ORDER, "Enforced", &message)
}

/// Returns the effects of a usable rule on deletions, and on the references that its dependents make.
fn effects(rule: &Rule) -> Vec<String> {
    let mut by_effect: BTreeMap<OnDelete, BTreeSet<String>> = BTreeMap::new();
    let mut by_outcome: BTreeMap<Reverse<OnMissing>, BTreeSet<String>> = BTreeMap::new();
    for edge in rule.edges() {
        let target = edge.target.gvr.group_resource().to_string();
        by_outcome.entry(Reverse(edge.on_missing)).or_default().insert(target.clone());
        by_effect.entry(edge.on_delete).or_default().insert(target);
    }
    let of_deletions = by_effect.into_iter().map(|(effect, targets)| {
        let effect = match effect {
            OnDelete::Deny => "refuses",
            OnDelete::Warn => "warns about",
            OnDelete::Audit => "records",
        };
        format!("depguard {effect} deletions of {} while dependents refer to them", kinds(targets))
    });
    let dependents = rule.dependent().gvr.group_resource();
    let of_references = by_outcome.into_iter().filter_map(|(Reverse(on_missing), targets)| {
        // In a cycle nothing could be created first, so the webhook only warns there.
        let (effect, exception) = match on_missing {
            OnMissing::Ignore => return None,
            OnMissing::Audit => ("records creations and changes of", ""),
            OnMissing::Warn => ("warns about creations and changes of", ""),
            OnMissing::Deny => ("refuses to create or change", " (where such references form a cycle, it warns)"),
        };
        Some(format!("depguard {effect} {dependents} that refer to missing {}{exception}", kinds(targets)))
    });
    of_deletions.chain(of_references).collect()
}

/// Returns the condition of a rule that can't be used: its effect on deletions, and on its dependents.
pub(crate) fn of_invalid(rule: &RulePlan) -> Finding {
    let installed: Vec<_> = rule.targets.iter().filter(|target| !target.places.is_empty()).collect();
    let refused = "are refused where it applies";
    let deletions = (!installed.is_empty())
        .then(|| (format!("deletions of {}", kinds(installed.iter().map(|target| &target.kind))), refused));
    let changes = rule.checked_references().map(|references| {
        let outcome = match references.on_missing() {
            OnMissing::Ignore => "are allowed",
            OnMissing::Audit => "are recorded",
            OnMissing::Warn => "are allowed with a warning",
            OnMissing::Deny => refused,
        };
        (format!("creations and changes of {}", references.kind()), outcome)
    });
    let affected = deletions.into_iter().chain(changes).map(|(requests, outcome)| match rule.failure_policy {
        FailurePolicy::Fail => format!("{requests} {outcome}"),
        FailurePolicy::Ignore => {
            format!("{requests} are allowed as if the rule did not exist (failurePolicy: Ignore)")
        }
    });
    let affected: Vec<_> = affected.collect();
    if affected.is_empty() {
        let why = if rule.targets.is_empty() { "its kinds can't be read" } else { "nothing is installed" };
        return Finding::no(NOT_ENFORCEABLE, format!("the rule protects nothing: {why}"));
    }
    Finding::no(NOT_ENFORCEABLE, format!("until the rule is corrected, {}", affected.join("; ")))
}

fn kinds(kinds: impl IntoIterator<Item = impl ToString>) -> String {
    let kinds: BTreeSet<_> = kinds.into_iter().map(|kind| kind.to_string()).collect();
    kinds.into_iter().collect::<Vec<_>>().join(", ")
}

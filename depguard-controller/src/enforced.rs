//! What a rule does to deletions, all in all.

use std::collections::{BTreeMap, BTreeSet};

use depguard_core::api::{FailurePolicy, OnDelete};
use depguard_core::{Home, Rule};

use crate::check::{Checks, NOT_ASKED, ORDER};
use crate::findings::{Finding, Findings};
use crate::manifests::ReadThrough;
use crate::plan::{RulePlan, World};

const NOT_ENFORCEABLE: &str = "NotEnforceable";

/// What keeps a rule from doing what it says, however well it is installed.
#[derive(Debug, Default)]
pub(crate) struct Flaws {
    /// The dependencies that no dependent can hold.
    pub(crate) blind: Vec<usize>,
    /// The fields that name kinds about which nobody is asked, and why.
    pub(crate) unreviewed: Vec<(String, String)>,
    /// What is missing of the kinds that it names.
    pub(crate) missing: Vec<String>,
}

impl Flaws {
    fn sum_up(&self) -> Option<Finding> {
        if !self.unreviewed.is_empty() {
            let why: Vec<_> = self.unreviewed.iter().map(|(_, why)| why.as_str()).collect();
            return Some(Finding::no(NOT_ENFORCEABLE, format!("nothing is refused: {}", why.join("; "))));
        }
        if !self.blind.is_empty() {
            let blind: Vec<_> = self.blind.iter().map(|index| format!("spec.dependencies[{index}]")).collect();
            return Some(Finding::no(
                NOT_ENFORCEABLE,
                format!("nothing is found by {}: see Accepted", blind.join(", ")),
            ));
        }
        let missing = || Finding::no("KindNotFound", self.missing.join("; "));
        (!self.missing.is_empty()).then(missing)
    }
}

/// Whether a rule that can be used is in force for all its targets. `checks` is what was found where they are installed.
pub(crate) fn enforced(
    world: &World<'_>,
    rule: &RulePlan<'_>,
    parsed: &Rule,
    flaws: &Flaws,
    programmed: &Finding,
    checks: &Checks,
) -> Finding {
    if rule.targets.iter().any(|target| !target.refused.is_empty()) {
        let kinds = kinds(rule.targets.iter().filter(|target| target.places.is_empty()).map(|target| &target.kind));
        return Finding::no(NOT_ENFORCEABLE, format!("not for {kinds}: their provider does not accept the rule"));
    }
    if let Some(flaw) = flaws.sum_up() {
        return flaw;
    }
    if programmed.status != "True" {
        return Finding::no("NotProgrammed", format!("not everything is installed: {}", programmed.message));
    }
    let mut by_effect: BTreeMap<OnDelete, BTreeSet<String>> = BTreeMap::new();
    for edge in parsed.edges() {
        by_effect.entry(edge.on_delete).or_default().insert(edge.target.gvr.group_resource().to_string());
    }
    let effects = by_effect.into_iter().map(|(effect, targets)| {
        let effect = match effect {
            OnDelete::Deny => "refused",
            OnDelete::Warn => "warned of",
            OnDelete::Audit => "recorded",
        };
        format!("deletions of {} are {effect} while they are referred to", kinds(targets))
    });
    let mut message = effects.collect::<Vec<_>>().join("; ");
    if message.is_empty() {
        message = "the rule names no dependency, so it protects nothing".to_owned();
    } else if parsed.failure_policy() == FailurePolicy::Ignore {
        message.push_str("; where that can't be found out they go on");
    }
    let mut findings = Findings::default();
    if world.home == Home::Kcp && world.read_through == ReadThrough::Export && parsed.dependent().export.is_none() {
        findings.push(Finding::unknown(
            "LocalDependents",
            format!(
                "{} are served by no export: with --read-through export the webhook sees them only where it was granted to \
                 list them, and else deletions of {} are refused",
                parsed.dependent().gvr.group_resource(),
                kinds(rule.targets.iter().map(|target| &target.kind)),
            ),
        ));
    }
    for place in rule.targets.iter().flat_map(|target| &target.places) {
        let generation = parsed.generation().unwrap_or_default();
        findings.extend(match checks.get(place) {
            Some(check) => check.of_rule(&rule.key, parsed.failure_policy(), generation),
            None => Some(Finding::unknown(NOT_ASKED, "the webhook is being asked whether it has loaded the rule")),
        });
    }
    findings.sum_up(&ORDER, "Enforced", &message)
}

/// What a rule that can't be used does.
pub(crate) fn of_invalid(rule: &RulePlan<'_>) -> Finding {
    let installed: Vec<_> = rule.targets.iter().filter(|target| !target.places.is_empty()).collect();
    if installed.is_empty() {
        let why =
            if rule.targets.is_empty() { "it can't be read which kinds it speaks of" } else { "nothing is installed" };
        return Finding::no(NOT_ENFORCEABLE, format!("the rule protects nothing: {why}"));
    }
    let kinds = kinds(installed.iter().map(|target| &target.kind));
    let effect = match rule.failure_policy {
        FailurePolicy::Fail => "are refused where it bears",
        FailurePolicy::Ignore => "go on as if there were no such rule (failurePolicy: Ignore)",
    };
    Finding::no(NOT_ENFORCEABLE, format!("until the rule is put right, deletions of {kinds} {effect}"))
}

fn kinds(kinds: impl IntoIterator<Item = impl ToString>) -> String {
    let kinds: BTreeSet<_> = kinds.into_iter().map(|kind| kind.to_string()).collect();
    kinds.into_iter().collect::<Vec<_>>().join(", ")
}

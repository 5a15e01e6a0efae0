//! Plan of the webhook configurations, made from everything that is watched: pure, and made anew from all rules each
//! time.

use std::collections::{BTreeMap, BTreeSet};

use depguard_core::api::FailurePolicy;
use depguard_core::applicability::RuleGrants;
use depguard_core::model::GroupResource;
use depguard_core::rule::{ExportRef, RuleKey};
use depguard_core::{ControlPlane, LogicalCluster, Rule, WorkspacePath};
use depguard_kcp::{Claims, ReadThrough, WorkspaceLookup, WorkspaceLookups};
use serde_json::Value;

use crate::model::api_bindings::{Bindings, CONFIGURATIONS, Claim};
use crate::model::api_exports::Exports;
use crate::model::install_place::InstallPlace;
use crate::model::webhook_configuration::{self, Kinds, Step};
use crate::probe::result::ExpectedRules;
use crate::rules::written_rule::{Unusable, WrittenRule, WrittenTarget};
use crate::runtime::client_config::Clients;

/// Facts from which a plan is made.
#[derive(Debug)]
pub(crate) struct PlanInput<'v> {
    pub(crate) control_plane: ControlPlane,
    /// Way in which the webhook reads dependents.
    pub(crate) read_through: ReadThrough,
    /// Name of depguard's APIExport.
    pub(crate) export_name: &'v str,
    /// All DependencyRules, as the API server returned them, each with its parsed content.
    pub(crate) rules: Vec<(&'v Value, WrittenRule)>,
    /// Stand-ins of rules that are too many to be stored one by one.
    pub(crate) further: Vec<WrittenRule>,
    /// APIBindings of depguard; none in plain Kubernetes.
    pub(crate) bindings: Bindings,
    /// Configurations that have the name of ours.
    pub(crate) configurations: BTreeMap<InstallPlace, &'v Value>,
    pub(crate) exports: Exports<'v>,
    /// Rule grants of the exports, as far as they can be read: the workspaces whose rules each accepts.
    pub(crate) rule_grants: RuleGrants,
    /// Results of looking up the workspaces that rules name.
    pub(crate) lookups: BTreeMap<WorkspacePath, WorkspaceLookup>,
    pub(crate) clients: Clients,
}

/// Configurations to write, and the request of each rule.
#[derive(Debug)]
pub(crate) struct Plan<'v> {
    /// Each place that has, or should have, a configuration of ours.
    pub(crate) places: BTreeMap<InstallPlace, PlacePlan>,
    /// Each rule, in the order of the input.
    pub(crate) rules: Vec<RulePlan<'v>>,
}

/// Plan for a place.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum PlacePlan {
    /// Make the configuration as desired; `None`: there should be none.
    Do { step: Step, desired: Option<Value> },
    /// The workspace does not accept the claim that this needs.
    ClaimNotAccepted,
    /// The targets of this workspace are not known yet, as its path is not.
    PathUnknown,
}

/// Request of a rule.
#[derive(Debug)]
pub(crate) struct RulePlan<'v> {
    pub(crate) object: &'v Value,
    pub(crate) key: RuleKey,
    written: WrittenRule,
    pub(crate) failure_policy: FailurePolicy,
    /// Targets, also those that could be read from a rule that can't be used.
    pub(crate) targets: Vec<TargetPlan>,
}

/// Target of a rule.
#[derive(Debug)]
pub(crate) struct TargetPlan {
    /// Index in `spec.dependencies`.
    pub(crate) dependency: usize,
    pub(crate) export: Option<ExportRef>,
    pub(crate) kind: GroupResource,
    /// Places of its configuration.
    pub(crate) places: Vec<InstallPlace>,
    /// Workspaces of the target's path whose provider does not accept the rule. If there are no places either, no
    /// workspace at this path has bound depguard.
    pub(crate) refused: Vec<LogicalCluster>,
}

impl Plan<'_> {
    /// Returns the usable rules that have a target at each place, for the places that have any.
    pub(crate) fn rules_by_place(&self) -> BTreeMap<&InstallPlace, ExpectedRules> {
        let mut by_place: BTreeMap<_, ExpectedRules> = BTreeMap::new();
        for (rule, parsed) in self.rules.iter().filter_map(|rule| Some((rule, rule.rule().ok()?))) {
            for place in rule.targets.iter().flat_map(|target| &target.places) {
                let what = (rule.failure_policy, parsed.generation().unwrap_or_default());
                by_place.entry(place).or_default().insert(rule.key.clone(), what);
            }
        }
        by_place
    }
}

impl PlanInput<'_> {
    /// Returns the paths to look up, each with the logical clusters that claim it: the paths that rules name, and, if
    /// providers restrict whose rules they accept, the paths of the rules' own workspaces.
    pub(crate) fn claims(&self) -> Claims {
        if self.control_plane == ControlPlane::Kubernetes {
            return Claims::new();
        }
        let rules = self.rules.iter().map(|(_, written)| written).chain(&self.further);
        let targets = rules.flat_map(WrittenRule::targets);
        let paths = targets.filter_map(|target| Some(&target.export.as_ref()?.path));
        let claimants = |path| self.bindings.at(path).iter().cloned().collect();
        let mut claims: Claims = paths.map(|path| (path.clone(), claimants(path))).collect();
        if self.rule_grants.are_restricted() {
            let written = self.rules.iter().filter_map(|(_, rule)| rule.key().cluster.clone());
            claims.extend(self.rule_grants.claims(&written.collect::<Vec<_>>()));
        }
        claims
    }

    /// Adds the results of looking up these claims.
    pub(crate) fn add_lookups(&mut self, claims: &Claims, lookups: &WorkspaceLookups) {
        self.rule_grants = std::mem::take(&mut self.rule_grants).looked_up(&lookups.found(claims));
        self.lookups = claims.keys().filter_map(|path| Some((path.clone(), lookups.get(path)?.clone()))).collect();
    }

    /// Returns the logical clusters that a path may stand for: of those that claim the path, the one that its Workspace
    /// object names, or all if that is not known. A configuration too many does no harm.
    pub(crate) fn clusters(&self, path: &WorkspacePath) -> impl Iterator<Item = &LogicalCluster> {
        let found = match self.lookups.get(path) {
            Some(WorkspaceLookup::Found { cluster, .. }) => Some(cluster),
            _ => None,
        };
        self.bindings.at(path).iter().filter(move |claimant| found.is_none_or(|found| found == *claimant))
    }

    /// Returns true if a workspace's APIBinding is being deleted. The workspace's configuration must go first: with the
    /// binding goes the access to it, and the configuration would stay for ever and refuse what nobody can decide.
    pub(crate) fn is_unbinding(&self, place: &InstallPlace) -> bool {
        let binding = place.as_ref().and_then(|cluster| self.bindings.of(cluster));
        binding.is_some_and(|binding| binding.terminating)
    }

    /// Returns the name of a workspace for messages: the path that it claims, unless this claim was found to be false.
    pub(crate) fn display(&self, cluster: &LogicalCluster) -> String {
        let path = self.believed_path(cluster);
        path.map_or_else(|| format!("with logical cluster {cluster}"), ToString::to_string)
    }

    /// Returns the path that a workspace claims, unless this claim was found to be false.
    pub(crate) fn believed_path(&self, cluster: &LogicalCluster) -> Option<&WorkspacePath> {
        let path = self.bindings.of(cluster)?.path.as_ref()?;
        let believed = match self.lookups.get(path) {
            Some(WorkspaceLookup::Found { cluster: found, .. }) => found == cluster,
            Some(WorkspaceLookup::NotFound) => false,
            Some(WorkspaceLookup::Unknown { .. }) | None => true,
        };
        believed.then_some(path)
    }
}

/// Makes the plan.
///
/// A target is installed whether or not the exports that its rule names are seen: consumers' bindings outlive an
/// export, and only the webhook knows whether a rule applies to a deletion.
pub(crate) fn plan<'v>(input: &PlanInput<'v>) -> Plan<'v> {
    let rules: Vec<_> = input.rules.iter().map(|rule| plan_rule(input, rule)).collect();
    let further: Vec<_> = input.further.iter().map(|rule| (rule.failure_policy(), plan_targets(input, rule))).collect();
    let targets = rules.iter().map(|rule| (rule.failure_policy, &rule.targets));
    let targets = targets.chain(further.iter().map(|(policy, targets)| (*policy, targets)));
    let mut kinds: BTreeMap<&InstallPlace, Kinds> = BTreeMap::new();
    for (policy, target) in targets.flat_map(|(policy, targets)| targets.iter().map(move |target| (policy, target))) {
        for place in &target.places {
            kinds.entry(place).or_default().insert(policy, target.kind.clone());
        }
    }
    let places: BTreeSet<_> = kinds.keys().copied().chain(input.configurations.keys()).collect();
    let places = places.into_iter().filter_map(|place| {
        let kinds = kinds.get(place).filter(|_| !input.is_unbinding(place));
        let desired = kinds.map(|kinds| webhook_configuration::desired(kinds, &input.clients.at(place)));
        Some((place.clone(), plan_place(input, place, desired)?))
    });
    Plan { places: places.collect(), rules }
}

/// Returns the plan for a place; `None` if there is nothing to do, or nothing can be done since the workspace has no
/// binding of depguard any more.
fn plan_place(input: &PlanInput<'_>, place: &InstallPlace, desired: Option<Value>) -> Option<PlacePlan> {
    let existing = input.configurations.get(place).copied();
    let step = webhook_configuration::step(existing, desired.as_ref());
    if desired.is_none() && !matches!(step, Step::Delete | Step::Defer { .. }) {
        return None;
    }
    if let Some(cluster) = place {
        let binding = input.bindings.of(cluster)?;
        if binding.claim(CONFIGURATIONS) == Claim::NotAccepted {
            return Some(PlacePlan::ClaimNotAccepted);
        }
        if binding.path.is_none() {
            return Some(PlacePlan::PathUnknown);
        }
    }
    Some(PlacePlan::Do { step, desired })
}

fn plan_rule<'v>(input: &PlanInput<'v>, (object, written): &(&'v Value, WrittenRule)) -> RulePlan<'v> {
    RulePlan {
        object,
        key: written.key().clone(),
        failure_policy: written.failure_policy(),
        written: written.clone(),
        targets: plan_targets(input, written),
    }
}

fn plan_targets(input: &PlanInput<'_>, written: &WrittenRule) -> Vec<TargetPlan> {
    written.targets().iter().map(|target| plan_target(input, written.key(), target)).collect()
}

fn plan_target(input: &PlanInput<'_>, rule: &RuleKey, target: &WrittenTarget) -> TargetPlan {
    let WrittenTarget { dependency, export, kind } = target.clone();
    let (places, refused) = match (input.control_plane, &export, &rule.cluster) {
        (ControlPlane::Kubernetes, ..) => (vec![None], Vec::new()),
        (ControlPlane::Kcp, None, own) => (vec![own.clone()], Vec::new()),
        (ControlPlane::Kcp, Some(export), own) => {
            let accepts = |provider: &LogicalCluster| {
                own.as_ref().is_none_or(|own| input.rule_grants.grants(own, provider, &export.name))
            };
            let (accepting, refusing): (Vec<_>, Vec<_>) = input.clusters(&export.path).cloned().partition(accepts);
            (accepting.into_iter().map(Some).collect(), refusing)
        }
    };
    TargetPlan { dependency, export, kind, places, refused }
}

impl RulePlan<'_> {
    /// Returns the rule, or the reason why it can't be used.
    pub(crate) fn rule(&self) -> Result<&Rule, &Unusable> {
        self.written.rule()
    }
}

impl TargetPlan {
    /// Returns true if no workspace at the target's path has bound depguard.
    pub(crate) fn is_unbound(&self) -> bool {
        self.places.is_empty() && self.refused.is_empty()
    }
}

#[cfg(test)]
mod tests;

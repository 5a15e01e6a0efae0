//! Plan of the webhook configurations, made from everything that is watched: pure, and made anew from all rules each
//! time.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use depguard_core::api::FailurePolicy;
use depguard_core::applicability::RuleGrants;
use depguard_core::model::{GroupResource, ObjectName};
use depguard_core::rule::{ExportRef, RuleKey};
use depguard_core::{ControlPlane, LogicalCluster, Rule, WorkspacePath};
use depguard_kcp::{Claims, ObjectText, ReadThrough, WorkspaceLookup, WorkspaceLookups};
use serde_json::Value;

use crate::model::api_bindings::{Bindings, CONFIGURATIONS, Claim};
use crate::model::api_exports::Exports;
use crate::model::configuration_key::{ConfigurationKey, Side};
use crate::model::install_place::InstallPlace;
use crate::model::reference_configuration::{self, CheckedReferences, ReferringKinds};
use crate::model::spec_admission_configuration;
use crate::model::webhook_configuration::{self, Kinds, Step};
use crate::probe::result::{ExpectedRule, ExpectedRules};
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
    pub(crate) rules: Vec<(Arc<ObjectText>, WrittenRule)>,
    /// Stand-ins of rules that are too many to be stored one by one.
    pub(crate) further: Vec<WrittenRule>,
    /// APIBindings of depguard; none in plain Kubernetes.
    pub(crate) bindings: Bindings,
    /// Configurations that have the name of ours.
    pub(crate) configurations: BTreeMap<ConfigurationKey, Value>,
    pub(crate) exports: Exports,
    /// Rule grants of the exports, as far as they can be read: the workspaces whose rules each accepts.
    pub(crate) rule_grants: RuleGrants,
    /// Results of looking up the workspaces that rules name.
    pub(crate) lookups: BTreeMap<WorkspacePath, WorkspaceLookup>,
    pub(crate) clients: Clients,
}

/// Configurations to write, and the request of each rule.
#[derive(Debug)]
pub(crate) struct Plan {
    /// Each configuration of ours that is there, or should be.
    pub(crate) configurations: BTreeMap<ConfigurationKey, ConfigurationPlan>,
    /// Each rule, in the order of the input.
    pub(crate) rules: Vec<RulePlan>,
}

/// Plan for a configuration.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum ConfigurationPlan {
    /// Make the configuration as desired; `None`: there should be none.
    Do { step: Step, desired: Option<Value> },
    /// The workspace does not accept the claim that this needs.
    ClaimNotAccepted,
    /// The targets of this workspace are not known yet, as its path is not.
    PathUnknown,
}

/// Request of a rule.
#[derive(Debug)]
pub(crate) struct RulePlan {
    pub(crate) object: Arc<ObjectText>,
    pub(crate) key: RuleKey,
    written: WrittenRule,
    pub(crate) failure_policy: FailurePolicy,
    /// Targets, also those that could be read from a rule that can't be used.
    pub(crate) targets: Vec<TargetPlan>,
    /// Configuration that has the rule's references checked when they are made; `None` if the rule looks for no target.
    pub(crate) references: Option<ConfigurationKey>,
}

/// Target of a rule.
#[derive(Debug, Hash)]
pub(crate) struct TargetPlan {
    /// Index in `spec.dependencies`.
    pub(crate) dependency: usize,
    pub(crate) export: Option<ExportRef>,
    pub(crate) kind: GroupResource,
    excluded: Vec<ObjectName>,
    /// Places of its configuration.
    pub(crate) places: Vec<InstallPlace>,
    /// Workspaces of the target's path whose provider does not accept the rule. If there are no places either, no
    /// workspace at this path has bound depguard.
    pub(crate) refused: Vec<LogicalCluster>,
}

impl Plan {
    /// Returns the usable rules that each configuration is for, for the configurations that have any.
    pub(crate) fn rules_by_configuration(&self) -> BTreeMap<ConfigurationKey, ExpectedRules> {
        let mut by_key: BTreeMap<_, ExpectedRules> = BTreeMap::new();
        for rule in self.rules.iter().filter(|rule| rule.rule().is_ok()) {
            for key in rule.configurations() {
                by_key.entry(key).or_default().insert(rule.key.clone(), rule.expected());
            }
        }
        by_key
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
pub(crate) fn plan(input: &PlanInput<'_>) -> Plan {
    let rules: Vec<_> = input.rules.iter().map(|rule| plan_rule(input, rule)).collect();
    let desired = desired(input, &rules);
    let keys: BTreeSet<_> = desired.keys().chain(input.configurations.keys()).collect();
    let configurations = keys.into_iter().filter_map(|key| {
        let desired = desired.get(key).filter(|_| !input.is_unbinding(&key.place)).cloned();
        Some((key.clone(), plan_configuration(input, key, desired)?))
    });
    Plan { configurations: configurations.collect(), rules }
}

/// Returns the configurations that the rules ask for, and the one about rules themselves.
fn desired(input: &PlanInput<'_>, rules: &[RulePlan]) -> BTreeMap<ConfigurationKey, Value> {
    let further: Vec<_> = input.further.iter().map(|rule| (rule, plan_targets(input, rule))).collect();
    let rules = rules.iter().map(|rule| (&rule.written, &rule.targets));
    let rules = rules.chain(further.iter().map(|(rule, targets)| (*rule, targets)));
    let mut kinds: BTreeMap<&InstallPlace, Kinds> = BTreeMap::new();
    let mut referring: BTreeMap<InstallPlace, ReferringKinds> = BTreeMap::new();
    for (rule, targets) in rules {
        let policy = rule.failure_policy();
        for (target, place) in targets.iter().flat_map(|target| target.places.iter().map(move |place| (target, place)))
        {
            kinds.entry(place).or_default().insert(policy, target.kind.clone(), &target.excluded);
        }
        if let (Some(key), Some(references)) = (references_key(input, rule), rule.references()) {
            referring.entry(key.place).or_default().insert(policy, references);
        }
    }
    let of_targets = kinds.into_iter().map(|(place, kinds)| {
        let desired = webhook_configuration::desired(&kinds, &input.clients.at(place));
        (ConfigurationKey::new(place.clone(), Side::Targets), desired)
    });
    let of_dependents = referring.into_iter().map(|(place, kinds)| {
        let desired = reference_configuration::desired(&kinds, &input.clients.for_references(&place));
        (ConfigurationKey::new(place, Side::Dependents), desired)
    });
    let of_rules =
        spec_admission_configuration::desired(&input.clients.beside(&None, spec_admission_configuration::PATH));
    let of_rules = (ConfigurationKey::new(None, Side::Rules), of_rules);
    of_targets.chain(of_dependents).chain([of_rules]).collect()
}

/// Returns the key of the configuration that has a rule's references checked; `None` if the rule looks for no target.
/// API servers ask about dependents by the configuration where the dependents are defined: where the rule is.
fn references_key(input: &PlanInput<'_>, rule: &WrittenRule) -> Option<ConfigurationKey> {
    rule.references()?;
    let place = match input.control_plane {
        ControlPlane::Kubernetes => None,
        ControlPlane::Kcp => Some(rule.key().cluster.clone()?),
    };
    Some(ConfigurationKey::new(place, Side::Dependents))
}

/// Returns the plan for a configuration; `None` if there is nothing to do, or nothing can be done since the workspace has
/// no binding of depguard any more.
fn plan_configuration(
    input: &PlanInput<'_>,
    key: &ConfigurationKey,
    desired: Option<Value>,
) -> Option<ConfigurationPlan> {
    let existing = input.configurations.get(key);
    let step = webhook_configuration::step(existing, desired.as_ref());
    if desired.is_none() && !matches!(step, Step::Delete | Step::Defer { .. }) {
        return None;
    }
    if let Some(cluster) = &key.place {
        let binding = input.bindings.of(cluster)?;
        if binding.claim(CONFIGURATIONS) == Claim::NotAccepted {
            return Some(ConfigurationPlan::ClaimNotAccepted);
        }
        if binding.path.is_none() {
            return Some(ConfigurationPlan::PathUnknown);
        }
    }
    Some(ConfigurationPlan::Do { step, desired })
}

fn plan_rule(input: &PlanInput<'_>, (object, written): &(Arc<ObjectText>, WrittenRule)) -> RulePlan {
    RulePlan {
        object: Arc::clone(object),
        key: written.key().clone(),
        failure_policy: written.failure_policy(),
        written: written.clone(),
        targets: plan_targets(input, written),
        references: references_key(input, written),
    }
}

fn plan_targets(input: &PlanInput<'_>, written: &WrittenRule) -> Vec<TargetPlan> {
    written.targets().iter().map(|target| plan_target(input, written.key(), target)).collect()
}

fn plan_target(input: &PlanInput<'_>, rule: &RuleKey, target: &WrittenTarget) -> TargetPlan {
    let WrittenTarget { dependency, export, kind, excluded } = target.clone();
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
    TargetPlan { dependency, export, kind, excluded, places, refused }
}

impl RulePlan {
    /// Returns the rule, or the reason why it can't be used.
    pub(crate) fn rule(&self) -> Result<&Rule, &Unusable> {
        self.written.rule()
    }

    /// Returns the rule as a webhook should have loaded it.
    pub(crate) fn expected(&self) -> ExpectedRule {
        ExpectedRule { policy: self.failure_policy, version: self.written.version().clone() }
    }

    /// Returns the configurations that the rule needs. A key may occur more than once.
    pub(crate) fn configurations(&self) -> impl Iterator<Item = ConfigurationKey> {
        let places = self.targets.iter().flat_map(|target| &target.places);
        places.map(|place| ConfigurationKey::new(place.clone(), Side::Targets)).chain(self.references.clone())
    }

    /// Returns the references that the rule has checked; `None` if it looks for no target.
    pub(crate) fn checked_references(&self) -> Option<&CheckedReferences> {
        self.written.references()
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

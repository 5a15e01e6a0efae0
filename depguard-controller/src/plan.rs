//! From everything that is watched to what is to be done: pure, and made anew from all rules each time.

use std::collections::{BTreeMap, BTreeSet};

use depguard_core::api::FailurePolicy;
use depguard_core::{Consents, ExportRef, GroupResource, Home, LogicalCluster, Rule, RuleKey, WorkspacePath};
use depguard_kcp::{Claims, WorkspaceLookup};
use serde_json::Value;

use crate::bindings::{Bindings, CONFIGURATIONS, Claim};
use crate::clients::Clients;
use crate::configuration::{self, Kinds, Step};
use crate::exports::Exports;
use crate::manifests::ReadThrough;
use crate::written_rule::{Unusable, WrittenRule, WrittenTarget};

/// Where a configuration is installed: a provider's logical cluster, or in home kubernetes the one cluster (`None`).
pub(crate) type Place = Option<LogicalCluster>;

/// Rules, with their policies and generations.
pub(crate) type Rules = BTreeMap<RuleKey, (FailurePolicy, i64)>;

/// Everything that a plan is made from.
#[derive(Debug)]
pub(crate) struct World<'v> {
    pub(crate) home: Home,
    /// By which way the webhook reads dependents.
    pub(crate) read_through: ReadThrough,
    /// The name of depguard's APIExport.
    pub(crate) export_name: &'v str,
    /// All DependencyRules, as the API server returned them, and what they say.
    pub(crate) rules: Vec<(&'v Value, WrittenRule)>,
    /// What is known of rules that are not held one by one, as there are too many.
    pub(crate) further: Vec<WrittenRule>,
    /// depguard's own APIBindings; none in home kubernetes.
    pub(crate) bindings: Bindings,
    /// The configurations that have our configuration's name.
    pub(crate) configurations: BTreeMap<Place, &'v Value>,
    pub(crate) exports: Exports<'v>,
    /// Whose rules the exports accept, as far as it can be seen.
    pub(crate) consents: Consents,
    /// What is known of the workspaces that rules name.
    pub(crate) lookups: BTreeMap<WorkspacePath, WorkspaceLookup>,
    pub(crate) clients: Clients,
}

/// What is to be done, and what each rule asks for.
#[derive(Debug)]
pub(crate) struct Plan<'v> {
    /// Each place that has or should have a configuration of ours.
    pub(crate) places: BTreeMap<Place, PlacePlan>,
    /// Each rule, in the order of the world.
    pub(crate) rules: Vec<RulePlan<'v>>,
}

/// What is to be done at a place.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum PlacePlan {
    /// Make the configuration as desired; `None`: there should be none.
    Do { step: Step, desired: Option<Value> },
    /// The workspace does not let us.
    ClaimNotAccepted,
    /// It can't be told yet which targets this workspace has.
    PathUnknown,
}

/// What a rule asks for.
#[derive(Debug)]
pub(crate) struct RulePlan<'v> {
    pub(crate) object: &'v Value,
    pub(crate) key: RuleKey,
    written: WrittenRule,
    pub(crate) failure_policy: FailurePolicy,
    /// Its targets, also those that could be read from a rule that can't be used.
    pub(crate) targets: Vec<TargetPlan>,
}

/// A target of a rule.
#[derive(Debug)]
pub(crate) struct TargetPlan {
    /// The index in `spec.dependencies`.
    pub(crate) dependency: usize,
    pub(crate) export: Option<ExportRef>,
    pub(crate) kind: GroupResource,
    /// Where its configuration belongs.
    pub(crate) places: Vec<Place>,
    /// The workspaces of that path whose provider does not accept the rule. With no places either: nobody there has
    /// bound depguard.
    pub(crate) refused: Vec<LogicalCluster>,
}

impl Plan<'_> {
    /// The usable rules that have a target at each place, for the places that have any.
    pub(crate) fn rules_by_place(&self) -> BTreeMap<&Place, Rules> {
        let mut by_place: BTreeMap<_, Rules> = BTreeMap::new();
        for (rule, parsed) in self.rules.iter().filter_map(|rule| Some((rule, rule.rule().ok()?))) {
            for place in rule.targets.iter().flat_map(|target| &target.places) {
                let what = (rule.failure_policy, parsed.generation().unwrap_or_default());
                by_place.entry(place).or_default().insert(rule.key.clone(), what);
            }
        }
        by_place
    }
}

impl World<'_> {
    /// The paths that rules name, and where providers restrict whose rules they accept, those of the rules' own
    /// workspaces; and the logical clusters that claim each: what is to be looked up.
    pub(crate) fn claims(&self) -> Claims {
        if self.home == Home::Kubernetes {
            return Claims::new();
        }
        let rules = self.rules.iter().map(|(_, written)| written).chain(&self.further);
        let targets = rules.flat_map(WrittenRule::targets);
        let paths = targets.filter_map(|target| Some(&target.export.as_ref()?.path));
        let claimants = |path| self.bindings.at(path).iter().cloned().collect();
        let mut claims: Claims = paths.map(|path| (path.clone(), claimants(path))).collect();
        if self.consents.restrict() {
            let written = self.rules.iter().filter_map(|(_, rule)| rule.key().cluster.clone());
            claims.extend(self.consents.claims(&written.collect::<Vec<_>>()));
        }
        claims
    }

    /// The logical clusters that a path may stand for: of those that claim it the one that its Workspace object names,
    /// or all where that is not known. A configuration too many does no harm.
    pub(crate) fn clusters(&self, path: &WorkspacePath) -> impl Iterator<Item = &LogicalCluster> {
        let found = match self.lookups.get(path) {
            Some(WorkspaceLookup::Found { cluster, .. }) => Some(cluster),
            _ => None,
        };
        self.bindings.at(path).iter().filter(move |claimant| found.is_none_or(|found| found == *claimant))
    }

    /// Whether a workspace's APIBinding is being deleted. Its configuration must go first: with the binding goes the way
    /// to it, and it would stay, and refuse what nobody can decide, for ever.
    pub(crate) fn is_unbinding(&self, place: &Place) -> bool {
        let binding = place.as_ref().and_then(|cluster| self.bindings.of(cluster));
        binding.is_some_and(|binding| binding.terminating)
    }

    /// A workspace as messages call it: by the path that it claims, unless that was found to be a lie.
    pub(crate) fn display(&self, cluster: &LogicalCluster) -> String {
        let path = self.believed_path(cluster);
        path.map_or_else(|| format!("with logical cluster {cluster}"), ToString::to_string)
    }

    /// The path that a workspace claims, unless that was found to be a lie.
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

/// Plans.
///
/// A target is installed whether or not the exports that its rule names are seen: consumers' bindings outlive an
/// export, and the webhook alone knows whether a rule bears on a deletion.
pub(crate) fn plan<'v>(world: &World<'v>) -> Plan<'v> {
    let rules: Vec<_> = world.rules.iter().map(|rule| plan_rule(world, rule)).collect();
    let further: Vec<_> = world.further.iter().map(|rule| (rule.failure_policy(), plan_targets(world, rule))).collect();
    let targets = rules.iter().map(|rule| (rule.failure_policy, &rule.targets));
    let targets = targets.chain(further.iter().map(|(policy, targets)| (*policy, targets)));
    let mut kinds: BTreeMap<&Place, Kinds> = BTreeMap::new();
    for (policy, target) in targets.flat_map(|(policy, targets)| targets.iter().map(move |target| (policy, target))) {
        for place in &target.places {
            kinds.entry(place).or_default().insert(policy, target.kind.clone());
        }
    }
    let places: BTreeSet<_> = kinds.keys().copied().chain(world.configurations.keys()).collect();
    let places = places.into_iter().filter_map(|place| {
        let kinds = kinds.get(place).filter(|_| !world.is_unbinding(place));
        let desired = kinds.map(|kinds| configuration::desired(kinds, &world.clients.at(place)));
        Some((place.clone(), plan_place(world, place, desired)?))
    });
    Plan { places: places.collect(), rules }
}

/// `None`: nothing is to be done there, or nothing can be, as nobody there has bound depguard any more.
fn plan_place(world: &World<'_>, place: &Place, desired: Option<Value>) -> Option<PlacePlan> {
    let existing = world.configurations.get(place).copied();
    let step = configuration::step(existing, desired.as_ref());
    if desired.is_none() && !matches!(step, Step::Delete | Step::Defer { .. }) {
        return None;
    }
    if let Some(cluster) = place {
        let binding = world.bindings.of(cluster)?;
        if binding.claim(CONFIGURATIONS) == Claim::NotAccepted {
            return Some(PlacePlan::ClaimNotAccepted);
        }
        if binding.path.is_none() {
            return Some(PlacePlan::PathUnknown);
        }
    }
    Some(PlacePlan::Do { step, desired })
}

fn plan_rule<'v>(world: &World<'v>, (object, written): &(&'v Value, WrittenRule)) -> RulePlan<'v> {
    RulePlan {
        object,
        key: written.key().clone(),
        failure_policy: written.failure_policy(),
        written: written.clone(),
        targets: plan_targets(world, written),
    }
}

fn plan_targets(world: &World<'_>, written: &WrittenRule) -> Vec<TargetPlan> {
    written.targets().iter().map(|target| plan_target(world, written.key(), target)).collect()
}

fn plan_target(world: &World<'_>, rule: &RuleKey, target: &WrittenTarget) -> TargetPlan {
    let WrittenTarget { dependency, export, kind } = target.clone();
    let (places, refused) = match (world.home, &export, &rule.cluster) {
        (Home::Kubernetes, ..) => (vec![None], Vec::new()),
        (Home::Kcp, None, own) => (vec![own.clone()], Vec::new()),
        (Home::Kcp, Some(export), own) => {
            let accepts = |provider: &LogicalCluster| {
                own.as_ref().is_none_or(|own| world.consents.accept(own, provider, &export.name))
            };
            let (accepting, refusing): (Vec<_>, Vec<_>) = world.clusters(&export.path).cloned().partition(accepts);
            (accepting.into_iter().map(Some).collect(), refusing)
        }
    };
    TargetPlan { dependency, export, kind, places, refused }
}

impl RulePlan<'_> {
    /// The rule, or why it can't be used.
    pub(crate) fn rule(&self) -> Result<&Rule, &Unusable> {
        self.written.rule()
    }
}

impl TargetPlan {
    /// Whether nobody at its path has bound depguard.
    pub(crate) fn is_unbound(&self) -> bool {
        self.places.is_empty() && self.refused.is_empty()
    }
}

#[cfg(test)]
mod tests;

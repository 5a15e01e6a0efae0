//! From everything that is watched to what is to be done: pure, and made anew from all rules each time.

use std::collections::{BTreeMap, BTreeSet};

use depguard_core::{ExportRef, GroupResource, Home, LogicalCluster, Outline, Rule, RuleKey, WorkspacePath};
use serde_json::Value;

use crate::bindings::{Bindings, CONFIGURATIONS, Claim};
use crate::configuration::{self, Step};
use crate::exports::Exports;

/// Where a configuration is installed: a provider's logical cluster, or in home kubernetes the one cluster (`None`).
pub(crate) type Place = Option<LogicalCluster>;

/// Everything that a plan is made from.
#[derive(Debug)]
pub(crate) struct World<'v> {
    pub(crate) home: Home,
    /// The name of depguard's APIExport.
    pub(crate) export_name: &'v str,
    /// All DependencyRules, as the API server returned them.
    pub(crate) rules: Vec<&'v Value>,
    /// depguard's own APIBindings; none in home kubernetes.
    pub(crate) bindings: Bindings,
    /// The configurations that have our configuration's name.
    pub(crate) configurations: BTreeMap<Place, &'v Value>,
    pub(crate) exports: Exports<'v>,
    /// How API servers reach the webhook.
    pub(crate) client_config: Value,
}

/// What is to be done, and what each rule asks for.
#[derive(Debug)]
pub(crate) struct Plan<'v> {
    /// Each place that has or should have a configuration of ours.
    pub(crate) places: BTreeMap<Place, PlacePlan>,
    /// Each rule, in the order of the world.
    pub(crate) rules: Vec<RulePlan<'v>>,
    /// The paths that stand for no workspace that has bound depguard.
    pub(crate) unbound: BTreeSet<WorkspacePath>,
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
    /// The rule, or why it can't be used.
    pub(crate) rule: Result<Rule, String>,
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
    /// Where its configuration belongs. Empty: its workspace has not bound depguard.
    pub(crate) places: Vec<Place>,
}

/// Plans.
///
/// A target is installed whether or not the exports that its rule names are seen: consumers' bindings outlive an
/// export, and the webhook alone knows whether a rule bears on a deletion.
pub(crate) fn plan<'v>(world: &World<'v>) -> Plan<'v> {
    let rules: Vec<_> = world.rules.iter().map(|rule| plan_rule(world, rule)).collect();
    let mut kinds: BTreeMap<&Place, BTreeSet<GroupResource>> = BTreeMap::new();
    let mut unbound = BTreeSet::new();
    for target in rules.iter().flat_map(|rule| &rule.targets) {
        for place in &target.places {
            kinds.entry(place).or_default().insert(target.kind.clone());
        }
        if let (true, Some(export)) = (target.places.is_empty(), &target.export) {
            unbound.insert(export.path.clone());
        }
    }
    let places: BTreeSet<_> = kinds.keys().copied().chain(world.configurations.keys()).collect();
    let places = places.into_iter().filter_map(|place| {
        let desired = kinds.get(place).map(|kinds| configuration::desired(kinds, &world.client_config));
        Some((place.clone(), plan_place(world, place, desired)?))
    });
    Plan { places: places.collect(), unbound, rules }
}

/// `None`: nothing is to be done there, or nothing can be, as nobody there has bound depguard any more.
fn plan_place(world: &World<'_>, place: &Place, desired: Option<Value>) -> Option<PlacePlan> {
    let existing = world.configurations.get(place).copied();
    let step = configuration::step(existing, desired.as_ref());
    if desired.is_none() && step != Step::Delete {
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

fn plan_rule<'v>(world: &World<'v>, object: &'v Value) -> RulePlan<'v> {
    let place = |export: Option<&ExportRef>, key: &RuleKey| match (world.home, export) {
        (Home::Kubernetes, _) => vec![None],
        (Home::Kcp, Some(export)) => world.bindings.at(&export.path).iter().cloned().map(Some).collect(),
        (Home::Kcp, None) => vec![key.cluster.clone()],
    };
    match Rule::parse(world.home, object) {
        Ok(rule) => {
            let key = rule.key().clone();
            let targets = rule.edges().iter().map(|edge| TargetPlan {
                dependency: edge.index,
                export: edge.target.export.clone(),
                kind: edge.target.gvr.group_resource(),
                places: place(edge.target.export.as_ref(), &key),
            });
            RulePlan { object, targets: targets.collect(), key, rule: Ok(rule) }
        }
        // The webhook refuses where such a rule bears, and is asked only where its targets are installed.
        Err(error) => {
            let outline = Outline::read(world.home, object)
                .filter(|outline| world.home == Home::Kubernetes || outline.key.cluster.is_some());
            let (key, targets) = match outline {
                Some(outline) => (outline.key, outline.targets),
                None => (key_of(world.home, object), Vec::new()),
            };
            let targets = targets.into_iter().enumerate().map(|(dependency, (export, kind))| TargetPlan {
                dependency,
                places: place(export.as_ref(), &key),
                export,
                kind,
            });
            RulePlan { object, targets: targets.collect(), key: key.clone(), rule: Err(error.to_string()) }
        }
    }
}

/// Which rule an object is whose spec can't be read at all.
fn key_of(home: Home, object: &Value) -> RuleKey {
    let text = |pointer: &str| object.pointer(pointer).and_then(Value::as_str);
    let cluster = match home {
        Home::Kcp => text("/metadata/annotations/kcp.io~1cluster"),
        Home::Kubernetes => None,
    };
    RuleKey {
        cluster: cluster.and_then(|cluster| LogicalCluster::parse(cluster).ok()),
        name: text("/metadata/name").unwrap_or_default().to_owned(),
    }
}

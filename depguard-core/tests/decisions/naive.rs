//! Naive decision procedure: decides over trees of JSON, with all of the server's state at hand.

mod cycles;

use std::collections::BTreeSet;

use depguard_core::api::FailurePolicy;
use depguard_core::decision::{AllowReason, MissingTargets, Reason, Referrers, Verdict};
use depguard_core::{ControlPlane, Decision, WorkspacePath};
use serde_json::Value;

use crate::world::{CONSUMER, Object, World, named};

pub(crate) mod missing;
mod owners;
pub(crate) mod reference;

/// Outcome of a decision.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum NaiveVerdict {
    Allowed(AllowReason),
    Denied { blockers: BTreeSet<String>, problems: bool },
}

/// Remarks beside the verdict: objects named in a warning and in the audit annotations, and if they report facts that
/// could not be found out.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Said {
    pub(crate) warned: BTreeSet<String>,
    pub(crate) audited: BTreeSet<String>,
    told: bool,
    recorded: bool,
}

fn shown(by: &Referrers) -> BTreeSet<String> {
    by.blockers.iter().map(ToString::to_string).collect()
}

impl NaiveVerdict {
    pub(crate) fn from_decision(decision: &Decision) -> Self {
        let denial = match decision.verdict() {
            Verdict::Allowed(because) => return Self::Allowed(*because),
            Verdict::Denied(denial) => denial,
        };
        match denial.reason() {
            Reason::Referenced { by, problems, .. } => {
                Self::Denied { blockers: shown(by), problems: !problems.is_empty() }
            }
            Reason::MissingTargets { missing, problems } => {
                let blockers = missing.targets.iter().map(named).collect();
                Self::Denied { blockers, problems: !problems.is_empty() }
            }
            Reason::Undecided { .. } => Self::Denied { blockers: BTreeSet::new(), problems: true },
            other => panic!("no evaluation says so: {other:?}"),
        }
    }

    pub(crate) fn allowed(&self) -> bool {
        matches!(self, Self::Allowed(_))
    }
}

impl Said {
    pub(crate) fn from_decision(decision: &Decision) -> Self {
        let notes = decision.diagnostics();
        let missing = |targets: &Option<MissingTargets>| {
            targets.iter().flat_map(|missing| &missing.targets).map(named).collect::<BTreeSet<_>>()
        };
        let referrers = |by: &Option<Referrers>| by.as_ref().map(shown).unwrap_or_default();
        Self {
            warned: &referrers(&notes.warned) | &missing(&notes.missing_warned),
            audited: &referrers(&notes.audited) | &missing(&notes.missing_audited),
            told: !notes.problems.is_empty(),
            recorded: !notes.audited_problems.is_empty(),
        }
    }
}

/// Decides if a tenant may delete `target`, and returns the remarks beside the verdict.
pub(crate) fn decide(world: &World, target: &Object) -> (NaiveVerdict, Said) {
    let policy = if world.failure_policy == FailurePolicy::Fail { "Fail" } else { "Ignore" };
    let (mut edges, mut said): (Vec<(&Value, &Value)>, _) = (Vec::new(), Said::default());
    for rule in world.rules.iter().filter(|rule| rule["spec"]["failurePolicy"].as_str().unwrap_or("Fail") == policy) {
        for dependency in rule["spec"]["dependencies"].as_array().unwrap() {
            if dependency["group"] == target.kind.group && dependency["resource"] == target.kind.resource {
                edges.push((rule, dependency));
            }
        }
    }
    if edges.is_empty() {
        return (NaiveVerdict::Allowed(AllowReason::NoRule), said);
    }
    if target.json["metadata"]["deletionTimestamp"].is_string() && !owners::orphans(target) {
        return (NaiveVerdict::Allowed(AllowReason::Terminating), said);
    }
    edges.retain(|(rule, dependency)| {
        world.control_plane == ControlPlane::Kubernetes || applies(world, rule, dependency)
    });
    if edges.is_empty() {
        return (NaiveVerdict::Allowed(AllowReason::NotBound), said);
    }
    let (mut blockers, mut released, mut standing, mut problems) =
        (BTreeSet::new(), BTreeSet::new(), BTreeSet::new(), false);
    for (rule, dependency) in edges {
        let refuses = refuses_deletion(dependency);
        let (names, trouble) = match dependency["onDelete"].as_str() {
            Some("Warn") => (&mut said.warned, &mut said.told),
            Some("Audit") => (&mut said.audited, &mut said.recorded),
            _ if policy == "Ignore" => (&mut blockers, &mut said.told),
            _ => (&mut blockers, &mut problems),
        };
        let Some(found) = blocked_by(world, rule, dependency, target) else {
            *trouble = true;
            continue;
        };
        let cycle = cycles::on_one(world, rule, dependency, |_, dependency| refuses_deletion(dependency));
        for Referrer { shown, object, doubtful } in found {
            let let_go = match cycle {
                Some((dependents, targets)) => {
                    Some(cycles::is_going(world, targets, target) && cycles::is_going(world, dependents, object))
                }
                None => cycles::is_kept_last(world, rule, dependency, target, object).then_some(world.cluster_going),
            };
            match let_go.filter(|_| refuses) {
                None if doubtful => *trouble = true,
                None => {
                    names.insert(shown);
                }
                Some(let_go) => {
                    if !let_go {
                        standing.insert(shown.clone());
                    }
                    released.insert(shown);
                }
            }
        }
    }
    let refused = if blockers.is_empty() && !problems { standing } else { &blockers | &released };
    said.warned = &said.warned - &refused;
    said.audited = &(&said.audited - &refused) - &said.warned;
    let because = match (&said, released.is_empty()) {
        (Said { warned, .. }, _) if !warned.is_empty() => AllowReason::Warned,
        (Said { audited, .. }, _) if !audited.is_empty() => AllowReason::Audited,
        (Said { told, recorded, .. }, _) if *told || *recorded => AllowReason::Tolerated,
        (_, false) => AllowReason::TornDown,
        (_, true) => AllowReason::Unreferenced,
    };
    if refused.is_empty() && !problems {
        (NaiveVerdict::Allowed(because), said)
    } else {
        (NaiveVerdict::Denied { blockers: refused, problems }, said)
    }
}

fn refuses_deletion(dependency: &Value) -> bool {
    dependency["onDelete"].as_str().is_none_or(|on_delete| on_delete == "Deny")
}

fn applies(world: &World, rule: &Value, dependency: &Value) -> bool {
    let cluster = &rule["metadata"]["annotations"]["kcp.io/cluster"];
    let (of_dependent, of_target) = (&rule["spec"]["dependent"]["apiExportName"], &dependency["apiExportRef"]);
    let has_local_end = of_dependent.is_null() || of_target.is_null();
    !(has_local_end && cluster != CONSUMER) && has_dependents(world, rule) && has_targets(world, dependency)
}

/// Returns true if a binding serves the kind, from an export of this name by a right provider.
fn is_bound(world: &World, kind: &Value, export: &Value, is_provider: impl Fn(&Value) -> bool) -> bool {
    let mut of_export =
        world.bindings.iter().filter(|binding| binding["spec"]["reference"]["export"]["name"] == *export);
    of_export.any(|binding| is_provider(binding) && serves(binding, kind))
}

fn serves(binding: &Value, kind: &Value) -> bool {
    let mut bound = binding["status"]["boundResources"].as_array().unwrap().iter();
    bound.any(|resource| resource["group"] == kind["group"] && resource["resource"] == kind["resource"])
}

/// Returns true if the dependents' kind is local, or bound from the rule's own provider.
fn has_dependents(world: &World, rule: &Value) -> bool {
    let dependent = &rule["spec"]["dependent"];
    let cluster = &rule["metadata"]["annotations"]["kcp.io/cluster"];
    let export = &dependent["apiExportName"];
    let is_own = |binding: &Value| binding["status"]["apiExportClusterName"] == *cluster;
    export.is_null() || is_bound(world, dependent, export, is_own)
}

/// Returns true if the targets' kind is local, or bound from a provider that may be the rule's.
fn has_targets(world: &World, dependency: &Value) -> bool {
    let of_target = &dependency["apiExportRef"];
    let provides_target = |binding: &Value| {
        let path = of_target["path"].as_str().unwrap();
        match world.workspaces.cluster(&WorkspacePath::parse(path).unwrap()) {
            Some(cluster) => binding["status"]["apiExportClusterName"] == cluster.as_str(),
            None => {
                let own = binding["spec"]["reference"]["export"]["path"].as_str().unwrap();
                own == path || !own.contains(':')
            }
        }
    };
    of_target.is_null() || is_bound(world, dependency, &of_target["name"], provides_target)
}

fn is_broken(world: &World, rule: &Value) -> bool {
    let exported = |rule: &Value| !rule["apiExportName"].is_null() || !rule["apiExportRef"].is_null();
    let dependencies = rule["spec"]["dependencies"].as_array().unwrap();
    let misplaced = world.control_plane == ControlPlane::Kubernetes
        && (exported(&rule["spec"]["dependent"]) || dependencies.iter().any(exported));
    let unreadable =
        |dependency: &Value| dependency["fieldRef"]["path"].as_str().is_some_and(|path| path.contains(".."));
    let may_mean_nothing = |dependency: &Value| {
        (!dependency["selectorRef"].is_null() || dependency["optional"] == true)
            && !["Ignore", ""].contains(&dependency["onMissing"].as_str().unwrap_or(""))
    };
    let excludes_in_vain =
        |dependency: &Value| !dependency["excludeNames"].is_null() && !dependency["fieldRef"]["value"].is_null();
    let is_wrong =
        |dependency: &Value| unreadable(dependency) || may_mean_nothing(dependency) || excludes_in_vain(dependency);
    misplaced || !rule["spec"]["selector"].is_null() || dependencies.iter().any(is_wrong)
}

/// Object that refers to the target by one edge.
struct Referrer<'w> {
    shown: String,
    object: &'w Object,
    /// True if the object's reference is unclear.
    doubtful: bool,
}

/// Returns the objects that refer to the target; `None` if that cannot be known.
fn blocked_by<'w>(world: &'w World, rule: &Value, dependency: &Value, target: &Object) -> Option<Vec<Referrer<'w>>> {
    let dependent = &rule["spec"]["dependent"];
    let exported = |rule: &Value| !rule["apiExportName"].is_null() || !rule["apiExportRef"].is_null();
    if is_broken(world, rule) {
        return None;
    }
    let own = &target.json["metadata"];
    let fixed = &dependency["fieldRef"]["namespace"];
    if !fixed.is_null() && !own["namespace"].is_null() && *fixed != own["namespace"] {
        return Some(Vec::new());
    }
    // Nobody refers to a target that a rule itself excludes, or does not name or select, whatever can't be read.
    if dependency["excludeNames"].as_array().is_some_and(|names| names.contains(&own["name"])) {
        return Some(Vec::new());
    }
    let named = &dependency["fieldRef"]["value"];
    if !named.is_null() && *named != own["name"] {
        return Some(Vec::new());
    }
    let (selector, labels) = (&dependency["selectorRef"]["selector"], own["labels"].as_object());
    if !selector.is_null() && reference::selects(selector, &labels.cloned().unwrap_or_default()) == Some(false) {
        return Some(Vec::new());
    }
    let same = |group: &str, resource: &str| dependent["group"] == group && dependent["resource"] == resource;
    let mut served = world.kinds.iter().filter(|kind| same(kind.group, kind.resource)).peekable();
    let nowhere = served.peek().is_none_or(|kind| kind.versions.is_empty());
    if !served.any(|kind| kind.versions.iter().any(|version| dependent["version"] == *version)) {
        // A local kind without a served version has no objects.
        let local = world.control_plane == ControlPlane::Kubernetes || !exported(dependent);
        return (local && nowhere).then(Vec::new);
    }
    let shown = |object: &Object| {
        let metadata = &object.json["metadata"];
        let (kind, name) = (dependent["kind"].as_str().unwrap(), metadata["name"].as_str().unwrap());
        match metadata["namespace"].as_str() {
            Some(namespace) if own["namespace"] != namespace => format!("{kind}/{namespace}/{name}"),
            _ => format!("{kind}/{name}"),
        }
    };
    let objects = world.objects.iter().filter(|object| same(object.kind.group, object.kind.resource));
    let referrers = objects.filter_map(|object| {
        let goes_too = dependency["ownedDependents"] == "Ignore"
            && !owners::orphans(target)
            && owners::collects(world, target, object);
        let refers = reference::refers(dependent, dependency, &object.json, &target.json, goes_too);
        let referrer = Referrer { shown: shown(object), object, doubtful: refers.is_none() };
        (refers != Some(false)).then_some(referrer)
    });
    Some(referrers.collect())
}

//! The decision procedure once more, over trees of JSON and with all of the server's state at hand.

mod cycles;

use std::collections::BTreeSet;

use depguard_core::{Because, Decision, Home, Reason, WorkspacePath};
use serde_json::Value;

use crate::world::{CONSUMER, Object, World};

mod reference;

/// What a decision comes to.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    Allowed(Because),
    Denied { blockers: BTreeSet<String>, problems: bool },
}

impl Verdict {
    pub(crate) fn of(decision: &Decision) -> Self {
        let denial = match decision {
            Decision::Allowed(because) => return Self::Allowed(*because),
            Decision::Denied(denial) => denial,
        };
        match denial.reason() {
            Reason::Referenced { blockers, problems, .. } => Self::Denied {
                blockers: blockers.iter().map(ToString::to_string).collect(),
                problems: !problems.is_empty(),
            },
            Reason::Undecided { .. } => Self::Denied { blockers: BTreeSet::new(), problems: true },
            Reason::NotReady { .. } => panic!("no evaluation says so"),
        }
    }

    pub(crate) fn allowed(&self) -> bool {
        matches!(self, Self::Allowed(_))
    }
}

/// Whether a tenant may delete `target`.
pub(crate) fn decide(world: &World, target: &Object) -> Verdict {
    let mut edges: Vec<(&Value, &Value)> = Vec::new();
    for rule in &world.rules {
        for dependency in rule["spec"]["dependencies"].as_array().unwrap() {
            if dependency["group"] == target.kind.group && dependency["resource"] == target.kind.resource {
                edges.push((rule, dependency));
            }
        }
    }
    if edges.is_empty() {
        return Verdict::Allowed(Because::NoRule);
    }
    if target.json["metadata"]["deletionTimestamp"].is_string() {
        return Verdict::Allowed(Because::Terminating);
    }
    edges.retain(|(rule, dependency)| world.home == Home::Kubernetes || bears(world, rule, dependency));
    if edges.is_empty() {
        return Verdict::Allowed(Because::NotBound);
    }
    let (mut blockers, mut released, mut standing, mut problems) =
        (BTreeSet::new(), BTreeSet::new(), BTreeSet::new(), false);
    for (rule, dependency) in edges {
        let Some(found) = blocked_by(world, rule, dependency, target) else {
            problems = true;
            continue;
        };
        let cycle = cycles::on_one(world, rule, dependency);
        for Referrer { shown, object, doubtful } in found {
            let let_go = match cycle {
                Some((dependents, targets)) => {
                    Some(cycles::is_going(world, targets, target) && cycles::is_going(world, dependents, object))
                }
                None => cycles::is_kept_last(world, rule, dependency, target, object).then_some(world.cluster_going),
            };
            match let_go {
                None if doubtful => problems = true,
                None => {
                    blockers.insert(shown);
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
    match (blockers.is_empty() && !problems, released.is_empty(), standing.is_empty()) {
        (true, true, _) => Verdict::Allowed(Because::Unreferenced),
        (true, false, true) => Verdict::Allowed(Because::TornDown),
        (true, false, false) => Verdict::Denied { blockers: standing, problems },
        (false, ..) => Verdict::Denied { blockers: &blockers | &released, problems },
    }
}

fn bears(world: &World, rule: &Value, dependency: &Value) -> bool {
    let dependent = &rule["spec"]["dependent"];
    let cluster = &rule["metadata"]["annotations"]["kcp.io/cluster"];
    let (of_dependent, of_target) = (&dependent["apiExportName"], &dependency["apiExportRef"]);
    if (of_dependent.is_null() || of_target.is_null()) && cluster != CONSUMER {
        return false;
    }
    let bound = |kind: &Value, name: &Value, is_provider: &dyn Fn(&Value) -> bool| {
        world.bindings.iter().any(|binding| {
            binding["spec"]["reference"]["export"]["name"] == *name
                && is_provider(binding)
                && binding["status"]["boundResources"]
                    .as_array()
                    .unwrap()
                    .iter()
                    .any(|resource| resource["group"] == kind["group"] && resource["resource"] == kind["resource"])
        })
    };
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
    let provides_dependent = |binding: &Value| binding["status"]["apiExportClusterName"] == *cluster;
    (of_dependent.is_null() || bound(dependent, of_dependent, &provides_dependent))
        && (of_target.is_null() || bound(dependency, &of_target["name"], &provides_target))
}

fn is_broken(world: &World, rule: &Value) -> bool {
    let exported = |rule: &Value| !rule["apiExportName"].is_null() || !rule["apiExportRef"].is_null();
    let dependencies = rule["spec"]["dependencies"].as_array().unwrap();
    let misplaced =
        world.home == Home::Kubernetes && (exported(&rule["spec"]["dependent"]) || dependencies.iter().any(exported));
    let unreadable =
        |dependency: &Value| dependency["fieldRef"]["path"].as_str().is_some_and(|path| path.contains(".."));
    misplaced || !rule["spec"]["selector"].is_null() || dependencies.iter().any(unreadable)
}

/// Who refers to the target, by one edge.
struct Referrer<'w> {
    shown: String,
    object: &'w Object,
    /// Whether it can't be told if it does.
    doubtful: bool,
}

/// `None` where nothing can be known.
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
    let same = |group: &str, resource: &str| dependent["group"] == group && dependent["resource"] == resource;
    let mut served = world.kinds.iter().filter(|kind| same(kind.group, kind.resource)).peekable();
    let nowhere = served.peek().is_none_or(|kind| kind.versions.is_empty());
    if !served.any(|kind| kind.versions.iter().any(|version| dependent["version"] == *version)) {
        // A local kind that no version serves has no objects.
        let local = world.home == Home::Kubernetes || !exported(dependent);
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
        let refers = reference::refers(dependent, dependency, &object.json, &target.json);
        let referrer = Referrer { shown: shown(object), object, doubtful: refers.is_none() };
        (refers != Some(false)).then_some(referrer)
    });
    Some(referrers.collect())
}

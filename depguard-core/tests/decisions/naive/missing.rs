//! Naive check of a creation or an update: enumerates all names of both states, and looks among all objects.

use std::collections::BTreeSet;

use depguard_core::ControlPlane;
use depguard_core::api::FailurePolicy;
use depguard_core::decision::AllowReason;
use regex::Regex;
use serde_json::Value;

use super::reference::{self, NamedObject};
use super::{NaiveVerdict, Said, cycles, has_dependents, has_targets, is_broken, owners, serves};
use crate::world::{CONSUMER, Kind, Object, World};

/// Outcomes, from the mildest to the strictest.
const OUTCOMES: [&str; 4] = ["Ignore", "Audit", "Warn", "Deny"];

/// Target's kind in the reviewed logical cluster.
enum TargetKind {
    Own,
    Other,
    Unbound,
}

/// Decides if a tenant may create `object`, or make it of `old`, and returns the remarks beside the verdict.
pub(crate) fn decide(world: &World, old: Option<&Object>, object: &Object) -> (NaiveVerdict, Said) {
    let Kind { group, resource, versions, .. } = object.kind;
    let policy = if world.failure_policy == FailurePolicy::Fail { "Fail" } else { "Ignore" };
    let mut said = Said::default();
    let is_about = |rule: &&Value| {
        let (spec, dependent) = (&rule["spec"], &rule["spec"]["dependent"]);
        dependent["group"] == group
            && dependent["resource"] == resource
            && spec["failurePolicy"].as_str().unwrap_or("Fail") == policy
            && strictest(rule) != "Ignore"
            && (is_broken(world, rule) || dependent["version"] == versions[0])
    };
    let mut rules: Vec<_> = world.rules.iter().filter(is_about).collect();
    if rules.is_empty() {
        return (NaiveVerdict::Allowed(AllowReason::NoRule), said);
    }
    if object.json["metadata"]["deletionTimestamp"].is_string() {
        return (NaiveVerdict::Allowed(AllowReason::Terminating), said);
    }
    // A rule about local dependents of another logical cluster says nothing here.
    let may_apply = |rule: &&Value| {
        let is_local = rule["spec"]["dependent"]["apiExportName"].is_null();
        let own = &rule["metadata"]["annotations"]["kcp.io/cluster"];
        world.control_plane == ControlPlane::Kubernetes || !is_local || *own == CONSUMER
    };
    rules.retain(|rule| {
        may_apply(rule)
            && (is_broken(world, rule)
                || checked(rule).any(|dependency| {
                    begins_to_refer(rule, dependency, old, object).is_none_or(|names| !names.is_empty())
                }))
    });
    if rules.is_empty() {
        return (NaiveVerdict::Allowed(AllowReason::NoNewReference), said);
    }
    rules.retain(|rule| world.control_plane == ControlPlane::Kubernetes || has_dependents(world, rule));
    if rules.is_empty() {
        return (NaiveVerdict::Allowed(AllowReason::NotBound), said);
    }
    let (mut denied, mut problems) = (BTreeSet::new(), false);
    for rule in rules {
        let mut tell = |on_missing: &str, missing: Option<String>| {
            let (names, trouble) = match on_missing {
                "Deny" if policy == "Fail" => (&mut denied, &mut problems),
                "Deny" => (&mut denied, &mut said.told),
                "Warn" => (&mut said.warned, &mut said.told),
                _ => (&mut said.audited, &mut said.recorded),
            };
            match missing {
                Some(name) => drop(names.insert(name)),
                None => *trouble = true,
            }
        };
        if is_broken(world, rule) {
            tell(strictest(rule), None);
            continue;
        }
        for dependency in checked(rule) {
            let kind = target_kind(world, rule, dependency);
            let on_missing = match dependency["onMissing"].as_str() {
                Some("Deny") if cycles::on_one(world, rule, dependency, needs_another).is_some() => "Warn",
                on_missing => on_missing.unwrap(),
            };
            match begins_to_refer(rule, dependency, old, object) {
                _ if matches!(kind, TargetKind::Other) => {}
                None => tell(on_missing, None),
                Some(names) => {
                    let missing = names.iter().filter(|(named, is_old)| {
                        let old = old.filter(|_| *is_old);
                        !is_there(world, dependency, &kind, object, named, old)
                    });
                    missing.for_each(|(named, _)| tell(on_missing, Some(shown(dependency, object, named))));
                }
            }
        }
    }
    let because = match &said {
        Said { warned, .. } if !warned.is_empty() => AllowReason::Warned,
        Said { audited, .. } if !audited.is_empty() => AllowReason::Audited,
        Said { told, recorded, .. } if *told || *recorded => AllowReason::Tolerated,
        _ => AllowReason::TargetsExist,
    };
    match denied.is_empty() && !problems {
        true => (NaiveVerdict::Allowed(because), said),
        false => (NaiveVerdict::Denied { blockers: denied, problems }, said),
    }
}

fn strictest(rule: &Value) -> &'static str {
    let all = rule["spec"]["dependencies"].as_array().unwrap().iter();
    let rank = |dependency: &Value| OUTCOMES.iter().position(|known| dependency["onMissing"] == *known).unwrap_or(0);
    OUTCOMES[all.map(rank).max().unwrap_or(0)]
}

/// Returns the dependencies whose targets matter.
fn checked(rule: &Value) -> impl Iterator<Item = &Value> {
    let all = rule["spec"]["dependencies"].as_array().unwrap().iter();
    all.filter(|dependency| OUTCOMES[1..].iter().any(|known| dependency["onMissing"] == *known))
}

/// Returns true if the dependency refuses, and if its dependent needs an object of another kind.
fn needs_another(rule: &Value, dependency: &Value) -> bool {
    let dependent = &rule["spec"]["dependent"];
    let is_same = dependent["group"] == dependency["group"] && dependent["resource"] == dependency["resource"];
    dependency["onMissing"] == "Deny" && !is_same
}

/// Returns the names that `object` holds and `old` does not, and those that mean an owner that was lost, which are old;
/// `None` if they can't all be read.
fn begins_to_refer(
    rule: &Value,
    dependency: &Value,
    old: Option<&Object>,
    object: &Object,
) -> Option<BTreeSet<(NamedObject, bool)>> {
    let dependent = &rule["spec"]["dependent"];
    let names = |object: &Object| -> Option<BTreeSet<NamedObject>> {
        if !reference::is_selected(dependent, &object.json["metadata"])? {
            return Some(BTreeSet::new());
        }
        let named = reference::named(dependency, &object.json)?;
        Some(named.into_iter().filter(|named| !named.name.is_empty()).collect())
    };
    if old.is_some_and(|old| old.json["spec"] == object.json["spec"] && old.json["metadata"] == object.json["metadata"])
    {
        return Some(BTreeSet::new());
    }
    let lost = owners::lost(old, object);
    if old.is_some_and(|old| is_as_unreadable(dependent, dependency, old, object)) {
        // Among the references that nobody can read may be one to the owner that was lost.
        let group = |owner: &Value| {
            owner["apiVersion"].as_str().unwrap().split_once('/').map_or("", |(group, _)| group) == dependency["group"]
        };
        let owner = lost.filter(|owner| group(owner)).map(|owner| NamedObject {
            name: owner["name"].as_str().unwrap().to_owned(),
            namespace: object.json["metadata"]["namespace"].as_str().map(str::to_owned),
            uid: None,
        });
        return Some(owner.into_iter().map(|owner| (owner, true)).collect());
    }
    let before = old.and_then(names).unwrap_or_default();
    let own = &object.json["metadata"];
    let is_itself = |named: &NamedObject| {
        let is_same = dependent["group"] == dependency["group"] && dependent["resource"] == dependency["resource"];
        let is_here =
            own["namespace"].is_null() || named.namespace.as_ref().is_none_or(|place| own["namespace"] == **place);
        let is_this = own["uid"].is_null() || named.uid.as_ref().is_none_or(|uid| own["uid"] == **uid);
        is_same && own["name"] == *named.name && is_here && is_this
    };
    let is_lost = |named: &NamedObject| {
        lost.is_some_and(|owner| {
            let (group, _) = owner["apiVersion"].as_str().unwrap().split_once('/').unwrap_or_default();
            dependency["group"] == group && owner["name"] == *named.name
        })
    };
    let names = names(object)?.into_iter().filter(|named| !is_itself(named));
    let begun = names.map(|named| (before.contains(&named), named));
    Some(begun.filter(|(is_old, named)| !is_old || is_lost(named)).map(|(is_old, named)| (named, is_old)).collect())
}

/// Returns true if JSON that is none keeps the references of both states from being read, and no field that the dependency
/// reads differs.
fn is_as_unreadable(dependent: &Value, dependency: &Value, old: &Object, object: &Object) -> bool {
    let selector = &dependent["selector"];
    let keys = selector["matchLabels"].as_object().into_iter().flat_map(serde_json::Map::keys).map(String::as_str);
    let further = selector["matchExpressions"].as_array().into_iter().flatten().filter_map(|term| term["key"].as_str());
    let same_labels = keys.chain(further).all(|key| {
        let label = |object: &Object| object.json["metadata"]["labels"][key].clone();
        label(old) == label(object)
    });
    let whole = Regex::new(r"(\[[*0-9]|\.\*|\.fromJSON\(\)).*$").unwrap();
    let same = reference::paths(dependency).into_iter().all(|path| {
        let path = whole.replace(path, "");
        reference::at(&old.json, &path) == reference::at(&object.json, &path)
    });
    same_labels && same && reference::is_unreadable(dependency, &object.json)
}

fn target_kind(world: &World, rule: &Value, dependency: &Value) -> TargetKind {
    if world.control_plane == ControlPlane::Kubernetes {
        return TargetKind::Own;
    }
    if dependency["apiExportRef"].is_null() {
        let is_own = rule["metadata"]["annotations"]["kcp.io/cluster"] == CONSUMER;
        return if is_own { TargetKind::Own } else { TargetKind::Other };
    }
    match (has_targets(world, dependency), world.bindings.iter().any(|binding| serves(binding, dependency))) {
        (true, _) => TargetKind::Own,
        (false, true) => TargetKind::Other,
        (false, false) => TargetKind::Unbound,
    }
}

fn is_there(
    world: &World,
    dependency: &Value,
    kind: &TargetKind,
    object: &Object,
    named: &NamedObject,
    old: Option<&Object>,
) -> bool {
    let is_kind = |kind: &Kind| dependency["group"] == kind.group && dependency["resource"] == kind.resource;
    let is_served =
        world.kinds.iter().any(|kind| is_kind(kind) && kind.versions.iter().any(|v| dependency["version"] == *v));
    let is_meant = |there: &&Object| {
        let metadata = &there.json["metadata"];
        is_kind(&there.kind)
            && metadata["name"] == *named.name
            && (metadata["namespace"].is_null()
                || named.namespace.as_ref().is_none_or(|place| metadata["namespace"] == **place))
    };
    let is_target = |there: &&Object| {
        let metadata = &there.json["metadata"];
        let goes = |object| owners::goes_with(world, there, object);
        let is_let_go = || goes(object) || old.is_some_and(|old| !goes(old));
        is_meant(there)
            && named.uid.as_ref().is_none_or(|uid| metadata["uid"] == **uid)
            && (metadata["deletionTimestamp"].is_null() || is_let_go())
    };
    // An object that would not have gone with its owner refers to nothing, as before.
    let gone = |old: &Object| world.kinds.iter().find(|kind| is_kind(kind)).map(|kind| owners::gone(*kind, old));
    let is_anywhere = is_served && world.objects.iter().any(|there| is_meant(&there));
    let is_as_before = |old| !is_anywhere && gone(old).is_none_or(|gone| !owners::goes_with(world, &gone, old));
    old.is_some_and(is_as_before)
        || is_served && (matches!(kind, TargetKind::Unbound) || world.objects.iter().any(|there| is_target(&there)))
}

fn shown(dependency: &Value, object: &Object, named: &NamedObject) -> String {
    let other = named.namespace.as_ref().filter(|place| object.json["metadata"]["namespace"] != ***place);
    let place = other.map(|place| format!("{place}/")).unwrap_or_default();
    format!("{}/{place}{}", dependency["resource"].as_str().unwrap(), named.name)
}

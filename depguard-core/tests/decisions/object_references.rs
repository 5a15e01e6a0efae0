//! Tests that the references read from an object are those that evaluations find from the target's side.

use std::collections::BTreeSet;

use depguard_core::lookup::{ReferenceReader, ReferenceTarget, ReferencedObject};
use depguard_core::{ControlPlane, Rule};
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::generated::{Case, KINDS, case};
use crate::naive::NaiveVerdict;
use crate::world::*;

/// Returns a world with one dependency of a rule in a cluster where nothing else matters: all kinds are served and
/// local, and nothing is being deleted. Returns `None` if the rule is unusable.
fn alone(world: &World, rule: &Value, dependency: &Value) -> Option<(World, Rule, Kind)> {
    let mut rule = rule.clone();
    rule["spec"]["dependencies"] = json!([dependency]);
    rule["spec"]["dependencies"][0].as_object_mut().unwrap().remove("apiExportRef");
    let dependent = rule["spec"]["dependent"].as_object_mut().unwrap();
    dependent.remove("apiExportName");
    let is_kind = |kind: &&Kind| dependent["group"] == kind.group && dependent["resource"] == kind.resource;
    let kind = *KINDS.iter().find(is_kind).unwrap();
    dependent["version"] = kind.versions[0].into();
    let parsed = Rule::parse(ControlPlane::Kubernetes, &rule).ok()?;
    let mut alone = World::new(ControlPlane::Kubernetes);
    (alone.rules, alone.kinds, alone.objects) = (vec![rule], KINDS.to_vec(), world.objects.clone());
    Some((alone, parsed, kind))
}

/// Formats a dependent of the rule's kind as a refusal names it.
fn shown(rule: &Rule, object: &Value, target: &ReferencedObject) -> String {
    let ReferencedObject { namespace, name, .. } = ReferencedObject::read(object);
    let kind = &rule.dependent().kind;
    match namespace.filter(|namespace| target.namespace.as_ref() != Some(namespace)) {
        Some(namespace) => format!("{kind}/{namespace}/{name}"),
        None => format!("{kind}/{name}"),
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn an_object_blocks_a_target_if_and_only_if_it_holds_a_reference_to_it(case in case(), ignores_owned: bool) {
        let Case { world, mut target } = case;
        target.json["metadata"].as_object_mut().unwrap().remove("deletionTimestamp");
        let referent = ReferencedObject::read(&target.json);
        target.json["metadata"].as_object_mut().unwrap().remove("finalizers");
        target = target.annotated(PROPAGATION, "Background");
        let served = target.kind.versions.iter().map(|version| ((*version).to_owned(), Some(target.kind.kind.to_owned())));
        let kinds = served.collect();
        for rule in &world.rules {
            for dependency in rule["spec"]["dependencies"].as_array().unwrap() {
                let mut dependency = dependency.clone();
                if ignores_owned {
                    dependency["ownedDependents"] = "Ignore".into();
                }
                let Some((alone, rule, kind)) = alone(&world, rule, &dependency) else { continue };
                let is_target = dependency["group"] == target.kind.group && dependency["resource"] == target.kind.resource;
                let reader = ReferenceReader::new(rule.edges().iter().map(|edge| (&rule, edge)));
                let (mut holds, mut may_hold) = (BTreeSet::new(), BTreeSet::new());
                for object in alone.objects.iter().filter(|object| object.kind == kind && is_target) {
                    let mut read = Vec::new();
                    reader.read(&object.json, |held| read.push(held.into_owned())).unwrap();
                    for held in read {
                        if held.refers_to(&referent, &rule.edges()[0].target.gvr.group, &kinds) {
                            let unclear = matches!(held.means, ReferenceTarget::Unclear { .. });
                            let set = if unclear { &mut may_hold } else { &mut holds };
                            set.insert(shown(&rule, &object.json, &referent));
                        }
                    }
                }
                // One object may hold a clear and an unclear reference to the target.
                let unclear = may_hold.clone();
                let may_hold = &may_hold - &holds;
                match NaiveVerdict::from_decision(&alone.deletes(&target).decision) {
                    NaiveVerdict::Allowed(_) => prop_assert!(holds.is_empty() && may_hold.is_empty(), "{:?} {:?}", holds, may_hold),
                    // Between kinds of a cycle, an object with an unclear reference counts as a blocker.
                    NaiveVerdict::Denied { blockers, problems: false } => {
                        prop_assert!(blockers == &holds | &may_hold, "{:?} {:?} {:?}", blockers, holds, may_hold);
                    }
                    NaiveVerdict::Denied { blockers, problems: true } => {
                        prop_assert_eq!(blockers, holds);
                        prop_assert!(!unclear.is_empty());
                    }
                }
            }
        }
    }
}

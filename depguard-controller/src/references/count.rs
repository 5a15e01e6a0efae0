//! Count of the references whose targets don't exist: pure.

use std::collections::BTreeMap;
use std::ops::Deref;

use depguard_core::GroupVersionResource;
use depguard_core::api::{DanglingReference, DanglingReferences, MissingObject};
use depguard_core::rule::{Dependent, Edge, RuleKey};

use super::dependents::{ALL_EDGES, Dependents, Meaning, NamedTarget, ObjectName};
use super::kind_watch::{State, Watched};
use super::targets::{Existence, Targets};
use crate::model::reference_count::{ReferenceCount, ReferenceCounts, UNCLEAR, Uncounted};

/// Maximum number of references that a status names.
const MAX_NAMED: usize = 5;

/// Edge whose references are counted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct CountedEdge {
    pub(super) rule: RuleKey,
    pub(super) dependent: Dependent,
    pub(super) edge: Edge,
}

/// Counts the references by these edges of one kind of dependents, in the order of the reader's edges.
pub(super) fn count(
    edges: &[CountedEdge],
    dependents: &Watched<Dependents>,
    targets: &BTreeMap<GroupVersionResource, impl Deref<Target = Watched<Targets>>>,
) -> ReferenceCounts {
    let mut counts = ReferenceCounts::new();
    for edge in edges {
        let count = counts.entry(edge.rule.clone()).or_insert_with(|| ReferenceCount::Known(Default::default()));
        let target = targets.get(&edge.edge.target.gvr).map(|watched| &watched.state);
        for state in [Some(&dependents.state), target] {
            match state {
                Some(State::Loaded) => {}
                Some(State::Unknown(why)) => be_unknown(count, || why.clone()),
                Some(State::Pending) | None => {
                    if matches!(count, ReferenceCount::Known(_)) {
                        *count = ReferenceCount::Pending;
                    }
                }
            }
        }
    }
    for (name, held) in dependents.index.iter() {
        let meant = match edges.get(held.edge) {
            Some(edge) => std::slice::from_ref(edge),
            None if held.edge == ALL_EDGES => edges,
            None => continue,
        };
        for edge in meant {
            let (Some(count), Some(targets)) = (counts.get_mut(&edge.rule), targets.get(&edge.edge.target.gvr)) else {
                continue;
            };
            match &held.means {
                Meaning::Named(target) => match targets.index.find(target) {
                    Existence::Exists => {}
                    Existence::Missing => {
                        if let ReferenceCount::Known(dangling) | ReferenceCount::AtLeast(dangling, _) = count {
                            add(dangling, || dangling_reference(edge, name, target));
                        }
                    }
                    Existence::Unknown => be_untold(count, || {
                        let most = targets.index.tenant_mib();
                        let kind = edge.edge.target.gvr.group_resource();
                        let name = ObjectName { namespace: target.namespace.clone(), name: target.name.clone() };
                        format!(
                            "whether {kind} {name} is there can't be told: references and targets in a namespace take \
                             more than {most} MiB"
                        )
                    }),
                },
                Meaning::Unclear(why) => be_untold(count, || {
                    format!("the references of {} {name} can't be told: it {why}", edge.dependent.kind)
                }),
            }
        }
    }
    counts
}

/// The first reason stays.
fn be_unknown(count: &mut ReferenceCount, why: impl FnOnce() -> Uncounted) {
    if !matches!(count, ReferenceCount::Unknown(_)) {
        *count = ReferenceCount::Unknown(why());
    }
}

/// The first message stays.
fn be_untold(count: &mut ReferenceCount, message: impl FnOnce() -> String) {
    if let ReferenceCount::Known(dangling) = count {
        let untold = Uncounted { reason: UNCLEAR, message: message() };
        *count = ReferenceCount::AtLeast(std::mem::take(dangling), untold);
    }
}

fn add(dangling: &mut DanglingReferences, reference: impl FnOnce() -> DanglingReference) {
    dangling.count = dangling.count.saturating_add(1);
    if dangling.first.len() < MAX_NAMED {
        dangling.first.push(reference());
    }
}

fn dangling_reference(edge: &CountedEdge, name: &ObjectName, target: &NamedTarget) -> DanglingReference {
    let own = |text: &Option<Box<str>>| text.as_deref().map(str::to_owned);
    DanglingReference {
        namespace: own(&name.namespace),
        name: name.name.to_string(),
        field: edge.edge.field(),
        target: MissingObject {
            resource: edge.edge.target.gvr.group_resource().to_string(),
            namespace: own(&target.namespace),
            name: target.name.to_string(),
            uid: own(&target.uid),
        },
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use depguard_core::lookup::ReferenceReader;
    use depguard_core::{ControlPlane, Rule};
    use depguard_kcp::{Form, Metadata};
    use serde_json::json;
    use tokio::sync::Semaphore;

    use super::super::dependents::ReferenceForm;
    use super::super::kind_watch::Index;
    use super::super::space::Space;
    use super::*;

    /// Room for all that a test counts.
    const SPACE: usize = 64 << 20;

    /// Counts the references of machines, each with the networks that it names; only `a` exists. `space` is that of the
    /// networks.
    fn counted(machines: &[(&str, Vec<String>)], space: usize) -> ReferenceCount {
        let rule = json!({"metadata": {"name": "r"}, "spec": {
            "dependent": {"group": "c.example.com", "version": "v1", "kind": "VM", "resource": "vms"},
            "dependencies": [{"group": "n.example.com", "version": "v1", "resource": "vpcs",
                "fieldRef": {"path": ".spec.vpcs[*]"}, "onMissing": "Warn"}],
        }});
        let rule = Rule::parse(ControlPlane::Kubernetes, &rule).unwrap();
        let reader = ReferenceReader::new(rule.edges().iter().map(|edge| (&rule, edge)));
        let form = ReferenceForm::new(reader, Arc::new(Semaphore::new(1)));
        let mut dependents = Dependents::new(&Space::new(SPACE));
        for (name, vpcs) in machines {
            let machine = json!({"metadata": {"namespace": "x", "name": name}, "spec": {"vpcs": vpcs}});
            dependents.put(form.read(&machine.to_string()).unwrap());
        }
        let mut targets = Targets::new(&Space::new(space));
        targets.put(Metadata { name: "a".to_owned(), namespace: Some("x".to_owned()), ..Metadata::default() });
        let edge = rule.edges()[0].clone();
        let targets = BTreeMap::from([(edge.target.gvr.clone(), Box::new(Watched::loaded(targets)))]);
        let edge = CountedEdge { rule: rule.key().clone(), dependent: rule.dependent().clone(), edge };
        count(&[edge], &Watched::loaded(dependents), &targets).into_values().next().unwrap()
    }

    #[test]
    fn an_object_that_cannot_be_told_hides_no_missing_target() {
        let has = |vpc: &str| vec![vpc.to_owned()];
        let many = || ("many", (0..10_050).map(|n| n.to_string()).collect());
        assert!(matches!(counted(&[("m", has("a"))], SPACE), ReferenceCount::Known(known) if known.count == 0));
        assert!(matches!(counted(&[("m", has("b"))], SPACE), ReferenceCount::Known(known) if known.count == 1));
        for (machines, missing) in [
            (vec![many(), ("z", has("a"))], 0),
            (vec![many(), ("z", has("b"))], 1),
            (vec![("m", has("b")), many(), ("z", has("b"))], 2),
        ] {
            let ReferenceCount::AtLeast(known, untold) = counted(&machines, SPACE) else { panic!("{machines:?}") };
            assert_eq!((known.count, untold.reason), (missing, UNCLEAR));
            let text = "the references of VM x/many can't be told: it has more than 10000 references";
            assert!(untold.message.starts_with(text), "{}", untold.message);
        }
    }

    #[test]
    fn a_target_that_cannot_be_told_is_neither_there_nor_missing() {
        let machines = [("m", vec!["a".to_owned()])];
        assert!(matches!(counted(&machines, SPACE), ReferenceCount::Known(known) if known.count == 0));
        let ReferenceCount::AtLeast(known, untold) = counted(&machines, 0) else { panic!("it is told") };
        assert_eq!((known.count, untold.reason), (0, UNCLEAR));
        assert!(
            untold.message.starts_with("whether vpcs.n.example.com x/a is there can't be told"),
            "{}",
            untold.message
        );
    }
}

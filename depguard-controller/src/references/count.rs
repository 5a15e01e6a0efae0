//! Count of the references whose targets don't exist: pure.

use std::collections::BTreeMap;
use std::ops::Deref;

use depguard_core::GroupVersionResource;
use depguard_core::api::{DanglingReference, DanglingReferences, MissingObject};
use depguard_core::rule::{Dependent, Edge, RuleKey};

use super::dependents::{ALL_EDGES, DependentName, Dependents, Meaning, NamedTarget};
use super::kind_watch::{State, Watched};
use super::targets::Targets;
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
                Meaning::Named(target) if targets.index.have(target) => {}
                Meaning::Named(target) => {
                    if let ReferenceCount::Known(dangling) = count {
                        add(dangling, || dangling_reference(edge, name, target));
                    }
                }
                Meaning::Unclear(why) => be_unknown(count, || Uncounted {
                    reason: UNCLEAR,
                    message: format!("the references of {} {name} can't be told: it {why}", edge.dependent.kind),
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

fn add(dangling: &mut DanglingReferences, reference: impl FnOnce() -> DanglingReference) {
    dangling.count = dangling.count.saturating_add(1);
    if dangling.first.len() < MAX_NAMED {
        dangling.first.push(reference());
    }
}

fn dangling_reference(edge: &CountedEdge, name: &DependentName, target: &NamedTarget) -> DanglingReference {
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

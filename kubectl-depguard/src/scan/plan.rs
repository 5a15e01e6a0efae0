//! Which kinds are looked through, and what for.

use std::collections::HashSet;
use std::sync::Arc;

use depguard_core::{GroupResource, GroupVersionResource, Reference};

use super::Bearing;
use crate::kinds::{KindInfo, Kinds};

/// A kind, in the version in which it is read.
#[derive(Debug)]
pub(super) struct Plan {
    pub(super) kind: Arc<KindInfo>,
    /// Whether it is known to be served, in whichever version.
    pub(super) is_known: bool,
    /// The edges that its objects refer by: indexes in the scan's.
    pub(super) edges: Vec<usize>,
    pub(super) is_target: bool,
    /// Whether a selector may look at its objects' labels.
    pub(super) is_selected: bool,
    /// Whether its objects may refer to those of other namespaces.
    pub(super) crosses: bool,
}

/// One for each kind that the edges name, and for each version in which dependents are read; dependents before targets,
/// so that what is made while they are read, a target and then its dependent, never looks as if the target were missing.
pub(super) fn plans(edges: &[Bearing], kinds: &Kinds) -> Vec<Plan> {
    let mut plans: Vec<Plan> = Vec::new();
    for (index, bearing) in edges.iter().enumerate() {
        let dependent = bearing.rule.dependent();
        let plan = match plans.iter_mut().find(|plan| plan.kind.gvr == dependent.gvr) {
            Some(plan) => plan,
            None => {
                plans.push(Plan::new(&dependent.gvr, true, dependent.kind.as_str(), kinds));
                let Some(plan) = plans.last_mut() else { continue };
                plan
            }
        };
        plan.edges.push(index);
        plan.crosses |= !bearing.edge.reference.stays_in_namespace();
    }
    for bearing in edges {
        let target = bearing.target();
        if !plans.iter().any(|plan| plan.is_of(&target)) {
            let gvr = &bearing.edge.target.gvr;
            let kind = bearing.edge.target.kind.as_ref().map_or(gvr.resource.as_str(), |kind| kind.as_str());
            plans.push(Plan::new(gvr, false, kind, kinds));
        }
        let is_selected = !matches!(bearing.edge.reference, Reference::Field(_));
        for plan in plans.iter_mut().filter(|plan| plan.is_of(&target)) {
            plan.is_target = true;
            plan.is_selected |= is_selected;
        }
    }
    plans.sort_by_key(|plan| (plan.is_target, plan.edges.is_empty()));
    plans
}

/// Leaves those edges by which an object may depend on one of that kind, if through others.
pub(super) fn retain_leading_to(edges: &mut Vec<Bearing>, kind: GroupResource) {
    let mut reached = HashSet::from([kind]);
    loop {
        let leading = edges.iter().filter(|bearing| reached.contains(&bearing.target())).map(Bearing::dependent);
        let leading: Vec<_> = leading.collect();
        let before = reached.len();
        reached.extend(leading);
        if reached.len() == before {
            break;
        }
    }
    edges.retain(|bearing| reached.contains(&bearing.target()));
}

impl Plan {
    /// In exactly that version, or in whichever is preferred. What is not known is called as its rule calls it.
    fn new(gvr: &GroupVersionResource, exactly: bool, kind: &str, kinds: &Kinds) -> Self {
        let exact = kinds.iter().find(|known| known.gvr == *gvr).filter(|_| exactly);
        let known = exact.or_else(|| kinds.of(&gvr.group_resource()));
        let mut info = known.cloned().unwrap_or_else(|| KindInfo::bare(gvr.clone(), kind, None));
        if exactly {
            info.gvr.version = gvr.version.clone();
        }
        Self {
            kind: Arc::new(info),
            is_known: known.is_some(),
            edges: Vec::new(),
            is_target: false,
            is_selected: false,
            crosses: false,
        }
    }

    /// For an object that is known already, which may be selected.
    pub(super) fn known(kind: &KindInfo) -> Self {
        let kind = Arc::new(kind.clone());
        Self { kind, is_known: true, edges: Vec::new(), is_target: true, is_selected: true, crosses: false }
    }

    pub(super) fn is_of(&self, kind: &GroupResource) -> bool {
        self.kind.gvr.group == kind.group && self.kind.gvr.resource == kind.resource
    }
}

/// Where a kind was looked through.
#[derive(Debug, Default)]
pub(super) struct Seen {
    pub(super) everywhere: bool,
    pub(super) namespaces: HashSet<String>,
}

impl Seen {
    /// Whether all was looked at that may be meant in this namespace; `None`: in any.
    pub(super) fn covers(&self, namespace: Option<&str>) -> bool {
        self.everywhere || namespace.is_some_and(|namespace| self.namespaces.contains(namespace))
    }
}

//! Plan of a scan: the kinds to read, and the edges for which each is read.

use std::collections::HashSet;
use std::sync::Arc;

use depguard_core::GroupVersionResource;
use depguard_core::model::GroupResource;
use depguard_core::rule::Reference;

use super::AppliedEdge;
use crate::cluster::kinds::{KindInfo, Kinds};

/// Plan for one kind, in the version in which the scan reads it.
#[derive(Debug)]
pub(super) struct Plan {
    pub(super) kind: Arc<KindInfo>,
    /// True if the kind is served in any version, or may be, because the kinds of its group could not be read.
    pub(super) is_known: bool,
    /// Edges by which objects of the kind refer: indexes in the scan's edges.
    pub(super) edges: Vec<usize>,
    pub(super) is_target: bool,
    /// True if a selector may match the labels of the kind's objects.
    pub(super) is_selected: bool,
    /// True if the kind's objects may refer to objects in other namespaces.
    pub(super) crosses: bool,
}

/// Builds one plan for each kind that the edges name, and one for each version in which dependents are read. Dependents
/// come before targets: a target and its dependent that are created meanwhile, in this order, then never look like a
/// dependent whose target is missing.
pub(super) fn plans(edges: &[AppliedEdge], kinds: &Kinds) -> Vec<Plan> {
    let mut plans: Vec<Plan> = Vec::new();
    for (index, applied) in edges.iter().enumerate() {
        let dependent = applied.rule.dependent();
        let plan = match plans.iter_mut().find(|plan| plan.kind.gvr == dependent.gvr) {
            Some(plan) => plan,
            None => {
                plans.push(Plan::new(&dependent.gvr, true, dependent.kind.as_str(), kinds));
                let Some(plan) = plans.last_mut() else { continue };
                plan
            }
        };
        plan.edges.push(index);
        plan.crosses |= !applied.edge.reference.stays_in_namespace();
    }
    for applied in edges {
        let target = applied.target();
        if !plans.iter().any(|plan| plan.is_of(&target)) {
            let gvr = &applied.edge.target.gvr;
            let kind = applied.edge.target.kind.as_ref().map_or(gvr.resource.as_str(), |kind| kind.as_str());
            plans.push(Plan::new(gvr, false, kind, kinds));
        }
        let is_selected = matches!(applied.edge.reference, Reference::Selector(_) | Reference::Selected(_));
        for plan in plans.iter_mut().filter(|plan| plan.is_of(&target)) {
            plan.is_target = true;
            plan.is_selected |= is_selected;
        }
    }
    plans.sort_by_key(|plan| (plan.is_target, plan.edges.is_empty()));
    plans
}

/// Keeps the edges by which an object may depend on an object of one of the kinds, directly or through others. Returns the
/// kinds on whose objects others may depend so.
pub(super) fn retain_leading_to(
    edges: &mut Vec<AppliedEdge>,
    kinds: impl Iterator<Item = GroupResource>,
) -> HashSet<GroupResource> {
    let mut reached: HashSet<_> = kinds.collect();
    loop {
        let leading = edges.iter().filter(|applied| reached.contains(&applied.target())).map(AppliedEdge::dependent);
        let leading: Vec<_> = leading.collect();
        let before = reached.len();
        reached.extend(leading);
        if reached.len() == before {
            break;
        }
    }
    edges.retain(|applied| reached.contains(&applied.target()));
    reached
}

impl Plan {
    /// Builds a plan for exactly that version, or for the preferred one. An unknown kind has the name that its rule
    /// gives it.
    fn new(gvr: &GroupVersionResource, exactly: bool, kind: &str, kinds: &Kinds) -> Self {
        let exact = kinds.iter().find(|known| known.gvr == *gvr).filter(|_| exactly);
        let known = exact.or_else(|| kinds.of(&gvr.group_resource()));
        let mut info = known.cloned().unwrap_or_else(|| KindInfo::bare(gvr.clone(), kind, None));
        if exactly {
            info.gvr.version = gvr.version.clone();
        }
        Self {
            kind: Arc::new(info),
            is_known: known.is_some() || kinds.unread_of(&gvr.group).next().is_some(),
            edges: Vec::new(),
            is_target: false,
            is_selected: false,
            crosses: false,
        }
    }

    /// Builds the plan for an object that is known already and may be selected.
    pub(super) fn known(kind: &KindInfo) -> Self {
        let kind = Arc::new(kind.clone());
        Self { kind, is_known: true, edges: Vec::new(), is_target: true, is_selected: true, crosses: false }
    }

    pub(super) fn is_of(&self, kind: &GroupResource) -> bool {
        self.kind.gvr.group == kind.group && self.kind.gvr.resource == kind.resource
    }
}

/// Namespaces in which the scan has read a kind.
#[derive(Debug, Default)]
pub(super) struct ReadNamespaces {
    pub(super) everywhere: bool,
    pub(super) namespaces: HashSet<String>,
}

impl ReadNamespaces {
    /// Records a namespace that was read; `None`: all namespaces.
    pub(super) fn add(&mut self, namespace: Option<&str>) {
        match namespace {
            None => self.everywhere = true,
            Some(namespace) => drop(self.namespaces.insert(namespace.to_owned())),
        }
    }

    /// Returns true if the scan has read every object that may be meant in this namespace; `None` for any namespace.
    pub(super) fn covers(&self, namespace: Option<&str>) -> bool {
        self.everywhere || namespace.is_some_and(|namespace| self.namespaces.contains(namespace))
    }
}

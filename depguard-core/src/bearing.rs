//! Which edges bear on a logical cluster, and what their ends are there.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::Arc;

use crate::bindings::Binding;
use crate::graph::Node;
use crate::home::Home;
use crate::names::{ExportName, Group, GroupResource, LogicalCluster, Resource};
use crate::ruleset::IndexedEdge;
use crate::target::Target;
use crate::workspaces::Workspaces;

/// More kinds than are kept of any logical cluster's bindings; those beyond lie on no cycle.
const MOST_BOUND: usize = 20_000;

// === Whether a rule bears: where in doubt, it does ===

/// An edge, and whether the APIBindings read so far have its two ends in this logical cluster.
#[derive(Debug)]
pub(crate) struct Candidate {
    pub(crate) edge: Arc<IndexedEdge>,
    /// The logical cluster of the target's provider, where known.
    provider: Option<LogicalCluster>,
    dependent: bool,
    target: bool,
}

impl Candidate {
    /// `None` where the edge can't bear on this logical cluster, whatever it binds.
    pub(crate) fn new(home: Home, edge: &Arc<IndexedEdge>, target: &Target, workspaces: &Workspaces) -> Option<Self> {
        if home == Home::Kcp
            && has_local_end(edge)
            && edge.rule.cluster.is_some()
            && edge.rule.cluster != target.cluster
        {
            return None;
        }
        let provider = edge.target_export.as_ref().and_then(|export| workspaces.cluster(&export.path)).cloned();
        let mut candidate = Self { edge: Arc::clone(edge), provider, dependent: false, target: false };
        candidate.reset();
        Some(candidate)
    }

    /// Back to what is known before any binding was read.
    ///
    /// A rule in kcp whose own workspace nobody knows bears everywhere: an API server always says it, so whoever loaded
    /// the rule must, and a refusal is what makes that seen.
    pub(crate) fn reset(&mut self) {
        let unknown = self.edge.rule.cluster.is_none();
        self.dependent = unknown || self.edge.dependent_export.is_none();
        self.target = unknown || self.edge.target_export.is_none();
    }

    pub(crate) fn see(&mut self, binding: &Binding<'_>) {
        let edge = &self.edge;
        if let (Some(provider), Some(export)) = (&edge.rule.cluster, &edge.dependent_export) {
            self.dependent |= binding.binds(provider, export.as_str(), &edge.dependent);
        }
        if let Some(export) = &edge.target_export {
            self.target |= binding.binds_ref(export, self.provider.as_ref(), &edge.target);
        }
    }

    pub(crate) fn bears(&self) -> bool {
        self.dependent && self.target
    }

    /// Whether the dependents, where they lie in no namespace, are left until the target is gone when their logical
    /// cluster is deleted: kcp deletes the namespaces and the local objects first, and only when those are gone the
    /// bindings, each with the objects of its kinds (read in kcp's `logicalclusterdeletion` controller). A binding that
    /// somebody deleted before is no help: its objects may wait for those of another.
    pub(crate) fn is_kept_last(&self, target: &Target) -> bool {
        let bound = self.edge.dependent_export.is_some() && self.edge.rule.cluster.is_some();
        let goes_first = target.namespace.is_some() || self.edge.target_export.is_none();
        target.cluster.is_some() && bound && goes_first
    }
}

fn has_local_end(edge: &IndexedEdge) -> bool {
    edge.dependent_export.is_none() || edge.target_export.is_none()
}

// === What the ends are: where in doubt, nothing ===

/// The kinds of one logical cluster, and whose they are.
#[derive(Debug)]
pub(crate) struct Kinds {
    home: Home,
    cluster: Option<LogicalCluster>,
    workspaces: Workspaces,
    bound: HashMap<GroupResource, Bound>,
}

#[derive(Debug)]
struct Bound {
    provider: LogicalCluster,
    export: ExportName,
    /// The workspace path in the binding's reference; empty where it is left out.
    path: String,
    unbinding: bool,
    /// Bound more than once: nobody knows whose it is.
    twice: bool,
}

impl Kinds {
    pub(crate) fn new(home: Home, cluster: Option<LogicalCluster>, workspaces: &Workspaces) -> Self {
        Self { home, cluster, workspaces: workspaces.clone(), bound: HashMap::new() }
    }

    /// Back to what is known before any binding was read.
    pub(crate) fn reset(&mut self) {
        self.bound.clear();
    }

    pub(crate) fn see(&mut self, binding: &Binding<'_>) {
        let (Some(provider), Some(export)) = (binding.provider(), binding.export()) else { return };
        let (Ok(provider), Ok(export)) = (LogicalCluster::parse(provider), ExportName::parse(export)) else { return };
        for (group, resource) in binding.bound() {
            let (Ok(group), Ok(resource)) = (Group::parse(group), Resource::parse(resource)) else { continue };
            let full = self.bound.len() >= MOST_BOUND;
            match self.bound.entry(GroupResource { group, resource }) {
                Entry::Occupied(mut bound) => bound.get_mut().twice = true,
                Entry::Vacant(_) if full => return,
                Entry::Vacant(vacant) => drop(vacant.insert(Bound {
                    provider: provider.clone(),
                    export: export.clone(),
                    path: binding.path().to_owned(),
                    unbinding: binding.is_terminating(),
                    twice: false,
                })),
            }
        }
    }

    /// The kind that an edge leads to. `None` where it isn't certain that it bears here, given that the kind which it
    /// leaves is one of this logical cluster.
    pub(crate) fn target(&self, edge: &IndexedEdge) -> Option<Node> {
        if self.home == Home::Kcp && has_local_end(edge) && edge.rule.cluster != self.cluster {
            return None;
        }
        let kind = edge.target.clone();
        let Some(export) = &edge.target_export else {
            return Some(Node { cluster: self.cluster.clone(), export: None, kind });
        };
        let bound = self.bound(&kind)?;
        let is_provider = match self.workspaces.cluster(&export.path) {
            Some(provider) => bound.provider == *provider,
            None => bound.path == export.path.as_str(),
        };
        let bears = is_provider && bound.export == export.name;
        bears.then(|| Node { cluster: Some(bound.provider.clone()), export: Some(export.name.clone()), kind })
    }

    /// Whether the binding that serves this kind here is being deleted, and so the kind's objects.
    pub(crate) fn is_unbinding(&self, node: &Node) -> bool {
        node.export.is_some() && self.bound(&node.kind).is_some_and(|bound| bound.unbinding)
    }

    fn bound(&self, kind: &GroupResource) -> Option<&Bound> {
        self.bound.get(kind).filter(|bound| !bound.twice)
    }
}

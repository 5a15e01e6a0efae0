//! Edges that apply in a logical cluster, and their ends there.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::Arc;

use crate::applicability::api_bindings::Binding;
use crate::applicability::workspace_paths::Workspaces;
use crate::model::control_plane::ControlPlane;
use crate::model::names::{ExportName, Group, GroupResource, LogicalCluster, Resource};
use crate::protocol::deletion_target::DeletionTarget;
use crate::rule::compiled_edge::CompiledEdge;
use crate::rule::cycles::Node;

/// The most kinds that are kept of a logical cluster's bindings; kinds beyond that count as lying on no cycle.
const MAX_BOUND: usize = 20_000;

// === Applicability of an edge: in doubt, it applies ===

/// An edge, with one flag for each end: the APIBindings read so far show that end in this logical cluster.
#[derive(Debug)]
pub(crate) struct CandidateEdge {
    pub(crate) edge: Arc<CompiledEdge>,
    /// The logical cluster of the target's provider, if known.
    provider: Option<LogicalCluster>,
    dependent: bool,
    target: bool,
}

impl CandidateEdge {
    /// Creates a candidate; `None` if the edge can't apply in this logical cluster, whatever the cluster binds.
    pub(crate) fn new(
        control_plane: ControlPlane,
        edge: &Arc<CompiledEdge>,
        target: &DeletionTarget,
        workspaces: &Workspaces,
    ) -> Option<Self> {
        if control_plane == ControlPlane::Kcp
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

    /// Returns to the state before any binding was read.
    ///
    /// A rule without a known workspace applies everywhere. On plain Kubernetes that holds for every rule. In kcp an
    /// API server always names the workspace, so the loader of the rule must do so as well; a refusal makes the error
    /// visible.
    pub(crate) fn reset(&mut self) {
        let unknown = self.edge.rule.cluster.is_none();
        self.dependent = unknown || self.edge.dependent_export.is_none();
        self.target = unknown || self.edge.target_export.is_none();
    }

    pub(crate) fn observe(&mut self, binding: &Binding<'_>) {
        let edge = &self.edge;
        if let (Some(provider), Some(export)) = (&edge.rule.cluster, &edge.dependent_export) {
            self.dependent |= binding.binds(provider, export.as_str(), &edge.dependent);
        }
        if let Some(export) = &edge.target_export {
            self.target |= binding.binds_ref(export, self.provider.as_ref(), &edge.target);
        }
    }

    pub(crate) fn applies(&self) -> bool {
        self.dependent && self.target
    }

    /// Returns true if the edge is about the target: its kind is bound from the APIExport that the rule names.
    #[cfg(feature = "interlock")]
    pub(crate) fn is_about_target(&self) -> bool {
        self.target
    }

    /// Returns true if the deletion of a logical cluster deletes dependents without a namespace only after the
    /// target. kcp deletes the namespaces and the local objects first, and only when those are gone the bindings,
    /// each with the objects of its kinds (see kcp's `logicalclusterdeletion` controller). An earlier deletion of a
    /// binding changes nothing: the objects of that binding may wait for objects of another one.
    pub(crate) fn is_kept_last(&self, target: &DeletionTarget) -> bool {
        let bound = self.edge.dependent_export.is_some() && self.edge.rule.cluster.is_some();
        let goes_first = target.namespace.is_some() || self.edge.target_export.is_none();
        target.cluster.is_some() && bound && goes_first
    }
}

fn has_local_end(edge: &CompiledEdge) -> bool {
    edge.dependent_export.is_none() || edge.target_export.is_none()
}

// === Ends of an edge: in doubt, there are none ===

/// The kinds of one logical cluster, and their owners.
#[derive(Debug)]
pub(crate) struct BoundKinds {
    control_plane: ControlPlane,
    cluster: Option<LogicalCluster>,
    workspaces: Workspaces,
    bound: HashMap<GroupResource, Bound>,
}

#[derive(Debug)]
struct Bound {
    provider: LogicalCluster,
    export: ExportName,
    /// The workspace path in the binding's reference; empty if it is left out.
    path: String,
    unbinding: bool,
    /// Set if the kind is bound more than once, so that its owner is unknown.
    twice: bool,
}

impl BoundKinds {
    pub(crate) fn new(control_plane: ControlPlane, cluster: Option<LogicalCluster>, workspaces: &Workspaces) -> Self {
        Self { control_plane, cluster, workspaces: workspaces.clone(), bound: HashMap::new() }
    }

    /// Returns to the state before any binding was read.
    pub(crate) fn reset(&mut self) {
        self.bound.clear();
    }

    pub(crate) fn see(&mut self, binding: &Binding<'_>) {
        let (Some(provider), Some(export)) = (binding.provider(), binding.export()) else { return };
        let (Ok(provider), Ok(export)) = (LogicalCluster::parse(provider), ExportName::parse(export)) else { return };
        for (group, resource) in binding.bound() {
            let (Ok(group), Ok(resource)) = (Group::parse(group), Resource::parse(resource)) else { continue };
            let full = self.bound.len() >= MAX_BOUND;
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

    /// Returns the target kind of an edge whose dependent kind belongs to this logical cluster. `None` unless the
    /// edge certainly applies here.
    pub(crate) fn target(&self, edge: &CompiledEdge) -> Option<Node> {
        if self.control_plane == ControlPlane::Kcp && has_local_end(edge) && edge.rule.cluster != self.cluster {
            return None;
        }
        let kind = edge.target.clone();
        let Some(export) = &edge.target_export else {
            return Some(Node { cluster: self.cluster.clone(), export: None, kind });
        };
        let bound = self.bound(&kind)?;
        let is_provider = match self.workspaces.cluster(&export.path) {
            Some(provider) => bound.provider == *provider,
            // A provider's rule about kinds of its own could name them by the true path, so it closes no cycle that
            // the provider could not close anyway.
            None => bound.path == export.path.as_str() || edge.rule.cluster.as_ref() == Some(&bound.provider),
        };
        let applies = is_provider && bound.export == export.name;
        applies.then(|| Node { cluster: Some(bound.provider.clone()), export: Some(export.name.clone()), kind })
    }

    /// Returns true if the binding that serves this kind here is being deleted, and with it the kind's objects.
    pub(crate) fn is_unbinding(&self, node: &Node) -> bool {
        node.export.is_some() && self.bound(&node.kind).is_some_and(|bound| bound.unbinding)
    }

    fn bound(&self, kind: &GroupResource) -> Option<&Bound> {
        self.bound.get(kind).filter(|bound| !bound.twice)
    }
}

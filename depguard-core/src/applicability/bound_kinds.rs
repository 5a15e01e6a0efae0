//! Kinds that a logical cluster binds. In doubt, there are none.

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use crate::applicability::api_bindings::Binding;
use crate::applicability::workspace_paths::Workspaces;
use crate::model::control_plane::ControlPlane;
use crate::model::names::{ExportName, Group, GroupResource, LogicalCluster, Resource};
use crate::rule::compiled_edge::CompiledEdge;
use crate::rule::cycles::Node;

/// The most kinds that are kept of a logical cluster's bindings; kinds beyond that count as lying on no cycle.
const MAX_BOUND: usize = 20_000;

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
        if self.control_plane == ControlPlane::Kcp && edge.has_local_end() && edge.rule.cluster != self.cluster {
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

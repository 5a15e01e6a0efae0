//! Ends of a constraint in a logical cluster. When a reference is made, the dependent's end alone makes the constraint
//! apply: no binding of the target's kind must not mean that nobody looks.

use std::sync::Arc;

use crate::applicability::api_bindings::Binding;
use crate::applicability::workspace_paths::Workspaces;
use crate::model::control_plane::ControlPlane;
use crate::model::names::{ExportName, LogicalCluster};
use crate::rule::compiled_edge::CompiledEdge;
use crate::rule::reference_constraint::ReferenceConstraint;

/// A constraint, and its ends as far as the APIBindings read so far show them.
#[derive(Debug)]
pub(crate) struct ConstraintEnds {
    pub(crate) constraint: Arc<ReferenceConstraint>,
    dependent: bool,
    /// Target's end of each edge of the constraint.
    targets: Vec<TargetEnd>,
}

/// Target's end of an edge.
#[derive(Debug)]
struct TargetEnd {
    edge: Arc<CompiledEdge>,
    /// The logical cluster of the target's provider, if known.
    provider: Option<LogicalCluster>,
    found: TargetKind,
}

/// The kind in the reviewed logical cluster that has the name of an edge's target kind.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum TargetKind {
    /// The edge's own kind, with its APIExport; without one for a local kind.
    Own(Option<(LogicalCluster, ExportName)>),
    /// A kind of another provider: the edge says nothing about it.
    Other,
    /// No binding shows the kind. A local definition may.
    Unbound,
}

impl ConstraintEnds {
    /// Reads the ends that no binding shows; `None` if the constraint can't apply in this logical cluster, whatever the
    /// cluster binds.
    pub(crate) fn new(
        control_plane: ControlPlane,
        constraint: &Arc<ReferenceConstraint>,
        cluster: Option<&LogicalCluster>,
        workspaces: &Workspaces,
    ) -> Option<Self> {
        let own = constraint.rule.cluster.as_ref();
        let is_own = control_plane == ControlPlane::Kubernetes || own.is_none() || own == cluster;
        if constraint.dependent_export.is_none() && !is_own {
            return None;
        }
        let target = |edge: &Arc<CompiledEdge>| {
            let provider = edge.target_export.as_ref().and_then(|export| workspaces.cluster(&export.path)).cloned();
            let found = match &edge.target_export {
                Some(_) => TargetKind::Unbound,
                None if is_own => TargetKind::Own(None),
                None => TargetKind::Other,
            };
            TargetEnd { edge: Arc::clone(edge), provider, found }
        };
        let targets = constraint.edges().iter().map(target).collect();
        let mut ends = Self { constraint: Arc::clone(constraint), dependent: false, targets };
        ends.reset();
        Some(ends)
    }

    /// Returns to the state before any binding was read.
    pub(crate) fn reset(&mut self) {
        let ReferenceConstraint { rule, dependent_export, .. } = &*self.constraint;
        self.dependent = rule.cluster.is_none() || dependent_export.is_none();
        for end in self.targets.iter_mut().filter(|end| end.edge.target_export.is_some()) {
            end.found = TargetKind::Unbound;
        }
    }

    /// Returns true if only bindings show some of the ends.
    pub(crate) fn need_bindings(&self) -> bool {
        !self.dependent || self.targets.iter().any(|end| end.edge.target_export.is_some())
    }

    pub(crate) fn observe(&mut self, binding: &Binding<'_>) {
        let ReferenceConstraint { rule, dependent_export, dependent, .. } = &*self.constraint;
        if let (Some(provider), Some(export)) = (&rule.cluster, dependent_export) {
            self.dependent |= binding.binds(provider, export.as_str(), dependent);
        }
        for TargetEnd { edge, provider, found } in &mut self.targets {
            let Some(export) = &edge.target_export else { continue };
            if binding.binds_ref(export, provider.as_ref(), &edge.target) {
                let bound = binding.provider().and_then(|cluster| LogicalCluster::parse(cluster).ok());
                *found = TargetKind::Own(bound.map(|cluster| (cluster, export.name.clone())));
            } else if *found == TargetKind::Unbound && binding.has(&edge.target) {
                *found = TargetKind::Other;
            }
        }
    }

    /// Returns true if the constraint is about the reviewed object.
    pub(crate) fn applies(&self) -> bool {
        self.dependent
    }

    /// Returns the APIExport that should serve the target kind of an edge, by the rule alone.
    #[cfg(feature = "interlock")]
    pub(crate) fn expected_export(&self, edge: usize) -> Option<(LogicalCluster, ExportName)> {
        let TargetEnd { edge, provider, found: _ } = self.targets.get(edge)?;
        Some((provider.clone()?, edge.target_export.as_ref()?.name.clone()))
    }

    /// Returns the target kind of an edge of the constraint.
    pub(crate) fn target(&self, edge: usize) -> Option<&TargetKind> {
        self.targets.get(edge).map(|end| &end.found)
    }
}

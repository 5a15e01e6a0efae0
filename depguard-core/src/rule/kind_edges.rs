//! Edges to one kind, found by what a logical cluster binds.

use std::cmp::Ordering;
use std::sync::Arc;

use crate::model::api::OnDelete;
use crate::model::names::{ExportName, GroupResource, LogicalCluster};
use crate::rule::compiled_edge::CompiledEdge;
use crate::rule::cycles::Graph;

/// The edges to one kind, with one failure policy.
///
/// A review finds the edges of its own logical cluster, and of the APIExports that are bound there. It visits no other
/// edge, however many rules other providers have. An edge has a position, which tells the order of the rules.
#[derive(Debug, Default)]
pub(crate) struct KindEdges {
    edges: Vec<Arc<CompiledEdge>>,
    /// Positions of the edges of rules without a known logical cluster.
    anywhere: Vec<usize>,
    /// Positions of the edges with a local end, by the rule's logical cluster: they apply nowhere else.
    local: Vec<usize>,
    /// Positions of the edges between exported kinds, by the APIExport of the dependents.
    exported: Vec<usize>,
    /// The strictest `onDelete` action of the edges between exported kinds; `None`: there are no such edges.
    pub(crate) exported_on_delete: Option<OnDelete>,
    /// True if an edge between exported kinds may lie on a cycle.
    pub(crate) exported_may_close: bool,
    #[cfg(feature = "interlock")]
    interlocked: Vec<usize>,
}

impl KindEdges {
    /// Collects the edges of one kind.
    pub(crate) fn new(edges: impl IntoIterator<Item = Arc<CompiledEdge>>, graph: &Graph) -> Self {
        let mut found = Self { edges: edges.into_iter().collect(), ..Self::default() };
        for (position, edge) in found.edges.iter().enumerate() {
            if edge.rule.cluster.is_none() {
                found.anywhere.push(position);
            } else if edge.has_local_end() {
                found.local.push(position);
            } else {
                found.exported.push(position);
                found.exported_on_delete = found.exported_on_delete.into_iter().chain([edge.on_delete]).min();
                found.exported_may_close |= graph.may_close(edge);
            }
            #[cfg(feature = "interlock")]
            if edge.is_interlocked() {
                found.interlocked.push(position);
            }
        }
        // The sorts are stable, so edges of the same origin stay in the order of the rules.
        let edges = &found.edges;
        found.local.sort_by_key(|position| edges.get(*position).map(|edge| &edge.rule.cluster));
        found
            .exported
            .sort_by_key(|position| edges.get(*position).map(|edge| (&edge.rule.cluster, &edge.dependent_export)));
        found
    }

    pub(crate) fn edges(&self) -> &[Arc<CompiledEdge>] {
        &self.edges
    }

    /// Returns the kind; `None` if there is no edge.
    pub(crate) fn kind(&self) -> Option<&GroupResource> {
        self.edges.first().map(|edge| &edge.target)
    }

    /// Returns the edges at these positions, with their positions.
    pub(crate) fn at<'p>(
        &self,
        positions: impl IntoIterator<Item = &'p usize>,
    ) -> impl Iterator<Item = (usize, &Arc<CompiledEdge>)> {
        positions.into_iter().filter_map(|position| Some((*position, self.edges.get(*position)?)))
    }

    /// Returns the edges that may apply in this logical cluster, but for the edges between exported kinds.
    pub(crate) fn of_cluster(
        &self,
        cluster: Option<&LogicalCluster>,
    ) -> impl Iterator<Item = (usize, &Arc<CompiledEdge>)> {
        let local = self.equal(&self.local, |edge| edge.rule.cluster.as_ref().cmp(&cluster));
        self.at(self.anywhere.iter().chain(local))
    }

    /// Returns the edges between exported kinds whose dependents come from this APIExport.
    pub(crate) fn of_export(&self, provider: &str, export: &str) -> impl Iterator<Item = (usize, &Arc<CompiledEdge>)> {
        self.at(self.equal(&self.exported, |edge| {
            let cluster = edge.rule.cluster.as_ref().map(LogicalCluster::as_str);
            (cluster, edge.dependent_export.as_ref().map(ExportName::as_str)).cmp(&(Some(provider), Some(export)))
        }))
    }

    /// Returns the edges that are [interlocked](CompiledEdge::is_interlocked).
    #[cfg(feature = "interlock")]
    pub(crate) fn interlocked(&self) -> impl Iterator<Item = (usize, &Arc<CompiledEdge>)> {
        self.at(&self.interlocked)
    }

    /// Returns the part of sorted positions whose edges compare as equal.
    fn equal<'p>(&self, positions: &'p [usize], compare: impl Fn(&CompiledEdge) -> Ordering) -> &'p [usize] {
        let order = |position: &usize| self.edges.get(*position).map_or(Ordering::Equal, |edge| compare(edge));
        let (from, to) = (
            positions.partition_point(|position| order(position).is_lt()),
            positions.partition_point(|position| order(position).is_le()),
        );
        positions.get(from..to).unwrap_or_default()
    }
}

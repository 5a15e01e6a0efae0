//! Cycles of kinds that refer to each other by the rules.
//!
//! Deletions that wait for each other in a cycle would never end. Edges of a strongly connected component are
//! therefore released if the whole component is torn down (see `applicability/teardown.rs`). A release weakens these
//! edges, so nobody may be able to put another provider's edge into a component:
//!
//! - An edge begins at a kind of the rule's own workspace, so a rule adds edges only to its provider's own kinds.
//! - The APIBindings of the reviewed logical cluster determine the target kind of an edge, never the rule alone. If
//!   the APIBindings don't show both ends of an edge there, the edge counts in no cycle. This holds even if the rule
//!   is assumed to apply: in doubt a rule applies, which favours refusing, and in doubt an edge is on no cycle, which
//!   favours refusing as well.
//!
//! Components are found once for a set of rules, by export name and kind; the logical clusters of the exports are not
//! considered yet. The components are therefore never too small, whatever logical cluster is reviewed.
//! [`Graph::reach`] later walks only the edges that exist in the reviewed logical cluster.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use crate::graph::strongly_connected::strongly_connected_components;
use crate::model::names::{ExportName, GroupResource, LogicalCluster};
use crate::rule::compiled_edge::{CompiledEdge, EdgeState};

/// A kind, and its owner.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Node {
    /// The logical cluster of the kind's APIExport; for a local kind, the logical cluster of the kind. `None` on
    /// plain Kubernetes.
    pub(crate) cluster: Option<LogicalCluster>,
    /// The kind's APIExport; `None` for a local kind.
    pub(crate) export: Option<ExportName>,
    pub(crate) kind: GroupResource,
}

/// The edges that may lie on a cycle, by their dependent kind.
#[derive(Debug, Default)]
pub(crate) struct Graph {
    leaving: HashMap<Node, Vec<Arc<CompiledEdge>>>,
    /// Addresses of these edges, each of which stays the edge's own as long as `leaving` holds the edge.
    closing: HashSet<usize>,
}

impl Graph {
    /// Finds the components. Edges of rules that can't be used don't count.
    pub(crate) fn from_edges<'e>(edges: impl IntoIterator<Item = &'e Arc<CompiledEdge>>) -> Self {
        let mut nodes = HashMap::new();
        let mut leaving: Vec<Vec<usize>> = Vec::new();
        let mut node = |export: Option<&'e ExportName>, kind: &'e GroupResource| {
            let next = nodes.len();
            *nodes.entry((export, kind)).or_insert(next)
        };
        let ends: Vec<_> = (edges.into_iter())
            .filter(|edge| matches!(edge.state, EdgeState::Usable { .. }))
            .map(|edge| {
                let dependent = node(edge.dependent_export.as_ref(), &edge.dependent);
                let target = node(edge.target_export.as_ref().map(|export| &export.name), &edge.target);
                (edge, dependent, target)
            })
            .collect();
        leaving.resize_with(nodes.len(), Vec::new);
        for (_, dependent, target) in &ends {
            if let Some(leaving) = leaving.get_mut(*dependent) {
                leaving.push(*target);
            }
        }
        let components = strongly_connected_components(&leaving);
        let mut graph = Self::default();
        for (edge, dependent, target) in ends {
            if components.get(dependent) == components.get(target) {
                graph.closing.insert(Arc::as_ptr(edge).addr());
                graph.leaving.entry(Node::dependent(edge)).or_default().push(Arc::clone(edge));
            }
        }
        graph
    }

    /// Returns true if the edge may lie on a cycle in some logical cluster.
    pub(crate) fn may_close(&self, edge: &Arc<CompiledEdge>) -> bool {
        self.closing.contains(&Arc::as_ptr(edge).addr())
    }

    /// Returns a kind and all kinds to which it leads. `target` returns the target kind of an edge in the reviewed
    /// logical cluster, or `None` if the edge doesn't apply there.
    pub(crate) fn reach(&self, from: Node, mut target: impl FnMut(&CompiledEdge) -> Option<Node>) -> HashSet<Node> {
        let mut reached = HashSet::from([from.clone()]);
        let mut ahead = vec![from];
        while let Some(node) = ahead.pop() {
            for edge in self.leaving.get(&node).into_iter().flatten() {
                if let Some(next) = target(edge).filter(|next| !reached.contains(next)) {
                    reached.insert(next.clone());
                    ahead.push(next);
                }
            }
        }
        reached
    }
}

impl Node {
    /// Returns the dependent kind of an edge. The rule's own workspace is the workspace of the dependents' export, or
    /// of the local kind.
    pub(crate) fn dependent(edge: &CompiledEdge) -> Self {
        Self { cluster: edge.rule.cluster.clone(), export: edge.dependent_export.clone(), kind: edge.dependent.clone() }
    }
}

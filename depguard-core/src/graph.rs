//! Which kinds refer to each other in a cycle, as the rules say.
//!
//! Deletions that wait for each other in a cycle would never end, so edges of a strongly connected component are let
//! go where all of it is torn down (see `scopes.rs`). That weakens them, so nobody must be able to put somebody else's
//! edge into a component:
//!
//! - An edge begins at a kind of the rule's own workspace, so a rule adds edges to its provider's own kinds alone.
//! - What a rule's edge leads to is told by the APIBindings of the reviewed logical cluster, never by the rule alone.
//!   An edge whose two ends they don't show there counts in no cycle, also where its rule is taken to bear: bearing is
//!   decided in favour of refusing, and so is this.
//!
//! Components are found once for a set of rules, by export name and kind; where the exports lie is not asked yet. So
//! they are never too small, whatever logical cluster is reviewed. [`Graph::reach`] then walks only those edges that are
//! real there.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use crate::api::OnDelete;
use crate::components::components;
use crate::names::{ExportName, GroupResource, LogicalCluster};
use crate::ruleset::{Check, IndexedEdge};

/// A kind, and whose it is.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Node {
    /// The logical cluster of its APIExport; of a local kind, that where it is local. `None` in home kubernetes.
    pub(crate) cluster: Option<LogicalCluster>,
    /// `None` for a local kind.
    pub(crate) export: Option<ExportName>,
    pub(crate) kind: GroupResource,
}

/// The edges that may lie on a cycle, by the kind that they leave.
#[derive(Debug, Default)]
pub(crate) struct Graph {
    leaving: HashMap<Node, Vec<Arc<IndexedEdge>>>,
}

impl Graph {
    /// Finds the components. A rule that can't be used is no edge, nor is one that refuses nothing.
    pub(crate) fn of<'e>(edges: impl IntoIterator<Item = &'e Arc<IndexedEdge>>) -> Self {
        let mut nodes = HashMap::new();
        let mut leaving: Vec<Vec<usize>> = Vec::new();
        let mut node = |export: Option<&'e ExportName>, kind: &'e GroupResource| {
            let next = nodes.len();
            *nodes.entry((export, kind)).or_insert(next)
        };
        let ends: Vec<_> = (edges.into_iter())
            .filter(|edge| matches!(edge.check, Check::Follow { .. }) && edge.on_delete == OnDelete::Deny)
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
        let components = components(&leaving);
        let mut graph = Self::default();
        for (edge, dependent, target) in ends {
            if components.get(dependent) == components.get(target) {
                graph.leaving.entry(Node::dependent(edge)).or_default().push(Arc::clone(edge));
            }
        }
        graph
    }

    /// Whether the edge may lie on a cycle in some logical cluster.
    pub(crate) fn may_close(&self, edge: &Arc<IndexedEdge>) -> bool {
        let leaving = self.leaving.get(&Node::dependent(edge)).into_iter().flatten();
        leaving.into_iter().any(|known| Arc::ptr_eq(known, edge))
    }

    /// The kind itself and all that it leads to; `target` tells where an edge leads in the reviewed logical cluster,
    /// `None` where it doesn't bear there.
    pub(crate) fn reach(&self, from: Node, mut target: impl FnMut(&IndexedEdge) -> Option<Node>) -> HashSet<Node> {
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
    /// The kind that an edge leaves. A rule's own workspace is that of the dependents' export, or where they are local.
    pub(crate) fn dependent(edge: &IndexedEdge) -> Self {
        Self { cluster: edge.rule.cluster.clone(), export: edge.dependent_export.clone(), kind: edge.dependent.clone() }
    }
}

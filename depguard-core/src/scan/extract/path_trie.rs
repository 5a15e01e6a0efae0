//! Tree of all paths: the steps to follow from each place.

use super::Take;
use crate::model::field_path::{FieldPath, Segment};

/// Tree of paths; its first node is the object itself.
#[derive(Debug)]
pub(super) struct PathTrie {
    nodes: Vec<Node>,
    /// True for each slot for which an object may hold any number of values.
    slots: Vec<bool>,
}

/// Steps that go on from a value, and the slots that take the value itself.
#[derive(Debug, Default)]
pub(super) struct Node {
    pub(super) named: Vec<(String, NodeId)>,
    pub(super) indexed: Vec<(u32, NodeId)>,
    /// The node of every element of a list and every value of a map.
    pub(super) any: Option<NodeId>,
    /// The node of every element of a list, without an index.
    pub(super) each: Option<NodeId>,
    pub(super) texts: Vec<usize>,
    pub(super) keys: Vec<usize>,
    pub(super) jsons: Vec<usize>,
}

pub(super) type NodeId = usize;

pub(super) const ROOT: NodeId = 0;

impl Default for PathTrie {
    fn default() -> Self {
        Self { nodes: vec![Node::default()], slots: Vec::new() }
    }
}

impl PathTrie {
    /// Returns the slots: true for each slot for which an object may hold any number of values.
    pub(super) fn slots(&self) -> &[bool] {
        &self.slots
    }

    #[expect(clippy::indexing_slicing, reason = "ids come from this tree only, and no node is ever removed")]
    pub(super) fn node(&self, id: NodeId) -> &Node {
        &self.nodes[id]
    }

    /// Adds a slot for the string at these names.
    pub(super) fn add_field<'n>(&mut self, names: impl IntoIterator<Item = &'n str>) {
        let leaf = names.into_iter().fold(ROOT, |node, name| self.named(node, name));
        self.take(leaf, Take::Text, false);
    }

    /// Adds a slot for the values at `path`.
    pub(super) fn add(&mut self, path: &FieldPath, take: Take) {
        let leaf = path.segments().iter().fold(ROOT, |node, segment| match segment {
            Segment::Name(name) => self.named(node, name),
            Segment::Index(index) => self.indexed(node, *index),
            Segment::Wildcard => self.child(node, |node| node.any, |node, child| node.any = Some(child)),
        });
        let many = path.wildcards() > 0 || matches!(take, Take::Texts | Take::Keys);
        self.take(leaf, take, many);
    }

    fn take(&mut self, leaf: NodeId, take: Take, many: bool) {
        let slot = self.slots.len();
        self.slots.push(many);
        match take {
            Take::Text => self.node_mut(leaf).texts.push(slot),
            Take::Texts => {
                let each = self.child(leaf, |node| node.each, |node, child| node.each = Some(child));
                self.node_mut(leaf).texts.push(slot);
                self.node_mut(each).texts.push(slot);
            }
            Take::Keys => self.node_mut(leaf).keys.push(slot),
            Take::Json => self.node_mut(leaf).jsons.push(slot),
        }
    }

    fn named(&mut self, node: NodeId, name: &str) -> NodeId {
        let known = |node: &Node| node.named.iter().find(|(key, _)| key == name).map(|(_, child)| *child);
        self.child(node, known, |node, child| node.named.push((name.to_owned(), child)))
    }

    fn indexed(&mut self, node: NodeId, index: u32) -> NodeId {
        let known = |node: &Node| node.indexed.iter().find(|(at, _)| *at == index).map(|(_, child)| *child);
        self.child(node, known, |node, child| node.indexed.push((index, child)))
    }

    fn child(
        &mut self,
        node: NodeId,
        known: impl FnOnce(&Node) -> Option<NodeId>,
        link: impl FnOnce(&mut Node, NodeId),
    ) -> NodeId {
        known(self.node(node)).unwrap_or_else(|| {
            let child = self.nodes.len();
            self.nodes.push(Node::default());
            link(self.node_mut(node), child);
            child
        })
    }

    #[expect(clippy::indexing_slicing, reason = "ids come from this tree only, and no node is ever removed")]
    fn node_mut(&mut self, id: NodeId) -> &mut Node {
        &mut self.nodes[id]
    }
}

impl Node {
    /// Returns the node to which this key leads.
    pub(super) fn child(&self, key: &[u8]) -> Option<NodeId> {
        self.named.iter().find(|(name, _)| name.as_bytes() == key).map(|(_, child)| *child)
    }

    /// Returns true if a path needs more of a value than its JSON text.
    pub(super) fn goes_on(&self) -> bool {
        !self.texts.is_empty() || !self.keys.is_empty() || self.children().next().is_some()
    }

    /// Returns all nodes that follow.
    pub(super) fn children(&self) -> impl Iterator<Item = NodeId> {
        let named = self.named.iter().map(|(_, child)| *child);
        let indexed = self.indexed.iter().map(|(_, child)| *child);
        named.chain(indexed).chain(self.any).chain(self.each)
    }
}

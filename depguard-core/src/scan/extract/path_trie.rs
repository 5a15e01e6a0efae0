//! Tree of all paths: the steps to follow from each place.

use std::cmp::Ordering;

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
    /// In the order of [`order_of_names`].
    named: Vec<(Box<str>, NodeId)>,
    /// In ascending order.
    indexed: Vec<(u32, NodeId)>,
    /// The node of every element of a list and every value of a map.
    pub(super) any: Option<NodeId>,
    /// The node of every element of a list, without an index.
    pub(super) each: Option<NodeId>,
    /// The node of what a string holds as JSON.
    pub(super) json: Option<NodeId>,
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

    /// Returns the number of nodes. Their ids are below it.
    pub(super) fn len(&self) -> usize {
        self.nodes.len()
    }

    #[expect(clippy::indexing_slicing, reason = "ids come from this tree only, and no node is ever removed")]
    pub(super) fn node(&self, id: NodeId) -> &Node {
        &self.nodes[id]
    }

    /// Adds a slot for the string at these names.
    pub(super) fn add_field<'n>(&mut self, names: impl IntoIterator<Item = &'n str>) {
        let leaf = names.into_iter().fold(ROOT, |node, name| self.named(node, name));
        self.slots.push(false);
        self.take(leaf, Take::Text, self.slots.len() - 1);
    }

    /// Adds a slot for the values at each path, in that order.
    pub(super) fn add_all<'p>(&mut self, paths: impl IntoIterator<Item = (&'p FieldPath, Take)>) {
        let mut paths: Vec<_> = (self.slots.len()..).zip(paths).collect();
        let takes_many = |path: &FieldPath, take| path.wildcards() > 0 || matches!(take, Take::Texts | Take::Keys);
        self.slots.extend(paths.iter().map(|(_, (path, take))| takes_many(path, *take)));
        // In this order each step is the last one of its node, so that many paths about one kind make no work that grows
        // with the square of their number.
        paths.sort_by(|(_, (one, _)), (_, (other, _))| {
            let segments = one.segments().iter().zip(other.segments());
            let differs = segments.map(|(one, other)| order_of_segments(one, other)).find(|order| order.is_ne());
            differs.unwrap_or_else(|| one.segments().len().cmp(&other.segments().len()))
        });
        for (slot, (path, take)) in paths {
            self.add(path, take, slot);
        }
    }

    fn add(&mut self, path: &FieldPath, take: Take, slot: usize) {
        let leaf = path.segments().iter().fold(ROOT, |node, segment| match segment {
            Segment::Name(name) => self.named(node, name),
            Segment::Index(index) => self.indexed(node, *index),
            Segment::Wildcard => self.child(node, |node| node.any, |node, child| node.any = Some(child)),
            Segment::FromJson => self.child(node, |node| node.json, |node, child| node.json = Some(child)),
        });
        self.take(leaf, take, slot);
    }

    fn take(&mut self, leaf: NodeId, take: Take, slot: usize) {
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
        match self.node(node).find(name.as_bytes()) {
            Ok(child) => child,
            Err(at) => {
                let child = self.add_node();
                self.node_mut(node).named.insert(at, (name.into(), child));
                child
            }
        }
    }

    fn indexed(&mut self, node: NodeId, index: u32) -> NodeId {
        match self.node(node).find_index(index) {
            Ok(child) => child,
            Err(at) => {
                let child = self.add_node();
                self.node_mut(node).indexed.insert(at, (index, child));
                child
            }
        }
    }

    fn child(
        &mut self,
        node: NodeId,
        known: impl FnOnce(&Node) -> Option<NodeId>,
        link: impl FnOnce(&mut Node, NodeId),
    ) -> NodeId {
        known(self.node(node)).unwrap_or_else(|| {
            let child = self.add_node();
            link(self.node_mut(node), child);
            child
        })
    }

    fn add_node(&mut self) -> NodeId {
        self.nodes.push(Node::default());
        self.nodes.len() - 1
    }

    #[expect(clippy::indexing_slicing, reason = "ids come from this tree only, and no node is ever removed")]
    fn node_mut(&mut self, id: NodeId) -> &mut Node {
        &mut self.nodes[id]
    }
}

impl Node {
    /// Returns the node to which this key leads.
    pub(super) fn child(&self, key: &[u8]) -> Option<NodeId> {
        self.find(key).ok()
    }

    /// Returns the node to which this index of a list leads.
    pub(super) fn element(&self, index: u32) -> Option<NodeId> {
        self.find_index(index).ok()
    }

    /// Returns the node of a name, or the place at which it would be.
    fn find(&self, name: &[u8]) -> Result<NodeId, usize> {
        let found = self.named.binary_search_by(|(known, _)| order_of_names(known.as_bytes(), name));
        found.map(|at| self.named.get(at).map_or(ROOT, |(_, child)| *child))
    }

    /// Returns the node of an index, or the place at which it would be.
    fn find_index(&self, index: u32) -> Result<NodeId, usize> {
        let found = self.indexed.binary_search_by_key(&index, |(known, _)| *known);
        found.map(|at| self.indexed.get(at).map_or(ROOT, |(_, child)| *child))
    }

    /// Returns true if a path needs more of a value than its JSON text.
    pub(super) fn goes_on(&self) -> bool {
        !self.texts.is_empty() || !self.keys.is_empty() || self.children().next().is_some()
    }

    /// Returns all nodes that follow.
    pub(super) fn children(&self) -> impl Iterator<Item = NodeId> {
        let named = self.named.iter().map(|(_, child)| *child);
        let indexed = self.indexed.iter().map(|(_, child)| *child);
        named.chain(indexed).chain(self.any).chain(self.each).chain(self.json)
    }
}

/// Compares names by their lengths first: most keys of an object lead nowhere, and their lengths show that.
fn order_of_names(one: &[u8], other: &[u8]) -> Ordering {
    #[cfg(test)]
    tests::COMPARED.set(tests::COMPARED.get() + 1);
    one.len().cmp(&other.len()).then_with(|| one.cmp(other))
}

fn order_of_segments(one: &Segment, other: &Segment) -> Ordering {
    match (one, other) {
        (Segment::Name(one), Segment::Name(other)) => order_of_names(one.as_bytes(), other.as_bytes()),
        (one, other) => one.cmp(other),
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    thread_local! {
        /// Number of names that were compared.
        pub(super) static COMPARED: Cell<usize> = const { Cell::new(0) };
    }

    #[test]
    fn ten_times_as_many_siblings_take_little_more_than_ten_times_the_work() {
        let compared = |number: usize| {
            // Out of order, as rules come.
            let paths: Vec<_> = (0..number).map(|n| format!(".spec.ref{}.name", n * 7919 % number)).collect();
            let paths: Vec<_> = paths.iter().map(|path| FieldPath::parse(path).unwrap()).collect();
            COMPARED.set(0);
            let mut tree = PathTrie::default();
            tree.add_all(paths.iter().map(|path| (path, Take::Texts)));
            let spec = tree.node(tree.node(ROOT).child(b"spec").unwrap());
            for number in 0..number {
                assert!(spec.child(format!("ref{number}").as_bytes()).is_some());
            }
            assert!(spec.child(b"ref").is_none() && spec.named.len() == number);
            COMPARED.get()
        };
        let [hundred, thousand, ten_thousand] = [100, 1_000, 10_000].map(compared);
        assert!(thousand < hundred * 20 && ten_thousand < thousand * 20, "{hundred}, {thousand}, {ten_thousand}");
    }
}

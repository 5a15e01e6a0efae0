//! One pass through an object, along all paths of a tree at once.

use std::borrow::Cow;
use std::mem::take;

use super::Indices;
use super::found_values::FoundValues;
use super::path_trie::{Node, NodeId, PathTrie, ROOT};
use crate::scan::json::{Json, Malformed, Value};

/// A pass through one object after another. The recursion is as deep as the paths, which are bounded.
///
/// Within the JSON of a string, `'x` is the life of the string's text; else it is that of the page.
pub(super) struct Visitor<'l, 'x, 'de> {
    tree: &'l PathTrie,
    json: Json<'x>,
    /// Makes a text last as long as the page.
    keep: fn(Cow<'x, str>) -> Cow<'de, str>,
    found: FoundValues<'de>,
    /// Number of maps that were read so far.
    maps: u64,
    /// The map in which each node was found last, by its number.
    found_in: Vec<u64>,
}

impl<'l, 'de> Visitor<'l, 'de, 'de> {
    pub(super) fn new(tree: &'l PathTrie, json: Json<'de>) -> Self {
        Self { tree, json, keep: |text| text, found: FoundValues::new(tree), maps: 0, found_in: vec![0; tree.len()] }
    }

    /// Returns the reader at its current place. Between two objects, the caller may read the list around them.
    pub(super) fn json(&mut self) -> &mut Json<'de> {
        &mut self.json
    }

    /// Reads an item of the list, which must be a map.
    pub(super) fn object(&mut self) -> Result<(), Malformed> {
        self.found.clear();
        match self.json.value()? {
            Value::Map => self.map(self.tree.node(ROOT), Indices::default()),
            _ => Err(self.json.expected("an object before")),
        }
    }

    /// Returns the values found in the last object.
    pub(super) fn found(&self) -> &FoundValues<'de> {
        &self.found
    }
}

impl<'x, 'de> Visitor<'_, 'x, 'de> {
    /// Reads the next value, which stands at `node`.
    fn value(&mut self, node: NodeId, at: Indices) -> Result<(), Malformed> {
        let node = self.tree.node(node);
        if let Some(held) = node.json {
            self.held(held, at)?;
        }
        if node.jsons.is_empty() {
            return self.inside(node, at);
        }
        // The JSON text is kept, and the parts of the value that other paths need are read as well.
        let start = self.json.offset();
        let read = if node.goes_on() { self.inside(node, at) } else { self.json.skip() };
        read?;
        let text = (self.keep)(Cow::Borrowed(self.json.text_since(start)?));
        for slot in &node.jsons {
            self.found.push(*slot, at, &text);
        }
        Ok(())
    }

    /// Reads the JSON in the next value, if that is a string, and goes back before the string. A string that begins neither
    /// like a map nor like a list stands for itself. What is no name in JSON is not counted, since a string may hold
    /// anything.
    fn held(&mut self, node: NodeId, at: Indices) -> Result<(), Malformed> {
        let before = self.json.clone();
        if let Value::String(text) = self.json.value()? {
            let text = text.text()?;
            if text.trim_start_matches([' ', '\t', '\n', '\r']).starts_with(['{', '[']) {
                let mut inner = Visitor {
                    tree: self.tree,
                    json: Json::new(text.as_bytes()),
                    keep: |text| Cow::Owned(text.into_owned()),
                    found: take(&mut self.found),
                    maps: self.maps,
                    found_in: take(&mut self.found_in),
                };
                let misfits = inner.found.misfits;
                let read = inner.value(node, at).and_then(|()| inner.json.finish());
                (self.found, self.maps, self.found_in) = (inner.found, inner.maps, inner.found_in);
                self.found.misfits = misfits;
                if read.is_err() {
                    self.found.break_below(self.tree, node, at);
                }
            } else {
                self.json = before.clone();
                self.value(node, at)?;
            }
        }
        self.json = before;
        Ok(())
    }

    fn inside(&mut self, node: &Node, at: Indices) -> Result<(), Malformed> {
        match self.json.value()? {
            Value::Map => self.map(node, at)?,
            Value::List => self.list(node, at)?,
            Value::String(text) => {
                if !node.texts.is_empty() {
                    let text = (self.keep)(text.text()?);
                    for slot in &node.texts {
                        self.found.push(*slot, at, &text);
                    }
                }
                self.found.count_misfits(node.keys.len());
            }
            // A `null` counts as absent.
            Value::Null => {}
            Value::Other => self.found.count_misfits(node.texts.len() + node.keys.len()),
        }
        Ok(())
    }

    fn map(&mut self, node: &Node, at: Indices) -> Result<(), Malformed> {
        self.found.count_misfits(node.texts.len());
        self.maps += 1;
        let map = self.maps;
        let mut next = self.json.first_key()?;
        let mut entry = 0;
        while let Some(key) = next {
            if !node.keys.is_empty() {
                let text = (self.keep)(key.text()?);
                for slot in &node.keys {
                    self.found.push(*slot, at.and(entry), &text);
                }
            }
            let named = node.child(&key.bytes()?);
            if let Some(child) = named
                && let Some(found_in) = self.found_in.get_mut(child)
                && std::mem::replace(found_in, map) == map
            {
                // If a key stands twice, the last one counts, as everywhere in JSON.
                self.found.forget_below(self.tree, child, at);
            }
            self.each([named.map(|child| (child, at)), node.any.map(|child| (child, at.and(entry)))])?;
            entry += 1;
            next = self.json.next_key()?;
        }
        Ok(())
    }

    fn list(&mut self, node: &Node, at: Indices) -> Result<(), Malformed> {
        self.found.count_misfits(node.keys.len() + if node.each.is_some() { 0 } else { node.texts.len() });
        let mut more = self.json.first_element();
        let mut index = 0;
        while more {
            let indexed = node.element(index).map(|child| (child, at));
            let each = node.each.map(|child| (child, at));
            self.each([indexed, each, node.any.map(|child| (child, at.and(index)))])?;
            index += 1;
            more = self.json.next_element()?;
        }
        Ok(())
    }

    /// Reads the next value once for each node at which it stands. Mostly there is one node or none; without a node,
    /// the value is skipped. A value stands at no more than one node of each path, so the value is read at most once
    /// per path.
    fn each<const N: usize>(&mut self, nodes: [Option<(NodeId, Indices)>; N]) -> Result<(), Malformed> {
        let before = self.json.clone();
        let mut read = false;
        for (node, at) in nodes.into_iter().flatten() {
            if read {
                self.json = before.clone();
            }
            self.value(node, at)?;
            read = true;
        }
        if read { Ok(()) } else { self.json.skip() }
    }
}

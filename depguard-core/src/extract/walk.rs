//! One pass through an object, along all paths of a tree at once.

use std::borrow::Cow;

use super::Turns;
use super::found::Found;
use super::tree::{Node, NodeId, ROOT, Tree};
use crate::json::{Json, Malformed, Value};

/// A pass through one object after the other. Recursion goes as deep as the paths, which are bounded.
pub(super) struct Walk<'l, 'de> {
    tree: &'l Tree,
    json: Json<'de>,
    found: Found<'de>,
}

impl<'l, 'de> Walk<'l, 'de> {
    pub(super) fn new(tree: &'l Tree, json: Json<'de>) -> Self {
        Self { tree, json, found: Found::new(tree) }
    }

    /// Where it stands: between two objects, that which lies around them may be read from it.
    pub(super) fn json(&mut self) -> &mut Json<'de> {
        &mut self.json
    }

    /// Reads an item of the list, which must be a map.
    pub(super) fn object(&mut self) -> Result<(), Malformed> {
        self.found.clear();
        match self.json.value()? {
            Value::Map => self.map(self.tree.node(ROOT), Turns::default()),
            _ => Err(self.json.expected("an object before")),
        }
    }

    /// What was found in the last one.
    pub(super) fn found(&self) -> &Found<'de> {
        &self.found
    }

    /// Reads the next value, which stands at a node.
    fn value(&mut self, node: NodeId, at: Turns) -> Result<(), Malformed> {
        let node = self.tree.node(node);
        if node.jsons.is_empty() {
            return self.inside(node, at);
        }
        // The JSON text is kept, and what is wanted of it is read too.
        let start = self.json.offset();
        let read = if node.goes_on() { self.inside(node, at) } else { self.json.skip() };
        read?;
        let text = self.json.text_since(start)?;
        for slot in &node.jsons {
            self.found.push(*slot, at, Cow::Borrowed(text));
        }
        Ok(())
    }

    fn inside(&mut self, node: &Node, at: Turns) -> Result<(), Malformed> {
        match self.json.value()? {
            Value::Map => self.map(node, at)?,
            Value::List => self.list(node, at)?,
            Value::String(text) => {
                if !node.texts.is_empty() {
                    let text = text.text()?;
                    for slot in &node.texts {
                        self.found.push(*slot, at, text.clone());
                    }
                }
                self.found.count_misfits(node.keys.len());
            }
            // What is `null` is not there.
            Value::Null => {}
            Value::Other => self.found.count_misfits(node.texts.len() + node.keys.len()),
        }
        Ok(())
    }

    fn map(&mut self, node: &Node, at: Turns) -> Result<(), Malformed> {
        self.found.count_misfits(node.texts.len());
        let mut next = self.json.first_key()?;
        let mut entry = 0;
        while let Some(key) = next {
            if !node.keys.is_empty() {
                let text = key.text()?;
                for slot in &node.keys {
                    self.found.push(*slot, at.and(entry), text.clone());
                }
            }
            let named = node.child(&key.bytes()?);
            if let Some(child) = named {
                // Of a key that stands twice the last one counts, as everywhere in JSON.
                self.found.forget_below(self.tree, child, at);
            }
            self.each([named.map(|child| (child, at)), node.any.map(|child| (child, at.and(entry)))])?;
            entry += 1;
            next = self.json.next_key()?;
        }
        Ok(())
    }

    fn list(&mut self, node: &Node, at: Turns) -> Result<(), Malformed> {
        self.found.count_misfits(node.keys.len() + if node.each.is_some() { 0 } else { node.texts.len() });
        let mut more = self.json.first_element();
        let mut index = 0;
        while more {
            let indexed = node.indexed.iter().find(|(wanted, _)| *wanted == index).map(|(_, child)| (*child, at));
            let each = node.each.map(|child| (child, at));
            self.each([indexed, each, node.any.map(|child| (child, at.and(index)))])?;
            index += 1;
            more = self.json.next_element()?;
        }
        Ok(())
    }

    /// Reads the next value once for each node at which it stands: mostly none, in which case it is passed over, or one.
    /// Of a path's nodes a value stands at one at most, so that it is not read more often than there are paths.
    fn each<const N: usize>(&mut self, nodes: [Option<(NodeId, Turns)>; N]) -> Result<(), Malformed> {
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

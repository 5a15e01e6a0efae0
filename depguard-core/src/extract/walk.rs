//! One pass through an object, along all paths of a tree at once.
//!
//! A value may stand on the way of several nodes: `.a` and `[*]` both lead to the key `a`. So what is followed is a set
//! of places, kept on a stack that is used for all objects of a page. Where one place is left from which plain paths lead
//! on, `plain.rs` goes on without a set.

use std::borrow::Cow;
use std::fmt;

use serde::de::{Deserialize, DeserializeSeed, Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;

use super::plain::PlainVisitor;
use super::tree::{Node, NodeId, ROOT, Tree};
use super::{Extractor, FIRST_PATH, Hit, Turns};

/// What was found in one object.
#[derive(Debug)]
pub(super) struct Found<'de> {
    slots: Vec<Vec<Hit<'de>>>,
    /// How many hits the paths have, all together.
    hits: usize,
    misfits: usize,
    cut: bool,
}

/// A pass through one object after the other.
pub(super) struct Walk<'l, 'de> {
    tree: &'l Tree,
    places: Vec<Place>,
    found: Found<'de>,
}

/// A node of the tree, and the turns by which the value was reached.
#[derive(Debug, Clone, Copy)]
struct Place {
    node: NodeId,
    at: Turns,
}

impl<'l, 'de> Walk<'l, 'de> {
    pub(super) fn new(tree: &'l Tree) -> Self {
        let slots = (0..tree.slots()).map(|_| Vec::new()).collect();
        Self { tree, places: Vec::new(), found: Found { slots, hits: 0, misfits: 0, cut: false } }
    }

    /// What was found in the last object.
    pub(super) fn found(&self) -> &Found<'de> {
        &self.found
    }

    fn begin(&mut self) {
        self.places.clear();
        self.places.push(Place { node: ROOT, at: Turns::default() });
        self.found.clear();
    }

    fn place(&self, index: usize) -> Option<(&'l Node, Turns)> {
        let place = self.places.get(index)?;
        Some((self.tree.node(place.node), place.at))
    }

    fn any(&self, from: usize, is: impl Fn(&Node) -> bool) -> bool {
        self.places.iter().skip(from).any(|place| is(self.tree.node(place.node)))
    }

    /// A string stands at the places.
    fn text(&mut self, from: usize, text: impl Fn() -> Cow<'de, str>) {
        for index in from..self.places.len() {
            let Some((node, at)) = self.place(index) else { return };
            for slot in &node.texts {
                self.found.push(*slot, at, &text);
            }
            self.found.misfits += node.keys.len();
        }
    }

    /// Something stands there that is no string.
    fn misfit(&mut self, from: usize) {
        for index in from..self.places.len() {
            let Some((node, _)) = self.place(index) else { return };
            self.found.misfits += node.texts.len() + node.keys.len();
        }
    }

    /// The entry of that number in a map that stands at the places up to `end` has this key: adds where it leads.
    fn key(&mut self, from: usize, end: usize, entry: u32, key: &str, text: impl Fn() -> Cow<'de, str>) {
        for index in from..end {
            let Some((node, at)) = self.place(index) else { return };
            for slot in &node.keys {
                self.found.push(*slot, at.and(entry), &text);
            }
            if let Some(child) = node.any {
                self.places.push(Place { node: child, at: at.and(entry) });
            }
            if let Some((_, child)) = node.named.iter().find(|(name, _)| name == key) {
                // Of a key that stands twice the last one counts, as everywhere in JSON.
                self.found.forget_below(self.tree, *child, at);
                self.places.push(Place { node: *child, at });
            }
        }
    }

    /// Adds where the element of that index leads.
    fn element(&mut self, from: usize, end: usize, element: u32) {
        for index in from..end {
            let Some((node, at)) = self.place(index) else { return };
            let indexed = node.indexed.iter().find(|(index, _)| *index == element).map(|(_, child)| *child);
            self.places.extend(indexed.into_iter().chain(node.each).map(|node| Place { node, at }));
            self.places.extend(node.any.map(|node| Place { node, at: at.and(element) }));
        }
    }

    /// The only place, where it is one from which plain paths lead on.
    fn plain(&mut self, from: usize) -> Option<(&'l Node, Turns)> {
        let only = self.places.len() == from + 1;
        self.place(from).filter(|(node, _)| only && node.plain)
    }
}

impl<'de> Found<'de> {
    pub(super) fn slot(&self, slot: usize) -> &[Hit<'de>] {
        self.slots.get(slot).map_or(&[], Vec::as_slice)
    }

    pub(super) fn misfits(&self) -> usize {
        self.misfits
    }

    pub(super) fn is_cut(&self) -> bool {
        self.cut
    }

    fn clear(&mut self) {
        self.slots.iter_mut().for_each(Vec::clear);
        (self.hits, self.misfits, self.cut) = (0, 0, false);
    }

    pub(super) fn count_misfits(&mut self, misfits: usize) {
        self.misfits += misfits;
    }

    /// Forgets what was found by these turns at a node and below.
    pub(super) fn forget_below(&mut self, tree: &Tree, node: NodeId, at: Turns) {
        let node = tree.node(node);
        for slot in node.texts.iter().chain(&node.keys).chain(&node.jsons) {
            self.forget(*slot, at);
        }
        for child in node.children() {
            self.forget_below(tree, child, at);
        }
    }

    pub(super) fn push(&mut self, slot: usize, at: Turns, text: impl Fn() -> Cow<'de, str>) {
        if slot >= FIRST_PATH {
            if self.hits >= Extractor::MOST_VALUES {
                self.cut = true;
                return;
            }
            self.hits += 1;
        }
        if let Some(hits) = self.slots.get_mut(slot) {
            hits.push(Hit { at, text: text() });
        }
    }

    /// Forgets what was found in a slot by these turns: it was found last.
    fn forget(&mut self, slot: usize, at: Turns) {
        let Some(hits) = self.slots.get_mut(slot) else { return };
        while hits.pop_if(|hit| hit.at.first(at.len) == at).is_some() {
            self.hits = self.hits.saturating_sub(usize::from(slot >= FIRST_PATH));
        }
    }
}

// === Along the JSON ===

/// An item of the list: must be a JSON object.
pub(super) struct ObjectSeed<'w, 'l, 'de>(pub(super) &'w mut Walk<'l, 'de>);

impl<'de> DeserializeSeed<'de> for ObjectSeed<'_, '_, 'de> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        let walk = self.0;
        walk.begin();
        match walk.plain(0) {
            Some((node, at)) => {
                deserializer.deserialize_map(PlainVisitor { tree: walk.tree, node, at: &at, found: &mut walk.found })
            }
            None => deserializer.deserialize_map(ValueVisitor { walk, from: 0 }),
        }
    }
}

/// A value that stands at the places from `from`: may be of any type.
struct ValueVisitor<'w, 'l, 'de> {
    walk: &'w mut Walk<'l, 'de>,
    from: usize,
}

impl<'de> DeserializeSeed<'de> for ValueVisitor<'_, '_, 'de> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        if self.walk.any(self.from, |node| !node.jsons.is_empty()) {
            return self.raw(<&'de RawValue>::deserialize(deserializer)?).map_err(D::Error::custom);
        }
        let Self { walk, from } = self;
        match walk.plain(from) {
            Some((node, at)) => {
                PlainVisitor { tree: walk.tree, node, at: &at, found: &mut walk.found }.deserialize(deserializer)
            }
            None => deserializer.deserialize_any(Self { walk, from }),
        }
    }
}

impl<'de> ValueVisitor<'_, '_, 'de> {
    /// Takes the JSON text, and reads it once more where something in it is wanted too.
    fn raw(self, json: &'de RawValue) -> serde_json::Result<()> {
        for index in self.from..self.walk.places.len() {
            let Some((node, at)) = self.walk.place(index) else { break };
            for slot in &node.jsons {
                self.walk.found.push(*slot, at, || Cow::Borrowed(json.get()));
            }
        }
        if self.walk.any(self.from, Node::goes_on) {
            let mut json = serde_json::Deserializer::from_str(json.get());
            json.disable_recursion_limit();
            return json.deserialize_any(self);
        }
        Ok(())
    }
}

impl<'de> Visitor<'de> for ValueVisitor<'_, '_, 'de> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        let Self { walk, from } = self;
        let end = walk.places.len();
        for index in from..end {
            let Some((node, _)) = walk.place(index) else { break };
            walk.found.misfits += node.texts.len();
        }
        let mut entry = 0;
        while map.next_key_seed(KeySeed { walk, from, end, entry })?.is_some() {
            if walk.places.len() > end {
                map.next_value_seed(ValueVisitor { walk, from: end })?;
                walk.places.truncate(end);
            } else {
                map.next_value::<IgnoredAny>()?;
            }
            entry += 1;
        }
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<(), A::Error> {
        let Self { walk, from } = self;
        let end = walk.places.len();
        for index in from..end {
            let Some((node, _)) = walk.place(index) else { break };
            walk.found.misfits += node.keys.len() + if node.each.is_some() { 0 } else { node.texts.len() };
        }
        if !walk.any(from, Node::in_lists) {
            while items.next_element::<IgnoredAny>()?.is_some() {}
            return Ok(());
        }
        for index in 0.. {
            walk.element(from, end, index);
            let more = if walk.places.len() > end {
                let more = items.next_element_seed(ValueVisitor { walk, from: end })?.is_some();
                walk.places.truncate(end);
                more
            } else {
                items.next_element::<IgnoredAny>()?.is_some()
            };
            if !more {
                break;
            }
        }
        Ok(())
    }

    fn visit_borrowed_str<E: Error>(self, text: &'de str) -> Result<(), E> {
        self.walk.text(self.from, || Cow::Borrowed(text));
        Ok(())
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<(), E> {
        self.walk.text(self.from, || Cow::Owned(text.to_owned()));
        Ok(())
    }

    /// What is `null` is not there.
    fn visit_unit<E: Error>(self) -> Result<(), E> {
        Ok(())
    }

    fn visit_bool<E: Error>(self, _: bool) -> Result<(), E> {
        self.walk.misfit(self.from);
        Ok(())
    }

    fn visit_i64<E: Error>(self, _: i64) -> Result<(), E> {
        self.walk.misfit(self.from);
        Ok(())
    }

    fn visit_u64<E: Error>(self, _: u64) -> Result<(), E> {
        self.walk.misfit(self.from);
        Ok(())
    }

    fn visit_f64<E: Error>(self, _: f64) -> Result<(), E> {
        self.walk.misfit(self.from);
        Ok(())
    }
}

/// A key of a map, which is kept only where keys are wanted.
struct KeySeed<'w, 'l, 'de> {
    walk: &'w mut Walk<'l, 'de>,
    from: usize,
    end: usize,
    entry: u32,
}

impl<'de> DeserializeSeed<'de> for KeySeed<'_, '_, 'de> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_str(self)
    }
}

impl<'de> Visitor<'de> for KeySeed<'_, '_, 'de> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a key")
    }

    fn visit_borrowed_str<E: Error>(self, key: &'de str) -> Result<(), E> {
        self.walk.key(self.from, self.end, self.entry, key, || Cow::Borrowed(key));
        Ok(())
    }

    fn visit_str<E: Error>(self, key: &str) -> Result<(), E> {
        self.walk.key(self.from, self.end, self.entry, key, || Cow::Owned(key.to_owned()));
        Ok(())
    }
}

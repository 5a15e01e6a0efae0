//! The pass along plain paths.
//!
//! Below a node from which names alone lead on, a value stands on the way of one node at most. So there is no set of
//! places to keep: this is the way of most rules, and as fast as a decoder made for the kind.

use std::borrow::Cow;
use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};

use super::Turns;
use super::tree::{Node, NodeId, Tree};
use super::walk::Found;

/// A value that stands at a node whose paths are plain: may be of any type.
pub(super) struct PlainVisitor<'w, 'l, 'de> {
    pub(super) tree: &'l Tree,
    pub(super) node: &'l Node,
    pub(super) at: &'w Turns,
    pub(super) found: &'w mut Found<'de>,
}

impl<'de> DeserializeSeed<'de> for PlainVisitor<'_, '_, 'de> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> PlainVisitor<'_, '_, 'de> {
    fn text(self, text: impl Fn() -> Cow<'de, str>) {
        for slot in &self.node.texts {
            self.found.push(*slot, *self.at, &text);
        }
    }

    fn misfit(self) {
        self.found.count_misfits(self.node.texts.len());
    }
}

impl<'de> Visitor<'de> for PlainVisitor<'_, '_, 'de> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        let Self { tree, node, at, found } = self;
        found.count_misfits(node.texts.len());
        let mut seen = 0_u64;
        while let Some(child) = map.next_key_seed(KeySeed(node))? {
            match child {
                Some((index, child)) => {
                    // Of a key that stands twice the last one counts, as everywhere in JSON.
                    let bit = u32::try_from(index).ok().and_then(|index| 1_u64.checked_shl(index)).unwrap_or(0);
                    if bit == 0 || seen & bit != 0 {
                        found.forget_below(tree, child, *at);
                    }
                    seen |= bit;
                    map.next_value_seed(PlainVisitor { tree, node: tree.node(child), at, found })?;
                }
                None => drop(map.next_value::<IgnoredAny>()?),
            }
        }
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<(), A::Error> {
        let Self { tree, node, at, found } = self;
        match node.each {
            Some(each) => {
                let node = tree.node(each);
                while items.next_element_seed(PlainVisitor { tree, node, at, found })?.is_some() {}
            }
            None => {
                found.count_misfits(node.texts.len());
                while items.next_element::<IgnoredAny>()?.is_some() {}
            }
        }
        Ok(())
    }

    fn visit_borrowed_str<E: Error>(self, text: &'de str) -> Result<(), E> {
        self.text(|| Cow::Borrowed(text));
        Ok(())
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<(), E> {
        self.text(|| Cow::Owned(text.to_owned()));
        Ok(())
    }

    /// What is `null` is not there.
    fn visit_unit<E: Error>(self) -> Result<(), E> {
        Ok(())
    }

    fn visit_bool<E: Error>(self, _: bool) -> Result<(), E> {
        self.misfit();
        Ok(())
    }

    fn visit_i64<E: Error>(self, _: i64) -> Result<(), E> {
        self.misfit();
        Ok(())
    }

    fn visit_u64<E: Error>(self, _: u64) -> Result<(), E> {
        self.misfit();
        Ok(())
    }

    fn visit_f64<E: Error>(self, _: f64) -> Result<(), E> {
        self.misfit();
        Ok(())
    }
}

/// Finds a key among a node's names without keeping it: its index there, and where it leads.
struct KeySeed<'l>(&'l Node);

impl<'de> DeserializeSeed<'de> for KeySeed<'_> {
    type Value = Option<(usize, NodeId)>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_str(self)
    }
}

impl Visitor<'_> for KeySeed<'_> {
    type Value = Option<(usize, NodeId)>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a key")
    }

    fn visit_str<E: Error>(self, key: &str) -> Result<Self::Value, E> {
        let mut named = self.0.named.iter().enumerate();
        Ok(named.find(|(_, (name, _))| name == key).map(|(index, (_, child))| (index, *child)))
    }
}

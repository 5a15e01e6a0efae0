//! Values found in one object.

use std::borrow::Cow;

use super::path_trie::{NodeId, PathTrie};
use super::{Extractor, Hit, Indices};

/// Values found in one object, by slot.
#[derive(Debug)]
pub(super) struct FoundValues<'de> {
    slots: Vec<Slot<'de>>,
    /// Indexes of the slots that this object has touched, so that the others cost nothing.
    touched: Vec<usize>,
    /// Number of hits in all slots with many values together.
    hits: usize,
    /// Number of hits that each slot with many values may have in any case, however many the other slots have.
    share: usize,
    misfits: usize,
}

/// Hits of one path.
#[derive(Debug)]
struct Slot<'de> {
    hits: Vec<Hit<'de>>,
    /// Set if an object may hold any number of values for the slot.
    many: bool,
    /// Set if the object holds more values than were read.
    cut: bool,
    is_touched: bool,
}

impl<'de> FoundValues<'de> {
    pub(super) fn slot(&self, slot: usize) -> &[Hit<'de>] {
        self.slots.get(slot).map_or(&[], |slot| slot.hits.as_slice())
    }

    /// Returns the indexes of the slots that have values, or had some before a key stood twice.
    pub(super) fn touched(&self) -> &[usize] {
        &self.touched
    }

    pub(super) fn misfits(&self) -> usize {
        self.misfits
    }

    pub(super) fn is_cut(&self) -> bool {
        self.touched.iter().any(|slot| self.is_slot_cut(*slot))
    }

    pub(super) fn is_slot_cut(&self, slot: usize) -> bool {
        self.slots.get(slot).is_some_and(|slot| slot.cut)
    }

    pub(super) fn new(tree: &PathTrie) -> Self {
        let slot = |many: &bool| Slot { hits: Vec::new(), many: *many, cut: false, is_touched: false };
        let slots: Vec<_> = tree.slots().iter().map(slot).collect();
        let many = slots.iter().filter(|slot| slot.many).count();
        Self { slots, touched: Vec::new(), hits: 0, share: Extractor::MAX_VALUES / many.max(1), misfits: 0 }
    }

    pub(super) fn clear(&mut self) {
        for slot in self.touched.drain(..) {
            let Some(slot) = self.slots.get_mut(slot) else { continue };
            slot.hits.clear();
            (slot.cut, slot.is_touched) = (false, false);
        }
        (self.hits, self.misfits) = (0, 0);
    }

    pub(super) fn count_misfits(&mut self, misfits: usize) {
        self.misfits += misfits;
    }

    /// Removes the hits with these indices at a node and below.
    pub(super) fn forget_below(&mut self, tree: &PathTrie, node: NodeId, at: Indices) {
        let node = tree.node(node);
        for slot in node.texts.iter().chain(&node.keys).chain(&node.jsons) {
            self.forget(*slot, at);
        }
        for child in node.children() {
            self.forget_below(tree, child, at);
        }
    }

    /// Adds a hit, unless there are too many. A path with many values leaves the other paths their share.
    pub(super) fn push(&mut self, index: usize, at: Indices, text: Cow<'de, str>) {
        let Some(slot) = self.slots.get_mut(index) else { return };
        if !std::mem::replace(&mut slot.is_touched, true) {
            self.touched.push(index);
        }
        if slot.many {
            if self.hits >= Extractor::MAX_VALUES && slot.hits.len() >= self.share {
                slot.cut = true;
                return;
            }
            self.hits += 1;
        }
        slot.hits.push(Hit { at, text });
    }

    /// Removes the hits of a slot with these indices, which are the last ones in the slot.
    fn forget(&mut self, slot: usize, at: Indices) {
        let Some(slot) = self.slots.get_mut(slot) else { return };
        while slot.hits.pop_if(|hit| hit.at.first(at.len) == at).is_some() {
            self.hits = self.hits.saturating_sub(usize::from(slot.many));
        }
    }
}

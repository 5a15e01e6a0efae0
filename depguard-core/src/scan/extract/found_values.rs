//! Values found in one object.

use std::borrow::Cow;

use super::path_trie::{NodeId, PathTrie};
use super::{Extractor, Hit, Indices};

/// Most bytes of long texts of one object that are copied: each path may copy what a string holds as JSON.
const MAX_COPIED: usize = 8 << 20;
/// Length up to which a text is not long: no name, and no value beside it, is longer.
const LONG: usize = 1 << 10;

/// Values found in one object, by slot.
#[derive(Debug, Default)]
pub(super) struct FoundValues<'de> {
    slots: Vec<Slot<'de>>,
    /// Indexes of the slots that this object has touched, so that the others cost nothing.
    touched: Vec<usize>,
    /// Number of hits in all slots with many values together.
    hits: usize,
    /// Number of hits that each slot with many values may have in any case, however many the other slots have.
    share: usize,
    /// Bytes of the long texts that were copied.
    copied: usize,
    pub(super) misfits: usize,
}

/// Hits of one path.
#[derive(Debug)]
struct Slot<'de> {
    hits: Vec<Hit<'de>>,
    /// Set if an object may hold any number of values for the slot.
    many: bool,
    /// Set if the object holds more values than were read.
    cut: bool,
    /// Set if a string that begins like JSON can't be read as JSON.
    broken: bool,
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

    pub(super) fn is_cut(&self) -> bool {
        self.touched.iter().any(|slot| self.is_slot_cut(*slot) || self.is_slot_broken(*slot))
    }

    pub(super) fn is_slot_broken(&self, slot: usize) -> bool {
        self.slots.get(slot).is_some_and(|slot| slot.broken)
    }

    pub(super) fn is_slot_cut(&self, slot: usize) -> bool {
        self.slots.get(slot).is_some_and(|slot| slot.cut)
    }

    pub(super) fn new(tree: &PathTrie) -> Self {
        let slot = |many: &bool| Slot { hits: Vec::new(), many: *many, cut: false, broken: false, is_touched: false };
        let slots: Vec<_> = tree.slots().iter().map(slot).collect();
        let many = slots.iter().filter(|slot| slot.many).count();
        Self { slots, touched: Vec::new(), hits: 0, share: Extractor::MAX_VALUES / many.max(1), copied: 0, misfits: 0 }
    }

    pub(super) fn clear(&mut self) {
        for slot in self.touched.drain(..) {
            let Some(slot) = self.slots.get_mut(slot) else { continue };
            slot.hits.clear();
            (slot.cut, slot.broken, slot.is_touched) = (false, false, false);
        }
        (self.hits, self.copied, self.misfits) = (0, 0, 0);
    }

    pub(super) fn count_misfits(&mut self, misfits: usize) {
        self.misfits += misfits;
    }

    /// Removes the hits with these indices at a node and below.
    pub(super) fn forget_below(&mut self, tree: &PathTrie, node: NodeId, at: Indices) {
        self.each_below(tree, node, &mut |found, slot| found.forget(slot, at));
    }

    /// Removes the hits with these indices at a node and below, and records that nobody can tell the values there.
    pub(super) fn break_below(&mut self, tree: &PathTrie, node: NodeId, at: Indices) {
        self.each_below(tree, node, &mut |found, slot| {
            found.forget(slot, at);
            found.touch(slot);
            if let Some(slot) = found.slots.get_mut(slot) {
                slot.broken = true;
            }
        });
    }

    fn each_below(&mut self, tree: &PathTrie, node: NodeId, what: &mut impl FnMut(&mut Self, usize)) {
        let node = tree.node(node);
        for slot in node.texts.iter().chain(&node.keys).chain(&node.jsons) {
            what(self, *slot);
        }
        for child in node.children() {
            self.each_below(tree, child, what);
        }
    }

    /// Adds a hit, unless there are too many. A path with many values leaves the other paths their share.
    #[expect(clippy::ptr_arg, reason = "a text that is not borrowed is copied only where there is room")]
    pub(super) fn push(&mut self, index: usize, at: Indices, text: &Cow<'de, str>) {
        self.touch(index);
        let Some(slot) = self.slots.get_mut(index) else { return };
        if let Cow::Owned(text) = text
            && text.len() > LONG
        {
            if self.copied + text.len() > MAX_COPIED {
                slot.cut = true;
                return;
            }
            self.copied += text.len();
        }
        if slot.many {
            if self.hits >= Extractor::MAX_VALUES && slot.hits.len() >= self.share {
                slot.cut = true;
                return;
            }
            self.hits += 1;
        }
        slot.hits.push(Hit { at, text: text.clone() });
    }

    fn touch(&mut self, index: usize) {
        if self.slots.get_mut(index).is_some_and(|slot| !std::mem::replace(&mut slot.is_touched, true)) {
            self.touched.push(index);
        }
    }

    /// Removes the hits of a slot with these indices, which are the last ones in the slot.
    fn forget(&mut self, slot: usize, at: Indices) {
        let Some(slot) = self.slots.get_mut(slot) else { return };
        while slot.hits.pop_if(|hit| hit.at.first(at.len) == at).is_some() {
            self.hits = self.hits.saturating_sub(usize::from(slot.many));
        }
    }
}

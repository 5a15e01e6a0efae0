//! What was found in one object.

use std::borrow::Cow;

use super::tree::{NodeId, Tree};
use super::{Extractor, Hit, Turns};

/// What was found in one object, for each slot.
#[derive(Debug)]
pub(super) struct Found<'de> {
    slots: Vec<Slot<'de>>,
    /// How many hits the slots of many values have, all together.
    hits: usize,
    /// How many hits each slot of many values may have, however many the others have.
    share: usize,
    misfits: usize,
}

/// What was found at one path.
#[derive(Debug)]
struct Slot<'de> {
    hits: Vec<Hit<'de>>,
    /// An object may hold any number of values there.
    many: bool,
    /// It holds more than were read.
    cut: bool,
}

impl<'de> Found<'de> {
    pub(super) fn slot(&self, slot: usize) -> &[Hit<'de>] {
        self.slots.get(slot).map_or(&[], |slot| slot.hits.as_slice())
    }

    pub(super) fn misfits(&self) -> usize {
        self.misfits
    }

    pub(super) fn is_cut(&self) -> bool {
        self.slots.iter().any(|slot| slot.cut)
    }

    pub(super) fn is_slot_cut(&self, slot: usize) -> bool {
        self.slots.get(slot).is_some_and(|slot| slot.cut)
    }

    pub(super) fn new(tree: &Tree) -> Self {
        let slots: Vec<_> =
            tree.slots().iter().map(|many| Slot { hits: Vec::new(), many: *many, cut: false }).collect();
        let many = slots.iter().filter(|slot| slot.many).count();
        Self { slots, hits: 0, share: Extractor::MOST_VALUES / many.max(1), misfits: 0 }
    }

    pub(super) fn clear(&mut self) {
        for slot in &mut self.slots {
            slot.hits.clear();
            slot.cut = false;
        }
        (self.hits, self.misfits) = (0, 0);
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

    /// Keeps a hit, unless there are too many. One path with many values leaves the others their share.
    pub(super) fn push(&mut self, slot: usize, at: Turns, text: Cow<'de, str>) {
        let Some(slot) = self.slots.get_mut(slot) else { return };
        if slot.many {
            if self.hits >= Extractor::MOST_VALUES && slot.hits.len() >= self.share {
                slot.cut = true;
                return;
            }
            self.hits += 1;
        }
        slot.hits.push(Hit { at, text });
    }

    /// Forgets what was found in a slot by these turns: it was found last.
    fn forget(&mut self, slot: usize, at: Turns) {
        let Some(slot) = self.slots.get_mut(slot) else { return };
        while slot.hits.pop_if(|hit| hit.at.first(at.len) == at).is_some() {
            self.hits = self.hits.saturating_sub(usize::from(slot.many));
        }
    }
}

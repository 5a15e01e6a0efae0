//! What was found in one object.

use std::borrow::Cow;

use super::tree::{NodeId, Tree};
use super::{Extractor, FIRST_PATH, Hit, Turns};

/// What was found in one object, for each slot.
#[derive(Debug)]
pub(super) struct Found<'de> {
    slots: Vec<Vec<Hit<'de>>>,
    /// How many hits the paths have, all together.
    hits: usize,
    misfits: usize,
    cut: bool,
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

    pub(super) fn new(slots: usize) -> Self {
        Self { slots: (0..slots).map(|_| Vec::new()).collect(), hits: 0, misfits: 0, cut: false }
    }

    pub(super) fn clear(&mut self) {
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

    pub(super) fn push(&mut self, slot: usize, at: Turns, text: Cow<'de, str>) {
        if slot >= FIRST_PATH {
            if self.hits >= Extractor::MOST_VALUES {
                self.cut = true;
                return;
            }
            self.hits += 1;
        }
        if let Some(hits) = self.slots.get_mut(slot) {
            hits.push(Hit { at, text });
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

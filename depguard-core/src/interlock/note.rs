//! Notes: the marks that evaluations ask to record, and the judgement of a note against the marks of the other side.

use std::collections::BTreeSet;

use super::mark::{Flag, Intent, Marks, Nonce, SharedMark, Side};
use super::object_key::{Dependent, ObjectKey, Revision};
use super::{MAX_FLAGS, MAX_INTENTS};
use crate::protocol::problem::Unresolved;

/// Wish of one evaluation for a register: to record its marks there, or to take them down.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Note {
    pub(super) nonce: Nonce,
    pub(super) content: Content,
    /// Marks of the other side that were proven void. A void mark stays void, so a later write may rely on the proof.
    pub(super) void: BTreeSet<Nonce>,
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Content {
    /// A deletion of the target in this state.
    Flag(ObjectKey, Revision),
    /// References of the dependent to all these targets.
    Intents(Dependent, BTreeSet<ObjectKey>),
    /// Removal of the marks that the evaluation has recorded.
    TakeDown,
    /// Wait of this side about all these targets.
    Wait(Side, BTreeSet<ObjectKey>),
}

/// Result of a note.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[expect(clippy::exhaustive_enums, reason = "an evaluation handles each variant")]
pub enum Outcome {
    /// The register says what the note wishes.
    Recorded,
    /// Nothing was recorded, because the other side has these live marks.
    Opposed(Vec<Opponent>),
    /// Nothing was recorded, for this reason: a whole sentence. That the register is closed, or has no room, passes by
    /// itself.
    Failed(Unresolved),
    /// It is unknown if anything was or will be recorded, for this reason: a whole sentence.
    Unknown(Unresolved),
}

/// Live mark of the other side.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[expect(clippy::exhaustive_enums, reason = "an evaluation handles each variant")]
pub enum Opponent {
    /// A deletion of this target.
    Flag(ObjectKey, Nonce, Flag),
    /// A creation or an update that refers to the target.
    Intent(Nonce, Intent),
    /// An unknown number of creations and updates that refer to the target.
    Shared(SharedMark),
}

impl Note {
    /// Creates the note that takes down all marks of an evaluation. An evaluation that refuses asks for that by itself;
    /// the note is for evaluations that were given up.
    pub fn take_down(nonce: Nonce) -> Self {
        Self { nonce, content: Content::TakeDown, void: BTreeSet::new() }
    }

    /// Creates the note by which an evaluation that is refused leaves a [wait](super::Wait).
    pub(super) fn wait(nonce: Nonce, side: Side, targets: BTreeSet<ObjectKey>) -> Self {
        Self { nonce, content: Content::Wait(side, targets), void: BTreeSet::new() }
    }

    /// Returns true if the note records marks, which the evaluation takes down if it refuses.
    pub fn has_marks(&self) -> bool {
        matches!(self.content, Content::Flag(..) | Content::Intents(..))
    }

    /// Returns the number of marks that the note records.
    pub fn marks(&self) -> usize {
        if self.has_marks() { self.targets().len() } else { 0 }
    }

    /// Returns true if the note leaves a wait.
    pub fn is_wait(&self) -> bool {
        matches!(self.content, Content::Wait(..))
    }

    /// Returns the targets that the note is about; none for the removal of marks.
    pub(super) fn targets(&self) -> Vec<&ObjectKey> {
        match &self.content {
            Content::Flag(target, _) => vec![target],
            Content::Intents(_, targets) | Content::Wait(_, targets) => targets.iter().collect(),
            Content::TakeDown => Vec::new(),
        }
    }

    /// Returns the object whose tenant pays for the note's marks: the deleted target, or the dependent.
    pub(super) fn tenant(&self) -> Option<&ObjectKey> {
        match &self.content {
            Content::Flag(target, _) => Some(target),
            Content::Intents(dependent, _) => Some(dependent.key()),
            Content::TakeDown | Content::Wait(..) => None,
        }
    }

    /// Returns the live marks of the other side about one of the targets, which has these marks. None if the note is
    /// recorded already: it was judged when it was written.
    pub(super) fn opponents(&self, target: &ObjectKey, marks: &Marks) -> Vec<Opponent> {
        let is_live = |nonce: &Nonce| !self.void.contains(nonce);
        match &self.content {
            Content::Flag(..) if !marks.flags.contains_key(&self.nonce) => {
                let intents = marks.intents.iter().filter(|(nonce, _)| is_live(nonce));
                let intents = intents.map(|(nonce, intent)| Opponent::Intent(*nonce, intent.clone()));
                // Nothing proves a shared mark void: nobody knows the dependents.
                intents.chain(marks.shared.map(Opponent::Shared)).collect()
            }
            Content::Intents(..) if !marks.intents.contains_key(&self.nonce) => {
                let flags = marks.flags.iter().filter(|(nonce, _)| is_live(nonce));
                flags.map(|(nonce, flag)| Opponent::Flag(target.clone(), *nonce, flag.clone())).collect()
            }
            Content::Flag(..) | Content::Intents(..) | Content::TakeDown | Content::Wait(..) => Vec::new(),
        }
    }

    /// Returns true if the note must let the other side go first, which waits. A note that is recorded already keeps its
    /// place.
    pub(super) fn must_yield(&self, marks: &Marks) -> bool {
        match &self.content {
            Content::Flag(..) => !marks.flags.contains_key(&self.nonce) && marks.must_yield(Side::Deletion),
            Content::Intents(..) => !marks.intents.contains_key(&self.nonce) && marks.must_yield(Side::Reference),
            Content::TakeDown | Content::Wait(..) => false,
        }
    }

    /// Adds the note's mark about one of its targets. Returns false if there is no room.
    pub(super) fn record(&self, marks: &mut Marks) -> bool {
        match &self.content {
            Content::Flag(_, revision) => {
                let has_room = marks.flags.len() < MAX_FLAGS || marks.flags.contains_key(&self.nonce);
                if has_room {
                    marks.flags.insert(self.nonce, Flag { revision: revision.clone() });
                    marks.end_wait(Side::Deletion);
                }
                has_room
            }
            Content::Intents(dependent, _) => {
                let is_covered = marks.intents.contains_key(&self.nonce) || marks.shared.is_some_and(|it| it.is_open);
                if is_covered {
                } else if marks.intents.len() < MAX_INTENTS {
                    marks.intents.insert(self.nonce, Intent { dependent: dependent.clone() });
                } else {
                    marks.shared = Some(SharedMark { epoch: self.nonce, is_open: true });
                }
                marks.end_wait(Side::Reference);
                true
            }
            Content::TakeDown => {
                marks.take_down(self.nonce);
                true
            }
            Content::Wait(side, _) => {
                marks.wait(*side, self.nonce);
                true
            }
        }
    }
}

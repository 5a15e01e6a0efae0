//! Marks: the notes of evaluations under way, by target.

use std::collections::BTreeMap;
use std::fmt;

use super::object_key::{Dependent, Revision};

/// Identity of one evaluation: a random number that no other evaluation has. Only the evaluation that recorded a mark
/// takes the mark down, and it knows the mark by the nonce.
///
/// The UID of a review is no nonce, because a proxy may deliver a review twice.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Nonce(u128);

/// Mark of a deletion: the target may be deleted in this state.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[expect(clippy::exhaustive_structs, reason = "a test of the whole compares its fields")]
pub struct Flag {
    /// The state of the target in the review. Once the target has left that state, the deletion is reviewed again or is
    /// over, and the flag is void.
    pub revision: Revision,
}

/// Mark of a creation or an update: the dependent may be stored with a reference to the target.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[expect(clippy::exhaustive_structs, reason = "a test of the whole compares its fields")]
pub struct Intent {
    /// The dependent. Once a created dependent is stored, or an updated one has left the replaced state, the intent is
    /// void.
    pub dependent: Dependent,
}

/// Mark of any number of creations and updates, for a target that many dependents begin to refer to at the same time.
///
/// While the mark is open, an evaluation that reads it may rely on it, and writes nothing. The [cleaner](super::Cleaner)
/// closes the mark, and takes the closed mark away after the time for which it keeps any mark. So the last evaluation
/// that relied on the mark is over by then.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[expect(clippy::exhaustive_structs, reason = "a test of the whole compares its fields")]
pub struct SharedMark {
    /// The nonce of the evaluation that opened the mark. Another one means that the mark was opened again.
    pub epoch: Nonce,
    /// True while evaluations may rely on the mark. A closed mark still keeps deletions out.
    pub is_open: bool,
}

/// Side of the interlock.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[expect(clippy::exhaustive_enums, reason = "an interlock has two sides")]
pub enum Side {
    /// The deletion of a target.
    Deletion,
    /// The creation or the update of a dependent.
    Reference,
}

/// Wait of one side for the end of the other side's marks about a target. Once the wait is due, the other side records no
/// new mark, so that its marks come to an end.
///
/// A wait lets nothing pass. The first mark of the side ends its wait: then the other side may wait in its turn. The
/// [cleaner](super::Cleaner) takes a wait away for which nobody has asked again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[expect(clippy::exhaustive_structs, reason = "a test of the whole compares its fields")]
pub struct Wait {
    /// The side that waits.
    pub side: Side,
    /// The nonce of the evaluation that asked for the wait last.
    pub epoch: Nonce,
    /// True once the side was refused a second time. Most marks end before, and then nobody yields.
    pub is_due: bool,
    /// True until the cleaner has seen the wait unchanged for a third of the time for which it keeps marks. After as long
    /// again the cleaner takes the wait away, unless it was asked for meanwhile.
    pub is_fresh: bool,
}

/// Marks about one target.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub struct Marks {
    /// The flags, by evaluation.
    pub flags: BTreeMap<Nonce, Flag>,
    /// The intents, by evaluation.
    pub intents: BTreeMap<Nonce, Intent>,
    /// The mark that is shared by the evaluations for which there was no room among the intents.
    pub shared: Option<SharedMark>,
    /// The side that has waited the longest, if one waits.
    pub wait: Option<Wait>,
}

impl Nonce {
    /// Creates a nonce from a random number.
    pub fn new(random: u128) -> Self {
        Self(random)
    }

    /// Reads the printed nonce.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let is_hexadecimal = text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
        let number = u128::from_str_radix(text, 16).ok().filter(|_| text.len() == 32 && is_hexadecimal);
        number.map(Self)
    }
}

impl fmt::Display for Nonce {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

impl fmt::Debug for Nonce {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Nonce({:x})", self.0)
    }
}

impl Flag {
    /// Returns true if a target that was seen at `current` can't be deleted by the flag's evaluation any more. The read
    /// must have been sent after the flag was read.
    pub(super) fn is_void_at(&self, current: &Revision) -> bool {
        self.revision != *current
    }
}

impl Intent {
    /// Returns true for an update, whose intent is void once the dependent has left the replaced state.
    pub(super) fn is_update(&self) -> bool {
        self.dependent.replaced().is_some()
    }

    /// Returns true if the request is stored already, or never will be, because the dependent was seen at `current`;
    /// `None`: it doesn't exist. The read must have been sent after the intent was read.
    ///
    /// A creation is stored once its UID is. A missing dependent tells nothing about a creation: it may be stored later.
    pub(crate) fn is_void_at(&self, current: Option<&Revision>) -> bool {
        let uid = self.dependent.uid();
        match self.dependent.replaced() {
            None => current.is_some_and(|current| current.uid() == uid),
            Some(replaced) => {
                current.is_none_or(|current| (current.uid(), current.resource_version()) != (uid, replaced))
            }
        }
    }
}

impl Marks {
    pub(super) fn is_empty(&self) -> bool {
        let Self { flags, intents, shared, wait } = self;
        flags.is_empty() && intents.is_empty() && shared.is_none() && wait.is_none()
    }

    /// Returns true if the other side's wait is due, so that this side records no new mark.
    pub(super) fn must_yield(&self, side: Side) -> bool {
        self.wait.is_some_and(|wait| wait.side != side && wait.is_due)
    }

    /// Leaves a wait of this side, or asks for it again. Does nothing if no mark of the other side is there any more, or
    /// if the other side waits already.
    ///
    /// A deletion whose wait is due closes the shared mark: nobody relies on it from now on, and it ends as if the
    /// cleaner had closed it.
    pub(super) fn wait(&mut self, side: Side, epoch: Nonce) {
        let is_opposed = match side {
            Side::Deletion => !self.intents.is_empty() || self.shared.is_some(),
            Side::Reference => !self.flags.is_empty(),
        };
        self.wait = match self.wait {
            None if is_opposed => Some(Wait { side, epoch, is_due: false, is_fresh: true }),
            Some(wait) if is_opposed && wait.side == side && !(wait.is_due && wait.is_fresh) => {
                Some(Wait { side, epoch, is_due: true, is_fresh: true })
            }
            unchanged => unchanged,
        };
        if let (true, Some(shared)) = (self.must_yield(Side::Reference), &mut self.shared) {
            shared.is_open = false;
        }
    }

    /// Ends the wait of a side, because the side has recorded a mark.
    pub(super) fn end_wait(&mut self, side: Side) {
        self.wait.take_if(|wait| wait.side == side);
    }

    /// Removes the marks that this evaluation alone relies on.
    pub(super) fn take_down(&mut self, nonce: Nonce) {
        self.flags.remove(&nonce);
        self.intents.remove(&nonce);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_nonce_is_read_as_it_is_printed_and_no_other_way() {
        for number in [0, 1, u128::MAX] {
            assert_eq!(Nonce::parse(&Nonce(number).to_string()), Some(Nonce(number)));
        }
        let wrong = ["", "1", "+0000000000000000000000000000001", "0000000000000000000000000000000A"];
        for wrong in wrong {
            assert_eq!(Nonce::parse(wrong), None, "{wrong}");
        }
    }
}

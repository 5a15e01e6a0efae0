//! Register: the marks about the targets of one bucket.

use std::collections::BTreeMap;

use super::MAX_REGISTER_BYTES;
use super::mark::{Marks, Nonce};
use super::note::{Content, Note, Outcome};
use super::object_key::{ObjectKey, RegisterName};
use crate::protocol::cause::Cause;
use crate::protocol::problem::Unresolved;

/// The maximum size of one note, in bytes of JSON.
const MAX_NOTE_BYTES: usize = MAX_REGISTER_BYTES / 4;
const TOO_LARGE: &str = "is refused: the object refers to too many targets for one register";

/// Marks about the targets of one bucket, as they are stored or are to be stored.
///
/// Two invariants hold in each register that [`with`](Self::with) returns:
///
/// - A mark of one side about a target was added only while the other side had no live mark about that target. (A mark
///   that was proven void may still be there.)
/// - A register is open only for the object in which the controller opened it: a register that was deleted and made
///   again, by whomever, is closed, because it may miss marks.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Register {
    pub(super) name: RegisterName,
    /// The UID and the `resourceVersion` of the stored object; `None`: not stored yet.
    pub(super) stored: Option<(String, String)>,
    /// The UID of the object for which the register was opened.
    pub(super) open_for: Option<String>,
    /// The targets that have a mark.
    pub(super) marks: BTreeMap<ObjectKey, Marks>,
}

impl Register {
    /// Creates a register that is not stored yet. The controller stores it, once; the webhook never does. It is closed,
    /// until the [cleaner](super::Cleaner) opens it.
    pub fn new(name: RegisterName) -> Self {
        Self { name, stored: None, open_for: None, marks: BTreeMap::new() }
    }

    /// Returns the register's name.
    pub fn name(&self) -> RegisterName {
        self.name
    }

    /// Returns the `resourceVersion` that was read, if the register is stored.
    pub fn resource_version(&self) -> Option<&str> {
        self.stored.as_ref().map(|(_, version)| version.as_str())
    }

    /// Returns the UID, if the register is stored.
    pub fn uid(&self) -> Option<&str> {
        self.stored.as_ref().map(|(uid, _)| uid.as_str())
    }

    /// Returns true if the register may record marks. A closed register may miss marks of requests under way.
    pub fn is_open(&self) -> bool {
        self.open_for.is_some() && self.open_for.as_deref() == self.uid()
    }

    /// Returns the marks, by target.
    pub fn marks(&self) -> impl Iterator<Item = (&ObjectKey, &Marks)> {
        self.marks.iter()
    }

    /// Returns the register as the API server stores it: with this UID and `resourceVersion`.
    pub fn stored_as(self, uid: &str, resource_version: &str) -> Self {
        Self { stored: Some((uid.to_owned(), resource_version.to_owned())), ..self }
    }

    /// Returns the register, opened for the stored object.
    pub(super) fn opened(self) -> Self {
        Self { open_for: self.uid().map(str::to_owned), ..self }
    }

    /// Returns the register to write by the version that was read, and the outcome of each note for the case that the
    /// write succeeds. `None`: nothing needs to be written, and the outcomes hold.
    ///
    /// Each note is judged against the marks as they will be written, those of the notes before it included. A note is
    /// recorded about all of its targets or about none.
    pub fn with(&self, notes: &[Note]) -> (Option<Self>, Vec<Outcome>) {
        let mut next = self.clone();
        let mut size = next.size();
        let outcomes = notes.iter().map(|note| next.take(note, &mut size)).collect();
        ((next.marks != self.marks).then_some(next), outcomes)
    }

    /// Records one note, or nothing. `size` is the size of this register before and after.
    fn take(&mut self, note: &Note, size: &mut usize) -> Outcome {
        if note.content == Content::TakeDown {
            self.take_down(note.nonce);
            *size = self.size();
            return Outcome::Recorded;
        }
        let targets = note.targets();
        if !self.is_open() || !targets.iter().all(|target| self.name.is_of(target)) {
            return Outcome::Shut;
        }
        let none = Marks::default();
        let marks_of = |target| self.marks.get(target).unwrap_or(&none);
        let opponents: Vec<_> = targets.iter().flat_map(|target| note.opponents(target, marks_of(target))).collect();
        if !opponents.is_empty() {
            return Outcome::Opposed(opponents);
        }
        let (mut changed, mut grown) = (Vec::new(), 0_usize);
        for target in targets {
            let old = self.marks.get(target);
            let mut marks = old.cloned().unwrap_or_default();
            if !note.record(&mut marks) {
                return Outcome::Shut;
            }
            let old = old.map_or(0, |old| size_of(target, old));
            grown = grown.saturating_add(size_of(target, &marks).saturating_sub(old));
            changed.push((target.clone(), marks));
        }
        // A note that never fits must not be told to try again soon.
        if grown > MAX_NOTE_BYTES {
            return Outcome::Failed(Unresolved::new(Cause::DependentInvalid, TOO_LARGE));
        }
        if size.saturating_add(grown) > MAX_REGISTER_BYTES {
            return Outcome::Shut;
        }
        *size = size.saturating_add(grown);
        self.marks.extend(changed);
        Outcome::Recorded
    }

    /// Removes all marks that this evaluation alone relies on.
    fn take_down(&mut self, nonce: Nonce) {
        for marks in self.marks.values_mut() {
            marks.take_down(nonce);
        }
        self.drop_empty();
    }

    pub(super) fn drop_empty(&mut self) {
        self.marks.retain(|_, marks| !marks.is_empty());
    }

    /// Returns an upper bound of the size in bytes of JSON.
    pub(super) fn size(&self) -> usize {
        2 * FIXED + self.marks.iter().map(|(target, marks)| size_of(target, marks)).sum::<usize>()
    }
}

/// Bytes that are enough for the names of the fields, a nonce, quotes and commas.
const FIXED: usize = 256;

/// Returns an upper bound of the size of a target's marks, in bytes of JSON.
fn size_of(target: &ObjectKey, marks: &Marks) -> usize {
    let key = |key: &ObjectKey| {
        let cluster = key.cluster.as_ref().map_or(0, |cluster| cluster.as_str().len());
        let namespace = key.namespace.as_ref().map_or(0, |namespace| namespace.as_str().len());
        let kind = key.kind.group.as_str().len() + key.kind.resource.as_str().len();
        // A character may be escaped.
        FIXED + cluster + namespace + kind + 2 * key.name.len()
    };
    let Marks { flags, intents, shared: _ } = marks;
    let flags = flags.values().map(|flag| FIXED + flag.revision.uid().len() + flag.revision.resource_version().len());
    let intents = intents.values().map(|intent| {
        let dependent = &intent.dependent;
        key(dependent.key()) + dependent.uid().len() + dependent.replaced().map_or(0, str::len)
    });
    FIXED + key(target) + flags.chain(intents).sum::<usize>()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::interlock::object_key::{Buckets, Dependent, Revision};
    use crate::model::names::{Group, GroupResource, LogicalCluster, Namespace, Resource};

    fn key(name: String, is_long: bool) -> ObjectKey {
        let length = if is_long { 63 } else { 1 };
        let kind = GroupResource {
            group: Group::parse(&"g".repeat(length)).unwrap(),
            resource: Resource::parse(&"r".repeat(length)).unwrap(),
        };
        let cluster = is_long.then(|| LogicalCluster::parse(&"c".repeat(length)).unwrap());
        let namespace = is_long.then(|| Namespace::parse(&"n".repeat(length)).unwrap());
        ObjectKey { cluster, kind, namespace, name }
    }

    proptest! {
        #[test]
        fn the_size_is_never_underestimated(marks in prop::collection::vec(("[a-z\"\\\\é]{1,40}", any::<bool>(), 0..3), 0..8)) {
            let name = Buckets::new(1).unwrap().registers().next().unwrap();
            let mut register = Register::new(name).stored_as(&"u".repeat(36), "12345678901234567890").opened();
            for (number, (text, is_long, kind)) in marks.into_iter().enumerate() {
                let nonce = Nonce::new(u128::MAX - number as u128);
                let revision = Revision::parse(&"u".repeat(36), "1234567890").unwrap();
                let target = key(text.clone(), is_long);
                let content = match kind {
                    0 => Content::Flag(target, revision),
                    1 => Content::Intents(Dependent::updated(key(text, is_long), revision), [target].into()),
                    _ => Content::Intents(Dependent::created(key(text, is_long), "u").unwrap(), [target].into()),
                };
                let note = Note { nonce, content, void: Default::default() };
                register = register.with(&[note]).0.unwrap_or(register);
                let actual = register.to_value().to_string().len();
                prop_assert!(actual <= register.size(), "{actual} > {}", register.size());
            }
        }
    }
}

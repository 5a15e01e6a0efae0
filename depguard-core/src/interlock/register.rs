//! Register: the marks about the targets of one bucket.

use std::collections::BTreeMap;

use super::MAX_REGISTER_BYTES;
use super::mark::{Flag, Intent, Marks, Nonce};
use super::note::{Content, Note, Outcome};
use super::object_key::{ObjectKey, RegisterName};
use crate::model::names::{LogicalCluster, Namespace};
use crate::protocol::cause::Cause;
use crate::protocol::problem::Unresolved;

/// The number of marks from which on a tenant records none in the last quarter of a register.
const MAX_FEW_MARKS: usize = 4;
/// The maximum size of one note, in bytes of JSON.
const MAX_NOTE_BYTES: usize = MAX_REGISTER_BYTES / 4;
const CLOSED: &str = "is put off: the register was made a short time ago, so it may miss requests under way; the \
                      controller opens it about --interlock-wait (90 s unless set) after it was made; retry then";
const FULL: &str = "is put off: the register has no room for more marks until the controller takes old ones away, at most \
                    --interlock-wait (90 s unless set) after they were made; retry later";
const TOO_MANY_FLAGS: &str = "is put off: the target was to be deleted too often within --interlock-wait (90 s unless \
                              set), and is perhaps still there; retry then";
const OTHERS_TURN: &str = "is put off: requests of the other side have waited for longer, and come first; retry later";
const SHARE: &str = "is put off: this namespace or workspace has used its share of the register, until the controller takes \
                     old marks away, at most --interlock-wait (90 s unless set) after they were made; retry later";
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

    /// Returns the register, opened for the stored object. Beside the [cleaner](super::Cleaner), the controller opens a
    /// register that it has just made, if it sees after that that no creation is reviewed anywhere.
    pub fn opened(self) -> Self {
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
        let again_soon = |why| Outcome::Failed(Unresolved::new(Cause::Contended, why));
        if !self.is_open() {
            return again_soon(CLOSED);
        }
        let none = Marks::default();
        let marks_of = |target| self.marks.get(target).unwrap_or(&none);
        if targets.iter().any(|target| note.must_yield(marks_of(target))) {
            return again_soon(OTHERS_TURN);
        }
        let opponents: Vec<_> = targets.iter().flat_map(|target| note.opponents(target, marks_of(target))).collect();
        if !opponents.is_empty() {
            return Outcome::Opposed(opponents);
        }
        let (mut changed, mut grown) = (Vec::new(), 0_usize);
        for target in targets {
            let old = self.marks.get(target);
            let mut marks = old.cloned().unwrap_or_default();
            if !note.record(&mut marks) {
                return again_soon(TOO_MANY_FLAGS);
            }
            let old = old.map_or(0, |old| size_of(target, old));
            grown = grown.saturating_add(size_of(target, &marks).saturating_sub(old));
            changed.push((target.clone(), marks));
        }
        // A note that never fits must not be told to try again soon.
        if grown > MAX_NOTE_BYTES {
            return Outcome::Failed(Unresolved::new(Cause::DependentInvalid, TOO_LARGE));
        }
        let full = size.saturating_add(grown);
        if full > MAX_REGISTER_BYTES {
            return again_soon(FULL);
        }
        if !note.is_wait() && self.exceeds_share(note, full, grown) {
            return again_soon(SHARE);
        }
        *size = size.saturating_add(grown);
        // A wait for marks that are gone leaves nothing.
        self.marks.extend(changed.into_iter().filter(|(_, marks)| !marks.is_empty()));
        Outcome::Recorded
    }

    /// Returns true if the note's tenant would have more than its share of a register that is `full` bytes long then: a
    /// quarter, once the register is half full. The last quarter is for tenants with few marks.
    fn exceeds_share(&self, note: &Note, full: usize, grown: usize) -> bool {
        if full <= MAX_REGISTER_BYTES / 2 {
            return false;
        }
        let Some(of) = note.tenant().map(tenant) else { return false };
        let (mut marks, mut bytes) = (0_usize, grown);
        for (target, Marks { flags, intents, shared: _, wait: _ }) in &self.marks {
            let flags = flags.values().filter(|_| tenant(target) == of).map(size_of_flag);
            let intents = intents.values().filter(|intent| tenant(intent.dependent.key()) == of).map(size_of_intent);
            let before = marks;
            for size in flags.chain(intents) {
                (marks, bytes) = (marks + 1, bytes.saturating_add(size));
            }
            if marks > before {
                bytes = bytes.saturating_add(FIXED + size_of_key(target));
            }
        }
        bytes > MAX_REGISTER_BYTES / 4 || (full > MAX_REGISTER_BYTES / 4 * 3 && marks >= MAX_FEW_MARKS)
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

    /// Returns an upper bound of the size in bytes of JSON. The register records marks up to [`MAX_REGISTER_BYTES`].
    pub fn size(&self) -> usize {
        2 * FIXED + self.marks.iter().map(|(target, marks)| size_of(target, marks)).sum::<usize>()
    }
}

/// Bytes that are enough for the names of the fields, a nonce, quotes and commas.
const FIXED: usize = 256;

/// Returns an upper bound of the size of a target's marks, in bytes of JSON.
fn size_of(target: &ObjectKey, marks: &Marks) -> usize {
    let Marks { flags, intents, shared: _, wait } = marks;
    let flags = flags.values().map(size_of_flag);
    let intents = intents.values().map(size_of_intent);
    let wait = wait.map_or(0, |_| FIXED);
    FIXED + size_of_key(target) + wait + flags.chain(intents).sum::<usize>()
}

fn size_of_key(key: &ObjectKey) -> usize {
    let cluster = key.cluster.as_ref().map_or(0, |cluster| cluster.as_str().len());
    let namespace = key.namespace.as_ref().map_or(0, |namespace| namespace.as_str().len());
    let kind = key.kind.group.as_str().len() + key.kind.resource.as_str().len();
    // A character may be escaped.
    FIXED + cluster + namespace + kind + 2 * key.name.len()
}

fn size_of_flag(flag: &Flag) -> usize {
    FIXED + flag.revision.uid().len() + flag.revision.resource_version().len()
}

fn size_of_intent(Intent { dependent }: &Intent) -> usize {
    size_of_key(dependent.key()) + dependent.uid().len() + dependent.replaced().map_or(0, str::len)
}

/// Returns the tenant of an object: in kcp its logical cluster, else its namespace. Objects without a namespace are of one
/// tenant.
fn tenant(key: &ObjectKey) -> (Option<&LogicalCluster>, Option<&Namespace>) {
    match &key.cluster {
        Some(cluster) => (Some(cluster), None),
        None => (None, key.namespace.as_ref()),
    }
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

//! The entry to which an owned object belongs.
//!
//! The name of a GroupOwner holds only a resource and a number. So after a change of the list, and until references are
//! moved, an object may refer to the GroupOwner of one entry and be selected by another. A listed object goes with the
//! first entry that selects it. The GroupOwner to which it refers only shows that the object is owned.

use depguard_core::owners::Entry;
use depguard_kcp::Metadata;

use crate::owners::group::Selection;
use crate::owners::removal::waves::{Part, Task};

/// Listed entries in the order of their removal, each with a flag: true if the entry is done.
#[derive(Debug)]
pub(super) struct GroupIndex<'o> {
    entries: Vec<(&'o Entry, bool)>,
}

/// Part of the removal that takes an object away.
#[derive(Debug, Clone, Copy)]
pub(super) enum Membership<'o> {
    /// This entry: the first one that selects the object and is not done.
    Entry(&'o Entry),
    /// Only entries that are done select the object, since a moment ago: the group to which the object refers takes it
    /// away.
    Done,
    /// No entry: the object is released.
    None,
}

impl<'o> GroupIndex<'o> {
    pub(super) fn from_waves(waves: &[Vec<Part<'o>>]) -> Self {
        let removed = waves.iter().flatten().filter(|part| part.task == Task::Remove);
        Self { entries: removed.filter_map(|part| Some((part.entry?, part.is_done()))).collect() }
    }

    /// Returns the membership of an object of the resource of `entry`.
    pub(super) fn membership(&self, entry: &Entry, object: &Metadata) -> Membership<'o> {
        let kind = entry.resource.group_resource();
        let of_kind = self.entries.iter().filter(|(entry, _)| entry.resource.group_resource() == kind);
        let mut selecting = of_kind.filter(|(entry, _)| entry.selects(object)).peekable();
        if selecting.peek().is_none() {
            return Membership::None;
        }
        selecting.find(|(_, is_done)| !is_done).map_or(Membership::Done, |(entry, _)| Membership::Entry(entry))
    }
}

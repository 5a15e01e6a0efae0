//! To which entry an object belongs that a GlobalOwner owns.
//!
//! The name of a GroupOwner holds only a resource and a number. So once the list was changed, and until references were
//! moved, an object may refer to the GroupOwner of one entry and be selected by another. What is listed goes, and with the
//! first that selects it; which GroupOwner it refers to says only that it is owned.

use depguard_kcp::Metadata;

use super::parts::{Part, Task};
use crate::owners::spec::Entry;

/// The listed entries, in the order in which they go, each with whether it is done.
#[derive(Debug)]
pub(super) struct Homes<'o> {
    entries: Vec<(&'o Entry, bool)>,
}

/// What takes an object away.
#[derive(Debug, Clone, Copy)]
pub(super) enum Home<'o> {
    /// This entry: the first that selects it of those that are not done.
    Entry(&'o Entry),
    /// Only entries select it that are done, since a moment ago: whatever it refers to takes it away.
    Done,
    /// None: it is let go of.
    None,
}

impl<'o> Homes<'o> {
    pub(super) fn of(waves: &[Vec<Part<'o>>]) -> Self {
        let removed = waves.iter().flatten().filter(|part| part.task == Task::Remove);
        Self { entries: removed.filter_map(|part| Some((part.entry?, part.is_done()))).collect() }
    }

    /// Of an object of the resource of `entry`.
    pub(super) fn home(&self, entry: &Entry, object: &Metadata) -> Home<'o> {
        let kind = entry.resource.group_resource();
        let of_kind = self.entries.iter().filter(|(entry, _)| entry.resource.group_resource() == kind);
        let mut selecting = of_kind.filter(|(entry, _)| entry.selects(object)).peekable();
        if selecting.peek().is_none() {
            return Home::None;
        }
        selecting.find(|(_, is_done)| !is_done).map_or(Home::Done, |(entry, _)| Home::Entry(entry))
    }
}

//! Groups to remove or release, and their order.

use std::collections::BTreeSet;

use depguard_core::owners::{EMPTY, Entry, RELEASED};

use crate::model::names::REMOVING;
use crate::owners::group::group_name;
use crate::owners::removal::{order, report};
use crate::owners::snapshot::{GroupOwner, OwnerSnapshot};

/// Group, and the task that it is part of.
#[derive(Debug, Clone, Copy)]
pub(super) struct Part<'o> {
    /// GroupOwner of the group; `None` if it is still to be made.
    pub(super) group: Option<&'o GroupOwner>,
    /// Selection of the group; `None` if it can't be read.
    pub(super) entry: Option<&'o Entry>,
    pub(super) task: Task,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Task {
    Remove,
    Release,
}

impl Task {
    /// Returns the phase of a group for which the task is done.
    pub(super) fn done(self) -> &'static str {
        match self {
            Self::Remove => EMPTY,
            Self::Release => RELEASED,
        }
    }
}

impl Part<'_> {
    /// Returns true if the group is marked as done: nothing referred to it when it was marked.
    pub(super) fn is_done(&self) -> bool {
        self.group.is_some_and(GroupOwner::is_done)
    }

    /// Returns true if the group is marked as complete: it owned all that it selected when it was marked.
    pub(super) fn is_complete(&self) -> bool {
        self.group.is_some_and(|group| group.phase.as_deref() == Some(REMOVING))
    }
}

/// Returns all groups, to be released.
pub(super) fn to_release(observed: &OwnerSnapshot) -> Vec<Part<'_>> {
    observed.groups.iter().map(|group| released(observed, group)).collect()
}

/// Returns the groups to be removed, in waves. A group that the GlobalOwner no longer lists was not its own when it was
/// deleted: objects of such a group that no other entry selects are released, with the first wave. Once the end has
/// begun, an entry without a GroupOwner has lost it and is left out.
pub(super) fn to_remove(observed: &OwnerSnapshot) -> Vec<Vec<Part<'_>>> {
    let mut planned = planned(observed);
    planned.retain(|(group, _)| group.is_some() || !report::is_ending(observed));
    let kinds: Vec<_> = planned.iter().map(|(_, entry)| entry.resource.group_resource()).collect();
    let listed: BTreeSet<&str> = planned.iter().filter_map(|(group, _)| Some(group.as_ref()?.uid.as_str())).collect();
    let removed = |place: &usize| {
        let (group, entry) = planned.get(*place)?;
        Some(Part { group: *group, entry: Some(*entry), task: Task::Remove })
    };
    let ordered = order::waves(observed.owner.order, &kinds, observed.usable_rules());
    let mut waves: Vec<Vec<_>> = ordered.waves.iter().map(|wave| wave.iter().filter_map(removed).collect()).collect();
    let unlisted = observed.groups.iter().filter(|group| !listed.contains(group.uid.as_str()));
    let unlisted = unlisted.map(|group| released(observed, group));
    match waves.first_mut() {
        Some(first) => first.extend(unlisted),
        None => waves.push(unlisted.collect()),
    }
    waves
}

/// Returns the groups in the order in which they are listed, each with its GroupOwner if it has one. If the list can't
/// be read, the GroupOwners tell which groups there were.
fn planned(observed: &OwnerSnapshot) -> Vec<(Option<&GroupOwner>, &Entry)> {
    match &observed.owner.entries {
        Ok(entries) => entries.iter().map(|entry| (group_of(observed, entry), entry)).collect(),
        Err(_) => {
            let mut groups: Vec<_> =
                observed.groups.iter().filter_map(|group| Some((group, group.entry.as_ref().ok()?))).collect();
            groups.sort_by_key(|(group, _)| (group.index, group.name.as_str()));
            groups.into_iter().map(|(group, entry)| (Some(group), entry)).collect()
        }
    }
}

fn group_of<'o>(observed: &'o OwnerSnapshot, entry: &Entry) -> Option<&'o GroupOwner> {
    let name = group_name(&observed.owner.name, &observed.owner.uid, entry);
    observed.groups.iter().find(|group| group.name == name)
}

fn released<'o>(observed: &'o OwnerSnapshot, group: &'o GroupOwner) -> Part<'o> {
    Part { group: Some(group), entry: entry_of(observed, group), task: Task::Release }
}

/// Returns the selection of a group: as it is listed, or else as the GroupOwner holds it.
fn entry_of<'o>(observed: &'o OwnerSnapshot, group: &'o GroupOwner) -> Option<&'o Entry> {
    let owner = &observed.owner;
    let listed = owner.entries.iter().flatten().find(|entry| group_name(&owner.name, &owner.uid, entry) == group.name);
    listed.or(group.entry.as_ref().ok())
}

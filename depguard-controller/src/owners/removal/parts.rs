//! Which groups are removed or released, and in which order.

use std::collections::BTreeSet;

use depguard_core::owners::{EMPTY, RELEASED};

use super::{REMOVING, order, tell};
use crate::owners::observed::{GroupOwner, Observed};
use crate::owners::spec::{Entry, group_name};

/// A group, and what is done about it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Part<'o> {
    /// Its GroupOwner; `None`: it is yet to be made.
    pub(super) group: Option<&'o GroupOwner>,
    /// What it selects; `None`: that can't be read.
    pub(super) entry: Option<&'o Entry>,
    pub(super) task: Task,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Task {
    Remove,
    Release,
}

impl Task {
    /// The phase of a group for which it is done.
    pub(super) fn done(self) -> &'static str {
        match self {
            Self::Remove => EMPTY,
            Self::Release => RELEASED,
        }
    }
}

impl Part<'_> {
    /// Whether nothing refers to it any more, as was seen when it was marked so.
    pub(super) fn is_done(&self) -> bool {
        self.group.is_some_and(GroupOwner::is_done)
    }

    /// Whether all that it selected is owned, as was seen when it was marked so.
    pub(super) fn is_complete(&self) -> bool {
        self.group.is_some_and(|group| group.phase.as_deref() == Some(REMOVING))
    }
}

/// All groups, to be released.
pub(super) fn to_release(observed: &Observed) -> Vec<Part<'_>> {
    observed.groups.iter().map(|group| released(observed, group)).collect()
}

/// The groups to be removed, in waves. A group that the GlobalOwner doesn't list any more was not its own when it was
/// deleted: what no other entry selects is released, with the first wave. Once the end was begun, no group lacks its
/// GroupOwner, but has lost it.
pub(super) fn to_remove(observed: &Observed) -> Vec<Vec<Part<'_>>> {
    let mut planned = planned(observed);
    planned.retain(|(group, _)| group.is_some() || !tell::is_ending(observed));
    let kinds: Vec<_> = planned.iter().map(|(_, entry)| entry.resource.group_resource()).collect();
    let listed: BTreeSet<&str> = planned.iter().filter_map(|(group, _)| Some(group.as_ref()?.uid.as_str())).collect();
    let removed = |place: &usize| {
        let (group, entry) = planned.get(*place)?;
        Some(Part { group: *group, entry: Some(*entry), task: Task::Remove })
    };
    let ordered = order::waves(observed.owner.order, &kinds, &observed.rules);
    let mut waves: Vec<Vec<_>> = ordered.waves.iter().map(|wave| wave.iter().filter_map(removed).collect()).collect();
    let unlisted = observed.groups.iter().filter(|group| !listed.contains(group.uid.as_str()));
    let unlisted = unlisted.map(|group| released(observed, group));
    match waves.first_mut() {
        Some(first) => first.extend(unlisted),
        None => waves.push(unlisted.collect()),
    }
    waves
}

/// The groups in the order in which they are listed, each with its GroupOwner where it has one. Where the list can't be
/// read, the GroupOwners say which groups there were.
fn planned(observed: &Observed) -> Vec<(Option<&GroupOwner>, &Entry)> {
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

fn group_of<'o>(observed: &'o Observed, entry: &Entry) -> Option<&'o GroupOwner> {
    let name = group_name(&observed.owner.name, &observed.owner.uid, entry);
    observed.groups.iter().find(|group| group.name == name)
}

fn released<'o>(observed: &'o Observed, group: &'o GroupOwner) -> Part<'o> {
    Part { group: Some(group), entry: entry_of(observed, group), task: Task::Release }
}

/// What a group selects: as it is listed, or else by itself.
fn entry_of<'o>(observed: &'o Observed, group: &'o GroupOwner) -> Option<&'o Entry> {
    let owner = &observed.owner;
    let listed = owner.entries.iter().flatten().find(|entry| group_name(&owner.name, &owner.uid, entry) == group.name);
    listed.or(group.entry.as_ref().ok())
}

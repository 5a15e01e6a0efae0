//! Next step through waves of groups.

use std::collections::BTreeSet;
use std::sync::Arc;

use depguard_core::owners::{Entry, RELEASED};
use depguard_kcp::Metadata;
use tokio::time::Instant;

use crate::model::names::REMOVING;
use crate::owners::adoption::{make_missing_group, make_role};
use crate::owners::group::{Selection, group_name};
use crate::owners::removal::disposition::{Disposition, on_release, on_removal};
use crate::owners::removal::failures::Memory;
use crate::owners::removal::group_of::GroupIndex;
use crate::owners::removal::look::{self, LeftBehind};
use crate::owners::removal::report::{self, AllStuck, Progress, Stuck};
use crate::owners::removal::waves::{Part, Task};
use crate::owners::snapshot::{GroupOwner, Listing, Object, OwnerSnapshot};
use crate::owners::write::{Finalizers, Next, Write};

/// Maximum number of writes before the controller looks at the cluster again: if it turns out meanwhile that a
/// GlobalOwner is to be released, not many of its objects are lost.
const MAX_AT_ONCE: usize = 64;

/// Returns the actions for now, if these groups go in these waves.
pub(super) fn next(
    observed: &OwnerSnapshot,
    phase: &'static str,
    waves: &[Vec<Part<'_>>],
    memory: &Memory,
    now: Instant,
) -> Next {
    let groups = (phase == REMOVING).then(|| GroupIndex::from_waves(waves));
    let mut step = Action {
        observed,
        memory,
        now,
        groups,
        next: Next::default(),
        stuck: AllStuck::default(),
        left: 0,
        left_behind: LeftBehind::of_groups(&observed.groups),
    };
    waves.iter().flatten().for_each(|part| step.makings(part));
    let waits = waves.iter().position(|wave| step.wave(wave));
    let present = waits.or_else(|| waves.iter().position(|wave| wave.iter().any(|part| !part.is_done())));
    match present {
        Some(_) => {}
        None if report::is_ending(observed) || phase != REMOVING => step.conclude(),
        // The status must say first that the end has begun: from then on a missing GroupOwner is not made again.
        None => step.look_back(waves),
    }
    let Action { mut next, stuck, left, left_behind, .. } = step;
    // Some objects are not known yet: nothing is done or told by halves.
    if !next.lists.is_empty() {
        return Next { lists: next.lists, ..Next::default() };
    }
    let wave = present.map(|number| number.saturating_add(1));
    let progress = Progress { phase, wave, waves: waves.len(), remaining: left, stuck, left_behind };
    next.writes.extend(report::events(observed, &progress).into_iter().map(Write::Event));
    next.status = Some(report::status(observed, &progress));
    next
}

/// Objects that a step found of a group.
#[derive(Default)]
struct Selected {
    /// Number of objects that are to go, or to be released, now.
    left: usize,
    /// Number of objects that refer to the group, and go with another wave.
    later: usize,
}

struct Action<'o> {
    observed: &'o OwnerSnapshot,
    memory: &'o Memory,
    now: Instant,
    /// Groups of the objects; `None` if all groups are released.
    groups: Option<GroupIndex<'o>>,
    next: Next,
    stuck: AllStuck,
    left: usize,
    left_behind: LeftBehind,
}

impl<'o> Action<'o> {
    /// Asks for the missing GroupOwner or role of a group to which something may refer, be it in a later wave: they may
    /// be gone, or may never have been made. Without the GroupOwner nothing can be adopted; without the role no object
    /// of the group can be seen or written.
    fn makings(&mut self, part: &Part<'o>) {
        let Some(entry) = part.entry.filter(|_| !part.is_done()) else { return };
        let write = match part.group {
            Some(group) => make_role(self.observed, &group.name, entry),
            None => make_missing_group(&self.observed.owner, entry),
        };
        if let Some(write) = write {
            self.ask(&write.key(), write);
        }
    }

    /// Takes one step with all groups of a wave. Returns true if the wave must be waited for.
    fn wave(&mut self, wave: &[Part<'o>]) -> bool {
        let mut waits = false;
        for part in wave.iter().filter(|part| !part.is_done()) {
            waits |= self.part(part);
        }
        waits
    }

    /// Takes one step with a group to which something may refer. Returns true if the group must be waited for, and
    /// false if all objects that still refer to it go with another wave.
    fn part(&mut self, part: &Part<'o>) -> bool {
        let (group, entry) = match (part.group, part.entry) {
            (Some(group), Some(entry)) => (group, entry),
            (Some(group), None) => {
                let why = group.entry.as_ref().err().map(ToString::to_string).unwrap_or_default();
                self.group_is_stuck(group, &format!("its objects are not known, correct its spec: {why}"));
                return true;
            }
            (None, entry) => return self.awaits_group(entry),
        };
        match self.observed.listing(&entry.resource) {
            Listing::Pending | Listing::Unwatched(_) => self.list(entry),
            Listing::NotServed(_) => self.mark(group, part.task.done(), &LeftBehind::default()),
            Listing::Unreadable(why) => self.is_unreadable(group, why),
            Listing::Objects { kind, objects, consistent } => match &self.groups {
                Some(_) if part.task == Task::Remove && !part.is_complete() => match consistent {
                    true => self.complete(group, entry, kind, objects),
                    false => self.list(entry),
                },
                _ => self.take_away(part, group, entry, (kind, objects, *consistent)),
            },
        }
    }

    /// Adopts all objects that one list shows and the entry selects, and marks the group once it owns them all. Objects
    /// that come meanwhile are not waited for.
    fn complete(&mut self, group: &'o GroupOwner, entry: &'o Entry, kind: &str, objects: &'o [Arc<Object>]) -> bool {
        let Some(groups) = &self.groups else { return false };
        let mut unowned = look::unowned(self.observed, groups, entry, objects);
        match self.memory.looked_at(&group.uid) {
            Some(known) => unowned.retain(|object| known.contains(object.uid())),
            None => {
                let all = unowned.iter().map(|object| object.uid().to_owned()).collect();
                self.next.looks.insert(group.uid.clone(), all);
            }
        }
        let owned = objects.iter().filter(|object| object.is_owned_by(&group.uid)).count();
        self.left = self.left.saturating_add(owned).saturating_add(unowned.len());
        if unowned.is_empty() {
            return self.mark(group, REMOVING, &LeftBehind::default());
        }
        // The garbage collector takes everything that is given to a GroupOwner that goes.
        if group.is_deleting {
            self.waits_for(&group.uid, Metadata::from_object(&group.object).as_ref(), |why| Stuck::group(group, why));
            return true;
        }
        for object in unowned {
            self.waits_for(object.uid(), None, |why| {
                Stuck::object(entry, kind, object, &format!("it could not be adopted: {why}"))
            });
            if self.memory.is_due(object.uid(), self.now) {
                self.next.writes.push(Write::Adopt {
                    resource: entry.resource.clone(),
                    object: Arc::clone(object),
                    group: group.name.clone(),
                    group_uid: group.uid.clone(),
                });
            }
        }
        true
    }

    /// Deletes or releases the objects of the group, and marks the group once there are none.
    fn take_away(
        &mut self,
        part: &Part<'o>,
        group: &'o GroupOwner,
        entry: &'o Entry,
        (kind, objects, consistent): (&str, &'o [Arc<Object>], bool),
    ) -> bool {
        let Selected { left, later } = self.objects(part, group, entry, kind, objects);
        self.left = self.left.saturating_add(left);
        match (left, later, consistent) {
            (0, _, false) => self.list(entry),
            (0, 0, true) => {
                let left_behind = match &self.groups {
                    Some(groups) if part.task == Task::Remove => look::unowned(self.observed, groups, entry, objects),
                    _ => Vec::new(),
                };
                self.mark(group, part.task.done(), &LeftBehind::new(entry, kind, &left_behind))
            }
            (0, _, true) => false,
            _ => true,
        }
    }

    fn objects(
        &mut self,
        part: &Part<'o>,
        group: &'o GroupOwner,
        entry: &'o Entry,
        kind: &str,
        objects: &'o [Arc<Object>],
    ) -> Selected {
        let mut found = Selected::default();
        for object in objects {
            let fate = match &self.groups {
                Some(groups) => on_removal(object, part, entry, groups, &self.observed.groups),
                None => on_release(object, group),
            };
            let resource = entry.resource.clone();
            let write = match fate {
                Disposition::Elsewhere => continue,
                Disposition::Later => {
                    found.later = found.later.saturating_add(1);
                    continue;
                }
                Disposition::Delete => Some(Write::DeleteObject { resource, object: Arc::clone(object) }),
                Disposition::Release => Some(Write::Release {
                    resource,
                    object: Arc::clone(object),
                    group: group.name.clone(),
                    group_uid: group.uid.clone(),
                }),
                Disposition::Terminating => None,
            };
            found.left = found.left.saturating_add(1);
            // One whose turn has not come yet is not waited for.
            let is_asked = write.is_none_or(|write| self.ask(object.uid(), write));
            if is_asked || self.memory.refusal(object.uid()).is_some() {
                self.waits_for(object.uid(), Some(&object.metadata), |why| Stuck::object(entry, kind, object, why));
            }
        }
        found
    }

    /// Looks once more at all selected objects after all groups are gone, for those that have come meanwhile. A
    /// resource that can't be read holds nothing up.
    fn look_back(&mut self, waves: &[Vec<Part<'o>>]) {
        let mut left_behind = LeftBehind::default();
        let mut seen = BTreeSet::new();
        let removed = waves.iter().flatten().filter(|part| part.task == Task::Remove);
        for entry in removed.filter_map(|part| part.entry) {
            match self.observed.listing(&entry.resource) {
                Listing::Objects { kind, objects, consistent: true } => {
                    let selected = objects.iter().filter(|object| entry.selects(&object.metadata));
                    let unowned: Vec<_> = selected
                        .filter(|object| look::is_unowned(self.observed, entry, object) && seen.insert(object.uid()))
                        .collect();
                    left_behind.add(LeftBehind::new(entry, kind, &unowned));
                }
                Listing::Pending | Listing::Unwatched(_) | Listing::Objects { .. } => _ = self.list(entry),
                Listing::NotServed(_) | Listing::Unreadable(_) => {}
            }
        }
        self.left_behind = left_behind;
    }

    /// Removes what depguard made for groups, now that nothing refers to any group.
    fn conclude(&mut self) {
        self.left_behind = LeftBehind::read(self.observed.owner.object.get("status"));
        for group in &self.observed.groups {
            // An object that was released while an adoption was under way must not be deleted with its group.
            let orphan = group.phase.as_deref() == Some(RELEASED);
            if !group.is_deleting {
                self.ask(&group.uid, Write::delete_group(group, orphan));
            }
            self.waits_for(&group.uid, Metadata::from_object(&group.object).as_ref(), |why| Stuck::group(group, why));
        }
        if !self.observed.groups.is_empty() {
            return;
        }
        for role in &self.observed.roles {
            self.ask(&role.uid, Write::delete_role(role));
            self.waits_for(&role.uid, Metadata::from_object(&role.object).as_ref(), |why| Stuck::role(role, why));
        }
        if self.observed.roles.is_empty() {
            let owner = &self.observed.owner;
            self.ask(&owner.uid, Write::Unfinalize(Finalizers::new(owner)));
            self.waits_for(&owner.uid, None, |why| {
                Stuck::owner(owner, &format!("its finalizer could not be removed: {why}"))
            });
        }
    }

    /// Asks for a list of a resource. Always true: the list must be waited for.
    fn list(&mut self, entry: &Entry) -> bool {
        self.next.lists.insert(entry.resource.clone());
        true
    }

    /// Marks a group with a phase. Always true: the mark must be waited for.
    fn mark(&mut self, group: &GroupOwner, phase: &str, left_behind: &LeftBehind) -> bool {
        self.ask(&group.uid, Write::mark_group(group, phase, left_behind));
        self.waits_for(&group.uid, None, |why| Stuck::group(group, &format!("its status could not be written: {why}")));
        true
    }

    /// Waits for the GroupOwner of an entry that has none yet.
    fn awaits_group(&mut self, entry: Option<&Entry>) -> bool {
        let Some(entry) = entry else { return false };
        let owner = &self.observed.owner;
        let name = group_name(&owner.name, &owner.uid, entry);
        let [key, _] = Write::creation_keys(&name);
        self.waits_for(&key, None, |why| Stuck::group_of_name(&name, &format!("it could not be created: {why}")));
        true
    }

    /// Asks for a write, unless it was refused a moment ago or there are enough writes. Returns true if it is asked for
    /// now.
    fn ask(&mut self, uid: &str, write: Write) -> bool {
        let is_asked = self.next.writes.len() < MAX_AT_ONCE && self.memory.is_due(uid, self.now);
        if is_asked {
            self.next.writes.push(write);
        }
        is_asked
    }

    /// Waits until something is gone or done. Reports the reason if it was refused or takes long.
    fn waits_for(&mut self, key: &str, metadata: Option<&Metadata>, stuck: impl FnOnce(&str) -> Stuck) {
        self.next.waits.insert(key.to_owned());
        let refusal = self.memory.refusal(key).map(str::to_owned);
        let is_long = self.memory.is_long(key, self.now);
        let held = || report::held(metadata?, &self.observed.now, is_long);
        let why = refusal.or_else(held).or_else(|| is_long.then(|| report::UNDONE.to_owned()));
        if let Some(why) = why {
            self.stuck.push(|| stuck(&why));
        }
    }

    fn is_unreadable(&mut self, group: &GroupOwner, why: &str) -> bool {
        let [_, role] = Write::creation_keys(&group.name);
        let key = format!("objects of {}", group.uid);
        let refusal = self.memory.refusal(&role);
        let refusal = refusal.map(|refusal| format!("{why}; the ClusterRole for them could not be created: {refusal}"));
        // A right that was granted a moment ago is not in effect yet.
        let why = refusal.or_else(|| self.memory.is_long(&key, self.now).then(|| why.to_owned()));
        self.next.waits.insert(key);
        if let Some(why) = why {
            self.group_is_stuck(group, &format!("its objects can't be listed: {why}"));
        }
        true
    }

    fn group_is_stuck(&mut self, group: &GroupOwner, why: &str) {
        self.stuck.push(|| Stuck::group(group, why));
    }
}

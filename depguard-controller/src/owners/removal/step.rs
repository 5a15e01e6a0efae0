//! The next step through waves of groups.

use std::sync::Arc;

use depguard_core::owners::{EMPTY, RELEASED};
use tokio::time::Instant;

use super::REMOVING;
use super::fate::{Fate, on_release, on_removal};
use super::homes::Homes;
use super::memory::Memory;
use super::parts::{Part, Task};
use super::tell::{self, AllStuck, Progress, Stuck};
use crate::owners::keep::make_role;
use crate::owners::observed::{GroupOwner, Listing, Object, Observed};
use crate::owners::spec::Entry;
use crate::owners::write::{Finalizers, Next, Write};

/// The most objects that are written before the cluster is looked at again: not many are lost of an owner that turns out
/// to be released meanwhile.
const MOST_AT_ONCE: usize = 64;

/// What to do now, where these groups go in these waves.
pub(super) fn next(
    observed: &Observed,
    phase: &'static str,
    waves: &[Vec<Part<'_>>],
    memory: &Memory,
    now: Instant,
) -> Next {
    let homes = (phase == REMOVING).then(|| Homes::of(waves));
    let mut step = Step { observed, memory, now, homes, next: Next::default(), stuck: AllStuck::default(), left: 0 };
    waves.iter().flatten().for_each(|part| step.role(part));
    let waits = waves.iter().position(|wave| step.wave(wave));
    let present = waits.or_else(|| waves.iter().position(|wave| wave.iter().any(|part| !part.is_done())));
    if present.is_none() {
        step.conclude();
    }
    let Step { mut next, stuck, left, .. } = step;
    // What is there isn't known yet: there is nothing to do or to tell by halves.
    if !next.lists.is_empty() {
        return Next { lists: next.lists, ..Next::default() };
    }
    let wave = present.map(|number| number.saturating_add(1));
    let progress = Progress { phase, wave, waves: waves.len(), remaining: left, stuck };
    next.writes.extend(tell::events(observed, &progress).into_iter().map(Write::Event));
    next.status = Some(tell::status(observed, &progress));
    next
}

/// The objects that a step found of a group.
#[derive(Default)]
struct Found {
    /// Those that are to go, or to be let go of, now.
    left: usize,
    /// Those that refer to it, and go with a later wave.
    later: usize,
}

struct Step<'o> {
    observed: &'o Observed,
    memory: &'o Memory,
    now: Instant,
    /// `None`: all is released.
    homes: Option<Homes<'o>>,
    next: Next,
    stuck: AllStuck,
    left: usize,
}

impl<'o> Step<'o> {
    /// Sees to the role of a group to which something may refer, be it in a later wave: it may be gone, or never have been
    /// made, and without it nothing of the group can be seen or written.
    fn role(&mut self, part: &Part<'o>) {
        let group = part.own_group().filter(|_| !part.is_done());
        let write = group.zip(part.entry).and_then(|(group, entry)| make_role(self.observed, &group.name, entry));
        if let Some(write) = write {
            self.ask(&write.key(), write);
        }
    }

    /// One step of all of a wave. Whether it is to be waited for.
    fn wave(&mut self, wave: &[Part<'o>]) -> bool {
        let mut waits = false;
        for part in wave.iter().filter(|part| !part.is_done()) {
            waits |= self.part(part);
        }
        waits
    }

    /// One step of a group to which something may refer. Whether it is to be waited for: not where all that refers to it
    /// yet goes with a later wave.
    fn part(&mut self, part: &Part<'o>) -> bool {
        let Some(entry) = part.entry else {
            let why = part.group.entry.as_ref().err().map(ToString::to_string).unwrap_or_default();
            self.group_is_stuck(part.group, &format!("it can't be told what it owns, correct its spec: {why}"));
            return true;
        };
        match self.observed.listing(&entry.resource) {
            Listing::Pending | Listing::Unwatched(_) => self.list(entry),
            Listing::NotServed(_) => self.mark(part),
            Listing::Unreadable(why) => self.is_unreadable(part.group, why),
            Listing::Objects { kind, objects, consistent } => {
                let Found { left, later } = self.objects(part, entry, kind, objects);
                self.left = self.left.saturating_add(left);
                match (left, later, consistent) {
                    (0, _, false) => self.list(entry),
                    (0, 0, true) => self.mark(part),
                    (0, _, true) => false,
                    _ => true,
                }
            }
        }
    }

    fn objects(&mut self, part: &Part<'o>, entry: &'o Entry, kind: &str, objects: &'o [Arc<Object>]) -> Found {
        let mut found = Found::default();
        for object in objects {
            let fate = match &self.homes {
                Some(homes) => on_removal(object, part, entry, homes, &self.observed.groups),
                None => on_release(object, part.group),
            };
            let resource = entry.resource.clone();
            let write = match fate {
                Fate::Elsewhere => continue,
                Fate::Later => {
                    found.later = found.later.saturating_add(1);
                    continue;
                }
                Fate::Delete => Some(Write::DeleteObject { resource, object: Arc::clone(object) }),
                Fate::Release(owner_uid) => {
                    Some(Write::Release { resource, object: Arc::clone(object), group_uid: owner_uid.to_owned() })
                }
                Fate::Going | Fate::Collected => None,
            };
            found.left = found.left.saturating_add(1);
            let refusal = write.as_ref().and_then(|_| self.memory.refusal(object.uid())).map(str::to_owned);
            if let Some(why) = refusal.or_else(|| tell::held(object, &self.observed.now)) {
                self.stuck.push(|| Stuck::object(entry, kind, object, &why));
            }
            if let Some(write) = write {
                self.ask(object.uid(), write);
            }
        }
        found
    }

    /// Nothing refers to any group: what depguard made goes.
    fn conclude(&mut self) {
        for group in &self.observed.groups {
            // An object that was released while it was still being adopted is not deleted with its group.
            let orphan = group.phase.as_deref() == Some(RELEASED);
            if !group.is_deleting {
                self.ask(&group.uid, Write::delete_group(group, orphan));
            }
            if let Some(why) = self.memory.refusal(&group.uid) {
                self.group_is_stuck(group, why);
            }
        }
        if !self.observed.groups.is_empty() {
            return;
        }
        for role in &self.observed.roles {
            self.ask(&role.uid, Write::delete_role(role));
            if let Some(why) = self.memory.refusal(&role.uid) {
                self.stuck.push(|| Stuck::role(role, why));
            }
        }
        if self.observed.roles.is_empty() {
            let owner = &self.observed.owner;
            self.ask(&owner.uid, Write::Unfinalize(Finalizers::of(owner)));
        }
    }

    /// Has a resource listed, which is to be waited for.
    fn list(&mut self, entry: &Entry) -> bool {
        self.next.lists.insert(entry.resource.clone());
        true
    }

    /// Marks a group to which nothing refers, which is to be waited for.
    fn mark(&mut self, part: &Part<'o>) -> bool {
        let Some(group) = part.own_group() else { return false };
        let phase = match part.task {
            Task::Remove => EMPTY,
            Task::Release => RELEASED,
        };
        self.ask(&group.uid, Write::mark_group(group, phase));
        if let Some(why) = self.memory.refusal(&group.uid) {
            self.group_is_stuck(group, why);
        }
        true
    }

    /// Wants a write, unless it was refused a moment ago.
    fn ask(&mut self, uid: &str, write: Write) {
        if self.next.writes.len() < MOST_AT_ONCE && self.memory.is_due(uid, self.now) {
            self.next.writes.push(write);
        }
    }

    fn is_unreadable(&mut self, group: &GroupOwner, why: &str) -> bool {
        let [_, role] = Write::creation_keys(&group.name);
        let why = match self.memory.refusal(&role) {
            Some(refusal) => format!("{why}; its ClusterRole can't be made: {refusal}"),
            None => why.to_owned(),
        };
        self.group_is_stuck(group, &format!("its objects can't be listed: {why}"));
        true
    }

    fn group_is_stuck(&mut self, group: &GroupOwner, why: &str) {
        self.stuck.push(|| Stuck::group(group, why));
    }
}

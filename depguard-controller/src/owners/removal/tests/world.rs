//! Cluster in which groups are removed, step by step, with all that may go wrong.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use depguard_core::owners::{EMPTY, Entry, Order, RELEASED, entries, entry_of_group};
use depguard_core::{ControlPlane, GroupVersionResource};
use depguard_kcp::{Metadata, OwnerReference};
use serde_json::{Value, json};

use super::super::*;
use super::plot::*;
use crate::owners::adoption::make_role;
use crate::owners::api::{FINALIZER, GLOBAL_OWNER, GROUP, Names};
use crate::owners::group::group_name;
use crate::owners::snapshot::{GlobalOwner, GroupOwner, Guard, Listing, Object, Role};
use crate::owners::write::{Next, Write};
use crate::rules::written_rule::WrittenRule;

/// Number of looks, more than any of these removals needs.
pub(super) const LOOKS: usize = 400;
/// Number of looks in which the controller may be killed: a controller that is always killed before its first write
/// never ends.
pub(super) const CRASHES: usize = 200;

/// Cluster, as far as a removal sees it.
pub(super) struct World {
    pub(super) plot: Plot,
    pub(super) owner: Option<Value>,
    pub(super) groups: BTreeMap<String, Value>,
    pub(super) roles: BTreeMap<String, Value>,
    pub(super) objects: BTreeMap<String, Live>,
    /// Listed entries, each with the wave in which its objects go.
    pub(super) waves: Vec<(Picks, usize)>,
    /// UIDs of the deleted objects, in the order of their deletion.
    pub(super) deleted: Vec<String>,
    pub(super) rules: Vec<WrittenRule>,
    /// Entries of another GlobalOwner, which stays.
    pub(super) others: Vec<Entry>,
    /// Messages of the events about objects that stay.
    pub(super) told: Vec<String>,
    pub(super) now: String,
    pub(super) chance: usize,
    /// Number of objects that came late.
    pub(super) arrived: usize,
}

#[derive(Debug, Clone)]
pub(super) struct Live {
    pub(super) object: Object,
    pub(super) kind: usize,
    pub(super) tier: u8,
    /// True if somebody else owns the object, too.
    pub(super) is_anothers: bool,
    /// True if the object was made while the GlobalOwner was being deleted.
    pub(super) is_late: bool,
    pub(super) refusals: u8,
    pub(super) held: u8,
}

pub(super) fn resource(kind: usize) -> String {
    format!("kind{kind}s")
}

pub(super) fn child((kind, tiers): &Picks) -> Value {
    let tiers: Vec<_> = (0..TIERS).filter(|tier| tiers & (1 << tier) != 0).map(|tier| format!("t{tier}")).collect();
    let selector = json!({"matchExpressions": [{"key": "tier", "operator": "In", "values": tiers}]});
    json!({"apiVersion": "example.com/v1", "resource": resource(*kind), "selector": selector})
}

/// Returns true if some group owns the object.
pub(super) fn is_owned(live: &Live) -> bool {
    live.object.metadata.owner_references.iter().any(|owner| owner.uid.starts_with("group-"))
}

pub(super) fn rule(from: usize, to: usize) -> WrittenRule {
    let object = json!({"metadata": {"name": "r"}, "spec": {
        "dependent": {"group": "example.com", "version": "v1", "kind": "Kind", "resource": resource(from)},
        "dependencies": [{
            "group": "example.com", "version": "v1", "resource": resource(to), "fieldRef": {"path": ".spec.ref"},
        }],
    }});
    WrittenRule::read(ControlPlane::Kubernetes, &object)
}

impl World {
    pub(super) fn from_plot(plot: Plot) -> Self {
        let children = |picks: &[Picks]| json!({"childResources": picks.iter().map(child).collect::<Vec<_>>()});
        let made = plot.before.as_ref().unwrap_or(&plot.listed).clone();
        // Without GroupOwners the garbage collector leaves no trace: only the webhook's note tells that the objects
        // stay.
        let is_noted = plot.orphan == Orphan::Policy || plot.orphan == Orphan::Collected && made.is_empty();
        let policy = if is_noted { "Orphan" } else { "Delete" };
        let order = if plot.by_rules { "ByRules" } else { "Listed" };
        let mut finalizers = vec![FINALIZER];
        if plot.orphan == Orphan::Finalizer {
            finalizers.push(ORPHAN);
        }
        let owner = json!({
            "apiVersion": Names::api_version(), "kind": "GlobalOwner",
            "metadata": {
                "name": "o", "uid": "owner", "resourceVersion": "1", "generation": 2,
                "deletionTimestamp": "2026-01-01T00:00:00Z", "finalizers": finalizers,
            },
            "spec": {"childResources": children(&plot.listed)["childResources"], "order": order, "deletionPolicy": policy},
        });
        let listed = entries(&owner["spec"]).unwrap();
        let rules: Vec<_> = plot.rules.iter().map(|(from, to)| rule(*from, *to)).collect();
        let kinds: Vec<_> = listed.iter().map(|entry| entry.resource.group_resource()).collect();
        let usable = rules.iter().map(|rule| rule.rule().unwrap());
        let ordered = order::waves(Order::from_spec(&owner["spec"]), &kinds, usable).waves;
        let wave = |index| ordered.iter().position(|wave| wave.contains(&index)).unwrap();
        let waves = plot.listed.iter().enumerate().map(|(index, picks)| (*picks, wave(index))).collect();
        let grouped = entries(&children(&made)).unwrap();
        let mut groups = BTreeMap::new();
        for (index, entry) in grouped.iter().enumerate() {
            let name = group_name("o", "owner", entry);
            let reference =
                json!({"apiVersion": Names::api_version(), "kind": "GlobalOwner", "name": "o", "uid": "owner"});
            let references = if plot.orphan == Orphan::Collected { vec![] } else { vec![reference] };
            let group = json!({
                "metadata": {
                    "name": name, "uid": format!("group-{index}"), "labels": {GLOBAL_OWNER: "owner"},
                    "ownerReferences": references,
                },
                "spec": entry.group_spec,
                "status": {"phase": "Owning"},
            });
            groups.insert(name, group);
        }
        let names: Vec<_> = grouped.iter().map(|entry| group_name("o", "owner", entry)).collect();
        let objects = plot.objects.iter().enumerate();
        let objects = objects.map(|(number, seed)| (format!("uid-{number}"), live(number, seed, &made, &names)));
        let objects = objects.collect();
        let now = "2026-01-01T00:00:10Z".to_owned();
        let mut world = Self {
            plot,
            owner: Some(owner),
            groups,
            roles: BTreeMap::new(),
            objects,
            waves,
            deleted: Vec::new(),
            rules,
            others: Vec::new(),
            told: Vec::new(),
            now,
            chance: 0,
            arrived: 0,
        };
        let observed = world.observed(&BTreeSet::new());
        for (index, (name, entry)) in names.iter().zip(&grouped).enumerate() {
            if !world.plot.roleless.contains(&index) {
                world.apply(&make_role(&observed, name, entry).unwrap());
            }
        }
        world
    }

    pub(super) fn chance(&mut self) -> u8 {
        self.chance += 1;
        self.plot.chances[self.chance % self.plot.chances.len()]
    }

    pub(super) fn observed(&mut self, lists: &BTreeSet<GroupVersionResource>) -> OwnerSnapshot {
        let entries = self.resources();
        let mut listings = BTreeMap::new();
        for gvr in entries {
            let consistent = lists.contains(&gvr);
            // Each role lets all objects of its resource be seen, in whatever group they are.
            if !self.roles.values().any(|role| role["rules"][0]["resources"][0] == gvr.resource.as_str()) {
                let why = "403 Forbidden".to_owned();
                listings.insert(gvr, if consistent { Listing::Unreadable(why) } else { Listing::Unwatched(why) });
                continue;
            }
            if !consistent && self.chance().is_multiple_of(5) {
                continue;
            }
            if !consistent && self.chance().is_multiple_of(11) {
                listings.insert(gvr, Listing::Unwatched("too many".to_owned()));
                continue;
            }
            let all: Vec<_> = self.objects.values().cloned().collect();
            let objects = all.into_iter().filter(|live| gvr.resource.as_str() == resource(live.kind));
            // A watch may not have seen everything yet.
            let objects = objects.filter(|_| consistent || !self.chance().is_multiple_of(3));
            let objects = objects.map(|live| Arc::new(live.object)).collect();
            listings.insert(gvr, Listing::Objects { kind: "Kind".to_owned(), objects, consistent });
        }
        OwnerSnapshot {
            guard: Guard::InForce,
            now: self.now.clone(),
            owner: GlobalOwner::read(self.owner.as_ref().unwrap()).unwrap(),
            groups: self.groups.values().map(|group| GroupOwner::read(group).unwrap()).collect(),
            roles: self.roles.values().map(|role| Role::read(role).unwrap()).collect(),
            listings,
            others: self.others.clone(),
            rules: self.rules.clone(),
            unordered: None,
            precreated_roles: false,
        }
    }

    /// Does what an API server makes of a write. Panics at a write that no removal may do.
    pub(super) fn apply(&mut self, write: &Write) -> WriteOutcome {
        match write {
            Write::DeleteObject { object, .. } => return self.delete(object.uid()),
            Write::Release { object, group_uid, .. } => {
                if let Some(live) = self.objects.get_mut(object.uid()) {
                    live.object.metadata.owner_references.retain(|owner| owner.uid != *group_uid);
                }
            }
            Write::MarkGroup { object, .. } => {
                let group = self.groups.get_mut(object["metadata"]["name"].as_str().unwrap()).unwrap();
                *group = object.clone();
                let uid = group["metadata"]["uid"].as_str().unwrap().to_owned();
                let is_done = group["status"]["phase"] != REMOVING;
                assert!(!is_done || self.left_of(&uid).is_empty(), "{uid} is marked, and has {:?}", self.left_of(&uid));
            }
            Write::CreateGroup(group) => {
                assert!(!report::is_ending(&self.observed(&BTreeSet::new())), "a group is made again");
                let name = group["metadata"]["name"].as_str().unwrap().to_owned();
                let mut group = group.clone();
                group["metadata"]["uid"] = json!(format!("group-of-{name}"));
                assert_eq!(self.groups.insert(name, group), None);
            }
            Write::Adopt { object, group, group_uid, .. } => {
                assert_eq!(self.plot.orphan, Orphan::No, "a released object is adopted");
                assert!(self.groups[group]["metadata"]["uid"] == group_uid.as_str());
                if let Some(live) = self.objects.get_mut(object.uid()) {
                    assert!(!live.is_anothers && !live.object.opted_out, "{live:?} is adopted");
                    let owner = reference("GroupOwner", group, group_uid.clone());
                    live.object.metadata.owner_references.push(owner);
                }
            }
            Write::DeleteGroup { name, uid, orphan } => {
                let group = self.groups.remove(name).unwrap();
                let phase = group["status"]["phase"].as_str().unwrap();
                assert!(matches!(phase, EMPTY | RELEASED), "{uid} is deleted while {phase}");
                assert_eq!(*orphan, phase == RELEASED);
            }
            Write::DeleteRole { name, .. } => {
                assert!(self.groups.is_empty());
                self.roles.remove(name);
            }
            Write::Unfinalize(_) => {
                assert!(self.groups.is_empty() && self.roles.is_empty());
                self.owner = None;
            }
            Write::CreateRole(role) => {
                let name = role["metadata"]["name"].as_str().unwrap();
                assert!(self.groups.contains_key(name));
                let mut role = role.clone();
                role["metadata"]["uid"] = json!(format!("role-{name}"));
                assert_eq!(self.roles.insert(name.to_owned(), role), None);
            }
            Write::Event(event) if event["reason"] == "LeftBehind" => {
                self.told.push(event["message"].as_str().unwrap().to_owned());
            }
            Write::Event(_) => {}
            other => panic!("no removal writes {other:?}"),
        }
        WriteOutcome::Done
    }

    pub(super) fn delete(&mut self, uid: &str) -> WriteOutcome {
        assert_eq!(self.plot.orphan, Orphan::No, "a released object is deleted");
        let Some(live) = self.objects.get(uid) else { return WriteOutcome::Done };
        assert!(is_owned(live), "{live:?} is nobody's");
        let mine = self.wave_of(live).unwrap_or_else(|| panic!("{live:?} stays"));
        for other in self.objects.values().filter(|other| !other.is_late) {
            let wave = self.wave_of(other).unwrap_or(mine);
            assert!(wave >= mine, "{uid} goes before {other:?}");
        }
        let live = self.objects.get_mut(uid).unwrap();
        if live.refusals > 0 {
            live.refusals -= 1;
            return WriteOutcome::Refused("not yet".to_owned());
        }
        if live.held == 0 {
            self.objects.remove(uid);
            self.deleted.push(uid.to_owned());
        } else {
            live.object.metadata.deletion_timestamp = Some("2026-01-01T00:00:00Z".to_owned());
        }
        WriteOutcome::Done
    }

    pub(super) fn resources(&self) -> BTreeSet<GroupVersionResource> {
        let made = self.groups.values().map(|group| entry_of_group(&group["spec"]).unwrap().resource);
        let owner = self.owner.as_ref().unwrap();
        made.chain(entries(&owner["spec"]).unwrap().into_iter().map(|entry| entry.resource)).collect()
    }

    /// Returns the wave in which an owned object is to go; `None` if it stays.
    pub(super) fn wave_of(&self, live: &Live) -> Option<usize> {
        let stays = live.object.opted_out || live.is_anothers;
        let selects = |(kind, tiers): &Picks| *kind == live.kind && tiers & (1 << live.tier) != 0;
        let waves = self.waves.iter().filter(|(picks, _)| selects(picks)).map(|(_, wave)| *wave);
        waves.min().filter(|_| !stays)
    }

    pub(super) fn left_of(&self, group: &str) -> Vec<&str> {
        let left = self.objects.values().filter(|live| live.object.is_owned_by(group));
        left.map(|live| live.object.uid()).collect()
    }

    /// Makes the next of the objects that come late.
    pub(super) fn arrive(&mut self) {
        let seed = match self.plot.late.as_slice() {
            [last] if self.plot.endless => last.clone(),
            [] => return,
            _ => self.plot.late.remove(0),
        };
        self.arrived += 1;
        let number = self.arrived + 100;
        let seed = Seed { owners: BTreeSet::new(), ..seed };
        let made = Live { is_late: true, ..live(number, &seed, &[], &[]) };
        self.objects.insert(format!("uid-{number}"), made);
    }

    /// Lets time pass: finalizers are done at some time.
    pub(super) fn pass(&mut self) {
        self.objects.retain(|_, live| {
            if live.object.is_deleting() {
                live.held = live.held.saturating_sub(1);
            }
            !live.object.is_deleting() || live.held > 0
        });
    }

    pub(super) fn look(&mut self, memory: &Memory, now: Instant) -> Next {
        let mut lists = BTreeSet::new();
        loop {
            let observed = self.observed(&lists);
            let next = next(&observed, memory, now);
            if next.lists.is_subset(&lists) {
                return next;
            }
            assert!(next.writes.is_empty() && next.status.is_none(), "nothing is done by halves");
            lists.extend(next.lists);
        }
    }

    /// Returns the next actions after a fresh list of all resources.
    pub(super) fn look_whole(&mut self, memory: &Memory, now: Instant) -> Next {
        let all = self.resources();
        next(&self.observed(&all), memory, now)
    }

    /// Goes on until the GlobalOwner is gone.
    pub(super) fn play(&mut self) {
        let (mut memory, mut now) = (Memory::default(), Instant::now());
        for look in 0..LOOKS {
            now += Duration::from_secs(60);
            let next = self.look(&memory, now);
            // The controller is killed after so many writes, and its memory is gone.
            let crash = self.chance();
            let crashes = look < CRASHES && crash.is_multiple_of(4);
            let writes = if crashes { usize::from(crash / 4) } else { usize::MAX };
            memory.note_step(&next.waits, next.looks.clone(), now);
            for write in next.writes.iter().take(writes) {
                let came = self.apply(write);
                memory.note(&write.key(), came, now);
            }
            let Some(owner) = &mut self.owner else { return };
            if writes < next.writes.len() {
                memory = Memory::default();
            } else if let Some(status) = next.status {
                owner["status"] = status;
            }
            self.pass();
            // An object that comes after the last look belongs to nobody.
            if !report::is_ending(&self.observed(&BTreeSet::new())) && (self.plot.endless || self.chance() % 4 == 1) {
                self.arrive();
            }
        }
        panic!("it does not end");
    }
}

fn reference(kind: &str, name: &str, uid: String) -> OwnerReference {
    let (api_version, controller) = (Names::api_version(), Some(false));
    OwnerReference { api_version, kind: kind.to_owned(), name: name.to_owned(), uid, controller }
}

/// Makes an object that some of the present groups own; `names` are the names of their GroupOwners.
fn live(number: usize, seed: &Seed, made: &[Picks], names: &[String]) -> Live {
    let own = seed.owners.iter().filter(|group| made.get(**group).is_some_and(|picks| picks.0 == seed.kind));
    let mut owner_references: Vec<_> =
        own.map(|group| reference("GroupOwner", &names[*group], format!("group-{group}"))).collect();
    let mut is_anothers = seed.is_anothers;
    if is_anothers {
        owner_references.push(reference("Other", "x", "other".to_owned()));
    }
    for (place, foreign) in seed.foreign.iter().enumerate() {
        let uid = format!("foreign-{place}");
        let (owner, points_to_nothing) = match *foreign {
            Foreign::Dangling(group, version) => {
                let name = names.get(group);
                let owner = reference("GroupOwner", name.map_or("none", String::as_str), uid);
                (OwnerReference { api_version: format!("{GROUP}/{version}"), ..owner }, name.is_some())
            }
            Foreign::OtherApiGroup(group) => {
                let owner = reference("GroupOwner", names.get(group).map_or("none", String::as_str), uid);
                (OwnerReference { api_version: "example.com/v1".to_owned(), ..owner }, false)
            }
            Foreign::OtherGroup => (reference("GroupOwner", "another", uid), false),
            Foreign::GlobalOwner => (reference("GlobalOwner", "o", "owner".to_owned()), false),
            Foreign::Nothing => (OwnerReference::default(), false),
        };
        is_anothers |= !points_to_nothing;
        owner_references.push(owner);
    }
    let metadata = Metadata {
        name: format!("x{number}"),
        uid: format!("uid-{number}"),
        resource_version: "1".to_owned(),
        owner_references,
        labels: BTreeMap::from([("tier".to_owned(), format!("t{}", seed.tier))]),
        ..Metadata::default()
    };
    let object = Object { metadata, opted_out: seed.opted_out };
    let (refusals, held) = (seed.refusals, seed.held);
    Live { object, kind: seed.kind, tier: seed.tier, is_anothers, is_late: false, refusals, held }
}

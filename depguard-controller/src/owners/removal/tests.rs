//! Removals of random worlds, played against what an API server would make of each write, and broken off anywhere.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use depguard_core::owners::{EMPTY, RELEASED};
use depguard_core::{GroupVersionResource, Home, Rule};
use depguard_kcp::{Metadata, OwnerReference};
use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::owners::api::{FINALIZER, GLOBAL_OWNER, Names};
use crate::owners::keep::make_role;
use crate::owners::observed::{GlobalOwner, GroupOwner, Guard, Listing, Object, Role};
use crate::owners::spec::{self, group_name};
use crate::owners::write::{Next, Write};

const KINDS: usize = 4;
const TIERS: u8 = 3;
const ALL_TIERS: u8 = (1 << TIERS) - 1;
/// More looks than any of these removals needs.
const LOOKS: usize = 400;
/// The looks in which it may be killed: who is always killed before the first write never ends.
const CRASHES: usize = 200;

/// What a world is made of.
#[derive(Debug, Clone)]
struct Plot {
    /// The entries that are listed.
    listed: Vec<Picks>,
    /// Those that were listed when the GroupOwners were made, where that is something else.
    before: Option<Vec<Picks>>,
    by_rules: bool,
    /// Dependent and target kinds of the rules.
    rules: Vec<(usize, usize)>,
    objects: Vec<Seed>,
    /// The groups that have no role yet.
    roleless: BTreeSet<usize>,
    orphan: Orphan,
    /// What chance decides: how many writes are done before the next crash, and what a watch has not seen yet.
    chances: Vec<u8>,
}

/// The kind that an entry selects, and of which tiers: one bit each.
type Picks = (usize, u8);

#[derive(Debug, Clone)]
struct Seed {
    kind: usize,
    tier: u8,
    /// The groups that own it, as far as they are of its kind.
    owners: BTreeSet<usize>,
    opted_out: bool,
    is_anothers: bool,
    /// How often its deletion is refused.
    refusals: u8,
    /// How many looks its finalizers hold it.
    held: u8,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Orphan {
    No,
    Policy,
    /// The collector's finalizer is there.
    Finalizer,
    /// The collector was there already: the GroupOwners' references are gone, and so is its finalizer.
    Collected,
}

fn plot() -> impl Strategy<Value = Plot> {
    let seed = (
        0..KINDS,
        0..TIERS,
        prop::collection::btree_set(0..5_usize, 0..3),
        prop::bool::weighted(0.1),
        prop::bool::weighted(0.1),
        prop_oneof![3 => Just(0_u8), 1 => 1..4_u8],
        prop_oneof![2 => Just(0_u8), 1 => 1..4_u8],
    );
    let seed = seed.prop_map(|(kind, tier, owners, opted_out, is_anothers, refusals, held)| Seed {
        kind,
        tier,
        owners,
        opted_out,
        is_anothers,
        refusals,
        held,
    });
    let orphan = prop_oneof![
        6 => Just(Orphan::No), 1 => Just(Orphan::Policy), 1 => Just(Orphan::Finalizer), 1 => Just(Orphan::Collected)
    ];
    let picks = prop::collection::vec((0..KINDS, prop_oneof![1 => Just(ALL_TIERS), 2 => 1..ALL_TIERS]), 0..5);
    let before = prop_oneof![
        2 => Just(None),
        1 => picks.clone().prop_map(Some),
    ];
    (
        (picks, before),
        any::<bool>(),
        prop::collection::vec((0..KINDS, 0..KINDS), 0..5),
        prop::collection::vec(seed, 0..14),
        prop_oneof![2 => Just(BTreeSet::new()), 1 => prop::collection::btree_set(0..5_usize, 0..5)],
        orphan,
        prop::collection::vec(any::<u8>(), 1..60),
    )
        .prop_map(|((listed, before), by_rules, rules, objects, roleless, orphan, chances)| Plot {
            listed,
            before,
            by_rules,
            rules,
            objects,
            roleless,
            orphan,
            chances,
        })
}

/// A cluster, as far as a removal sees it.
struct World {
    plot: Plot,
    owner: Option<Value>,
    groups: BTreeMap<String, Value>,
    roles: BTreeMap<String, Value>,
    objects: BTreeMap<String, Live>,
    /// What is listed, and in which wave it goes.
    waves: Vec<(Picks, usize)>,
    /// What was deleted, in that order.
    deleted: Vec<String>,
    rules: Vec<Rule>,
    now: String,
    chance: usize,
}

#[derive(Debug, Clone)]
struct Live {
    object: Object,
    kind: usize,
    tier: u8,
    refusals: u8,
    held: u8,
}

fn resource(kind: usize) -> String {
    format!("kind{kind}s")
}

fn child((kind, tiers): &Picks) -> Value {
    let tiers: Vec<_> = (0..TIERS).filter(|tier| tiers & (1 << tier) != 0).map(|tier| format!("t{tier}")).collect();
    let selector = json!({"matchExpressions": [{"key": "tier", "operator": "In", "values": tiers}]});
    json!({"apiVersion": "example.com/v1", "resource": resource(*kind), "selector": selector})
}

/// Whether some group owns it.
fn is_owned(live: &Live) -> bool {
    live.object.metadata.owner_references.iter().any(|owner| owner.kind == "GroupOwner")
}

fn rule(from: usize, to: usize) -> Rule {
    let object = json!({"metadata": {"name": "r"}, "spec": {
        "dependent": {"group": "example.com", "version": "v1", "kind": "Kind", "resource": resource(from)},
        "dependencies": [{
            "group": "example.com", "version": "v1", "resource": resource(to), "fieldRef": {"path": ".spec.ref"},
        }],
    }});
    Rule::parse(Home::Kubernetes, &object).unwrap()
}

impl World {
    fn of(plot: Plot) -> Self {
        let children = |picks: &[Picks]| json!({"childResources": picks.iter().map(child).collect::<Vec<_>>()});
        let policy = if plot.orphan == Orphan::Policy { "Orphan" } else { "Delete" };
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
        let entries = spec::entries(&owner["spec"]).unwrap();
        let rules: Vec<_> = plot.rules.iter().map(|(from, to)| rule(*from, *to)).collect();
        let kinds: Vec<_> = entries.iter().map(|entry| entry.resource.group_resource()).collect();
        let ordered = order::waves(spec::order(&owner["spec"]), &kinds, &rules).waves;
        let wave = |index| ordered.iter().position(|wave| wave.contains(&index)).unwrap();
        let waves = plot.listed.iter().enumerate().map(|(index, picks)| (*picks, wave(index))).collect();
        let made = plot.before.as_ref().unwrap_or(&plot.listed).clone();
        let entries = spec::entries(&children(&made)).unwrap();
        let mut groups = BTreeMap::new();
        for (index, entry) in entries.iter().enumerate() {
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
        let names: Vec<_> = entries.iter().map(|entry| group_name("o", "owner", entry)).collect();
        let objects = plot.objects.iter().enumerate().map(|(number, seed)| {
            let reference = |kind: &str, name: &str, uid: String| OwnerReference {
                api_version: Names::api_version(),
                kind: kind.to_owned(),
                name: name.to_owned(),
                uid,
                controller: Some(false),
            };
            let own = seed.owners.iter().filter(|group| made.get(**group).is_some_and(|picks| picks.0 == seed.kind));
            let mut owner_references: Vec<_> =
                own.map(|group| reference("GroupOwner", &names[*group], format!("group-{group}"))).collect();
            if seed.is_anothers {
                owner_references.push(reference("Other", "x", "other".to_owned()));
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
            let live = Live { object, kind: seed.kind, tier: seed.tier, refusals: seed.refusals, held: seed.held };
            (format!("uid-{number}"), live)
        });
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
            now,
            chance: 0,
        };
        let observed = world.observed(&BTreeSet::new());
        for (index, (name, entry)) in names.iter().zip(&entries).enumerate() {
            if !world.plot.roleless.contains(&index) {
                world.apply(&make_role(&observed, name, entry).unwrap());
            }
        }
        world
    }

    fn chance(&mut self) -> u8 {
        self.chance += 1;
        self.plot.chances[self.chance % self.plot.chances.len()]
    }

    fn observed(&mut self, lists: &BTreeSet<GroupVersionResource>) -> Observed {
        let entries = self.resources();
        let mut listings = BTreeMap::new();
        for gvr in entries {
            let consistent = lists.contains(&gvr);
            // Each role lets all objects of its resource be seen, whichever group they are in.
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
        Observed {
            guard: Guard::InForce,
            now: self.now.clone(),
            owner: GlobalOwner::read(self.owner.as_ref().unwrap()).unwrap(),
            groups: self.groups.values().map(|group| GroupOwner::read(group).unwrap()).collect(),
            roles: self.roles.values().map(|role| Role::read(role).unwrap()).collect(),
            listings,
            rules: self.rules.clone(),
            broken_rules: Vec::new(),
            precreated_roles: false,
        }
    }

    /// What an API server makes of a write; what no removal may do fails.
    fn apply(&mut self, write: &Write) -> Came {
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
                assert!(self.left_of(&uid).is_empty(), "{uid} is marked, and has {:?}", self.left_of(&uid));
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
            Write::Event(_) => {}
            other => panic!("no removal writes {other:?}"),
        }
        Came::Done
    }

    fn delete(&mut self, uid: &str) -> Came {
        assert_eq!(self.plot.orphan, Orphan::No, "a released object is deleted");
        let Some(live) = self.objects.get(uid) else { return Came::Done };
        assert!(is_owned(live), "{live:?} is nobody's");
        let mine = self.wave_of(live).unwrap_or_else(|| panic!("{live:?} stays"));
        for other in self.objects.values().filter(|other| is_owned(other)) {
            let wave = self.wave_of(other).unwrap_or(mine);
            assert!(wave >= mine, "{uid} goes before {other:?}");
        }
        let live = self.objects.get_mut(uid).unwrap();
        if live.refusals > 0 {
            live.refusals -= 1;
            return Came::Refused("not yet".to_owned());
        }
        if live.held == 0 {
            self.objects.remove(uid);
            self.deleted.push(uid.to_owned());
        } else {
            live.object.metadata.deletion_timestamp = Some("2026-01-01T00:00:00Z".to_owned());
        }
        Came::Done
    }

    fn resources(&self) -> BTreeSet<GroupVersionResource> {
        let made = self.groups.values().map(|group| spec::entry_of_group(&group["spec"]).unwrap().resource);
        let owner = self.owner.as_ref().unwrap();
        made.chain(spec::entries(&owner["spec"]).unwrap().into_iter().map(|entry| entry.resource)).collect()
    }

    /// In which wave an object that is owned is to go; `None`: it stays.
    fn wave_of(&self, live: &Live) -> Option<usize> {
        let stays = live.object.opted_out || live.object.is_owned_by("other");
        let selects = |(kind, tiers): &Picks| *kind == live.kind && tiers & (1 << live.tier) != 0;
        let waves = self.waves.iter().filter(|(picks, _)| selects(picks)).map(|(_, wave)| *wave);
        waves.min().filter(|_| !stays)
    }

    fn left_of(&self, group: &str) -> Vec<&str> {
        let left = self.objects.values().filter(|live| live.object.is_owned_by(group));
        left.map(|live| live.object.uid()).collect()
    }

    /// Finalizers are done at some time.
    fn pass(&mut self) {
        self.objects.retain(|_, live| {
            if live.object.is_deleting() {
                live.held = live.held.saturating_sub(1);
            }
            !live.object.is_deleting() || live.held > 0
        });
    }

    fn look(&mut self, memory: &Memory, now: Instant) -> Next {
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

    /// What comes next where all was listed just now.
    fn look_whole(&mut self, memory: &Memory, now: Instant) -> Next {
        let all = self.resources();
        next(&self.observed(&all), memory, now)
    }

    /// Goes on until the GlobalOwner is gone.
    fn play(&mut self) {
        let (mut memory, mut now) = (Memory::default(), Instant::now());
        for look in 0..LOOKS {
            now += Duration::from_secs(60);
            let next = self.look(&memory, now);
            // Killed after so many writes: those that were under way may be done or not, and what was remembered is gone.
            let crash = self.chance();
            let crashes = look < CRASHES && crash.is_multiple_of(4);
            let writes = if crashes { usize::from(crash / 4) } else { usize::MAX };
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
        }
        panic!("it does not end");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    #[test]
    fn a_removal_keeps_its_order_and_ends_wherever_it_is_broken_off(plot in plot()) {
        let mut world = World::of(plot);
        let before = world.objects.clone();
        world.play();
        for (uid, live) in &before {
            let goes = is_owned(live) && world.wave_of(live).is_some() && world.plot.orphan == Orphan::No;
            prop_assert_eq!(world.objects.contains_key(uid), !goes, "{}", uid);
        }
        prop_assert!(!world.objects.values().any(is_owned), "{:?}", world.objects);
    }
}

fn held(refusals: u8, held: u8) -> Seed {
    Seed { kind: 0, tier: 0, owners: BTreeSet::from([0]), opted_out: false, is_anothers: false, refusals, held }
}

fn removing(objects: Vec<Seed>) -> World {
    changed(vec![(0, ALL_TIERS), (1, ALL_TIERS)], None, objects)
}

/// A removal whose list was changed just before.
fn changed(listed: Vec<Picks>, before: Option<Vec<Picks>>, objects: Vec<Seed>) -> World {
    let (rules, roleless, chances) = (vec![], BTreeSet::new(), vec![1]);
    World::of(Plot { listed, before, by_rules: false, rules, objects, roleless, orphan: Orphan::No, chances })
}

/// Of this kind and tier, and owned by this group.
fn owned(kind: usize, tier: u8, group: usize) -> Seed {
    Seed { kind, tier, owners: BTreeSet::from([group]), ..held(0, 0) }
}

/// The reasons of the events among some writes.
fn reasons(next: &Next) -> Vec<&str> {
    let events = next.writes.iter().filter_map(|write| match write {
        Write::Event(event) => event["reason"].as_str(),
        _ => None,
    });
    events.collect()
}

#[test]
fn what_was_refused_is_told_with_the_words_of_the_refusal_the_first_few_and_how_many() {
    let mut world = removing((0..30).map(|_| held(9, 0)).collect());
    let (mut memory, now) = (Memory::default(), Instant::now());
    let first = world.look_whole(&memory, now);
    assert_eq!(reasons(&first), ["WaveBegun"]);
    let status = first.status.unwrap();
    assert_eq!((&status["phase"], &status["wave"], &status["waves"]), (&json!("Removing"), &json!(1), &json!(2)));
    assert_eq!((&status["remaining"], status.get("stuck")), (&json!(30), None));
    world.owner.as_mut().unwrap()["status"] = status;
    for number in 0..30 {
        memory.note(&format!("uid-{number}"), Came::Refused("é".repeat(5000)), now);
    }
    let stuck = world.look_whole(&memory, now);
    assert_eq!(reasons(&stuck), ["Stuck"]);
    assert!(stuck.writes.iter().all(|write| matches!(write, Write::Event(_))), "asked again at once");
    let status = stuck.status.unwrap();
    assert_eq!((&status["stuckCount"], status["stuck"].as_array().unwrap().len()), (&json!(30), 20));
    assert_eq!(status["stuck"][0]["message"].as_str().unwrap().chars().count(), 500);
    assert_eq!(status["conditions"][0]["reason"], "Stuck");
    // Told once, and no event more while nothing changes.
    world.owner.as_mut().unwrap()["status"] = status;
    assert_eq!(reasons(&world.look_whole(&memory, now)), [""; 0]);
}

#[test]
fn an_object_that_its_finalizers_hold_for_long_is_told_with_their_names() {
    let mut world = removing(vec![held(0, 3)]);
    let live = world.objects.get_mut("uid-0").unwrap();
    live.object.metadata.deletion_timestamp = Some("2026-01-01T00:00:00Z".to_owned());
    live.object.metadata.finalizers = vec!["example.com/backup".to_owned()];
    let memory = Memory::default();
    let mut told = |now: &str| {
        now.clone_into(&mut world.now);
        world.look_whole(&memory, Instant::now()).status.unwrap()["stuck"][0]["message"].clone()
    };
    assert_eq!(told("2026-01-01T00:00:30Z"), Value::Null);
    assert!(told("2026-01-01T00:00:31Z").as_str().unwrap().contains("example.com/backup"));
}

#[test]
fn a_group_that_is_listed_no_more_is_released_and_nothing_of_it_is_deleted() {
    let mut world = removing(vec![held(0, 0)]);
    let spec = &mut world.owner.as_mut().unwrap()["spec"];
    spec["childResources"].as_array_mut().unwrap().remove(0);
    let next = world.look_whole(&Memory::default(), Instant::now());
    assert!(next.writes.iter().any(|write| matches!(write, Write::Release { .. })), "{next:?}");
    assert!(!next.writes.iter().any(|write| matches!(write, Write::DeleteObject { .. })), "{next:?}");
}

/// The ClusterRoles that are made.
fn made(next: &Next) -> Vec<&str> {
    let made = next.writes.iter().filter_map(|write| match write {
        Write::CreateRole(role) => role["metadata"]["name"].as_str(),
        _ => None,
    });
    made.collect()
}

#[test]
fn roles_that_are_missing_are_made_and_one_that_cannot_be_is_told() {
    for orphan in [Orphan::No, Orphan::Policy] {
        let mut world = removing(vec![held(0, 0)]);
        world.plot.orphan = orphan;
        let policy = if orphan == Orphan::No { "Delete" } else { "Orphan" };
        world.owner.as_mut().unwrap()["spec"]["deletionPolicy"] = json!(policy);
        world.roles.clear();
        let (mut memory, now) = (Memory::default(), Instant::now());
        let names: Vec<_> = world.groups.keys().cloned().collect();
        // That of a later wave, too.
        assert_eq!(made(&world.look(&memory, now)), names, "{orphan:?}");
        for name in &names {
            let [_, key] = Write::creation_keys(name);
            memory.note(&key, Came::Refused("may not escalate".to_owned()), now);
        }
        let next = world.look(&memory, now);
        assert_eq!(made(&next), [""; 0]);
        let told = next.status.unwrap()["stuck"][0]["message"].as_str().unwrap().to_owned();
        assert!(told.contains("403 Forbidden") && told.ends_with("may not escalate"), "{told}");
    }
}

#[test]
fn no_role_is_made_where_somebody_else_makes_them() {
    let mut world = removing(vec![held(0, 0)]);
    world.roles.clear();
    let lists = world.resources();
    let mut observed = world.observed(&lists);
    observed.precreated_roles = true;
    assert_eq!(made(&next(&observed, &Memory::default(), Instant::now())), [""; 0]);
}

/// What the list was when the GroupOwners were made: tier 0 of kind 0, kind 1, and tier 1 of kind 0.
const BEFORE: [Picks; 3] = [(0, 1), (1, ALL_TIERS), (0, 2)];

#[test]
fn what_is_listed_goes_in_the_order_of_the_list_whichever_group_owns_it_yet() {
    for (listed, order) in [
        (vec![(0, 2), (1, ALL_TIERS), (0, 1)], ["uid-2", "uid-1", "uid-0"].as_slice()),
        // The number of what is dropped passes to the next of its kind.
        (vec![(1, ALL_TIERS), (0, 2)], &["uid-1", "uid-2"]),
        // The last has no GroupOwner yet.
        (vec![(0, 4), (0, 2), (1, ALL_TIERS), (0, 1)], &["uid-2", "uid-1", "uid-0"]),
        (vec![(1, ALL_TIERS)], &["uid-1"]),
    ] {
        let objects = vec![owned(0, 0, 0), owned(1, 0, 1), owned(0, 1, 2)];
        let mut world = changed(listed.clone(), Some(BEFORE.to_vec()), objects);
        world.play();
        assert_eq!(world.deleted, order, "{listed:?}");
        assert!(!world.objects.values().any(is_owned), "{listed:?}");
    }
}

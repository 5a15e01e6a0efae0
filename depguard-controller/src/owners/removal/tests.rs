//! Removals of random worlds, played against a model of an API server, and broken off anywhere.

use std::collections::BTreeSet;
use std::time::Duration;

use depguard_core::owners::{EMPTY, entries};
use proptest::prelude::*;
use serde_json::{Value, json};

use self::plot::*;
use self::world::*;
use super::failures::LONG;
use super::*;
use crate::owners::write::{Next, Write};

mod plot;
mod world;

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    #[test]
    fn a_removal_keeps_its_order_and_ends_wherever_it_is_broken_off(plot in plot()) {
        let mut world = World::from_plot(plot);
        let before = world.objects.clone();
        let is_removed = world.plot.orphan == Orphan::No;
        world.play();
        // This includes objects that were not adopted yet, whatever references they carry.
        for (uid, live) in &before {
            let goes = world.wave_of(live).is_some() && is_removed;
            prop_assert_eq!(world.objects.contains_key(uid), !goes, "{}", uid);
        }
        prop_assert!(!world.objects.values().any(is_owned), "{:?}", world.objects);
        for live in world.objects.values().filter(|live| world.wave_of(live).is_some() && is_removed) {
            let name = format!("Kind {}", live.object.metadata.name);
            let names = |message: &String| message.split(": ").last().unwrap().split(", ").any(|told| told == name);
            prop_assert!(world.told.iter().any(names), "{} stays, and {:?}", name, world.told);
        }
    }
}

#[test]
fn a_removal_ends_though_objects_are_made_all_the_while() {
    let mut world = removing(vec![held(0, 1), Seed { owners: BTreeSet::new(), ..held(0, 0) }]);
    world.plot.late = vec![held(0, 0)];
    world.plot.endless = true;
    world.play();
    assert!(world.objects.values().all(|live| live.is_late), "{:?}", world.objects);
    assert!(!world.told.is_empty());
}

#[test]
fn what_a_global_owner_that_stays_selects_too_is_not_adopted_to_be_removed() {
    for stays in [false, true] {
        let mut world = removing(vec![Seed { owners: BTreeSet::new(), ..held(0, 0) }]);
        if stays {
            world.others = entries(&json!({"childResources": [child(&(0, ALL_TIERS))]})).unwrap();
        }
        world.play();
        assert_eq!(world.objects.len(), usize::from(stays));
    }
}

#[test]
fn a_group_is_marked_only_when_all_that_was_selected_is_owned_and_says_what_could_not_be_adopted() {
    let mut world = removing(vec![Seed { owners: BTreeSet::new(), ..held(0, 0) }]);
    let (mut memory, now) = (Memory::default(), Instant::now());
    let first = world.look_whole(&memory, now);
    assert!(
        matches!(first.writes.first(), Some(Write::Adopt { group_uid, .. }) if group_uid == "group-0"),
        "{first:?}"
    );
    memory.note_step(&first.waits, first.looks, now);
    memory.note("uid-0", WriteOutcome::Refused("a policy wants something else".to_owned()), now);
    let refused = world.look_whole(&memory, now);
    assert!(refused.writes.iter().all(|write| matches!(write, Write::Event(_))), "{refused:?}");
    let told = refused.status.unwrap()["stuck"][0]["message"].as_str().unwrap().to_owned();
    assert_eq!(told, "it could not be adopted: a policy wants something else");
}

#[test]
fn a_removal_that_waits_for_rules_says_so_and_one_that_needs_no_order_does_not_wait() {
    let mut world = begun(vec![held(0, 0)]);
    let all = world.resources();
    let (mut memory, now) = (Memory::default(), Instant::now());
    let mut step = |observed: &crate::owners::snapshot::OwnerSnapshot, seconds| {
        let now = now + Duration::from_secs(seconds);
        let next = next(observed, &memory, now);
        memory.note_step(&next.waits, next.looks.clone(), now);
        next
    };
    let mut observed = world.observed(&all);
    observed.unordered = Some("dependencyrules can't be listed: 403".to_owned());
    assert_eq!(step(&observed, 0).status.unwrap().get("stuck"), None);
    let long = step(&observed, 30);
    assert_eq!(reasons(&long), ["Stuck"]);
    assert!(long.status.unwrap()["stuck"][0]["message"].as_str().unwrap().contains("can't be listed: 403"));
    observed.owner.deletion_policy = DeletionPolicy::Orphan;
    assert!(step(&observed, 31).writes.iter().any(|write| matches!(write, Write::Release { .. })));
}

#[test]
fn whatever_is_waited_for_long_is_stuck_also_where_nobody_refused_it() {
    let (mut memory, now) = (Memory::default(), Instant::now());
    let mut world = begun(vec![held(0, 0)]);
    let stuck = |world: &mut World, memory: &mut Memory, seconds| {
        let now = now + Duration::from_secs(seconds);
        let next = world.look_whole(memory, now);
        memory.note_step(&next.waits, next.looks, now);
        next.status.unwrap()["stuck"][0].clone()
    };
    // Each deletion is asked for, and the object changes before it is carried out.
    assert_eq!(stuck(&mut world, &mut memory, 0), Value::Null);
    assert_eq!(stuck(&mut world, &mut memory, 29), Value::Null);
    assert_eq!(stuck(&mut world, &mut memory, 30)["name"], "x0");
    assert_eq!(memory.next(now), Some(now + LONG));
    // A GroupOwner that is held after all groups are done.
    world.objects.clear();
    for group in world.groups.values_mut() {
        group["status"]["phase"] = json!(EMPTY);
        group["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:09Z");
        group["metadata"]["finalizers"] = json!(["example.com/audit"]);
    }
    world.owner.as_mut().unwrap()["status"] = json!({"phase": REMOVING, "waves": 2});
    assert_eq!(stuck(&mut world, &mut memory, 100), Value::Null);
    let held = stuck(&mut world, &mut memory, 130);
    assert_eq!(held["kind"], "GroupOwner");
    assert!(held["message"].as_str().unwrap().contains("example.com/audit"), "{held}");
}

fn held(refusals: u8, held: u8) -> Seed {
    Seed {
        kind: 0,
        tier: 0,
        owners: BTreeSet::from([0]),
        opted_out: false,
        is_anothers: false,
        foreign: vec![],
        refusals,
        held,
    }
}

fn removing(objects: Vec<Seed>) -> World {
    changed(vec![(0, ALL_TIERS), (1, ALL_TIERS)], None, objects)
}

/// Returns a removal in which all groups were looked at and are marked.
fn begun(objects: Vec<Seed>) -> World {
    let mut world = removing(objects);
    world.groups.values_mut().for_each(|group| group["status"]["phase"] = json!(REMOVING));
    world
}

/// Returns a removal whose list was changed just before.
fn changed(listed: Vec<Picks>, before: Option<Vec<Picks>>, objects: Vec<Seed>) -> World {
    let (rules, roleless, chances) = (vec![], BTreeSet::new(), vec![1]);
    let (late, orphan) = (vec![], Orphan::No);
    let endless = false;
    World::from_plot(Plot { listed, before, by_rules: false, rules, objects, roleless, orphan, late, endless, chances })
}

/// Returns an object of this kind and tier that this group owns.
fn owned(kind: usize, tier: u8, group: usize) -> Seed {
    Seed { kind, tier, owners: BTreeSet::from([group]), ..held(0, 0) }
}

/// Returns the reasons of the events among the writes.
fn reasons(next: &Next) -> Vec<&str> {
    let events = next.writes.iter().filter_map(|write| match write {
        Write::Event(event) => event["reason"].as_str(),
        _ => None,
    });
    events.collect()
}

#[test]
fn what_was_refused_is_told_with_the_words_of_the_refusal_the_first_few_and_how_many() {
    let mut world = begun((0..30).map(|_| held(9, 0)).collect());
    let (mut memory, now) = (Memory::default(), Instant::now());
    let first = world.look_whole(&memory, now);
    assert_eq!(reasons(&first), ["WaveBegun"]);
    let status = first.status.unwrap();
    assert_eq!((&status["phase"], &status["wave"], &status["waves"]), (&json!("Removing"), &json!(1), &json!(2)));
    assert_eq!((&status["remaining"], status.get("stuck")), (&json!(30), None));
    world.owner.as_mut().unwrap()["status"] = status;
    for number in 0..30 {
        memory.note(&format!("uid-{number}"), WriteOutcome::Refused("é".repeat(5000)), now);
    }
    let stuck = world.look_whole(&memory, now);
    assert_eq!(reasons(&stuck), ["Stuck"]);
    assert!(stuck.writes.iter().all(|write| matches!(write, Write::Event(_))), "asked again at once");
    let status = stuck.status.unwrap();
    assert_eq!((&status["stuckCount"], status["stuck"].as_array().unwrap().len()), (&json!(30), 20));
    assert_eq!(status["stuck"][0]["message"].as_str().unwrap().chars().count(), 500);
    assert_eq!(status["conditions"][0]["reason"], "Stuck");
    // The event is sent once, and not again while nothing changes.
    world.owner.as_mut().unwrap()["status"] = status;
    assert_eq!(reasons(&world.look_whole(&memory, now)), [""; 0]);
}

#[test]
fn an_object_that_its_finalizers_hold_for_long_is_told_with_their_names() {
    let mut world = begun(vec![held(0, 3)]);
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

/// Returns the ClusterRoles that are made.
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
        // Also the role of a later wave.
        assert_eq!(made(&world.look(&memory, now)), names, "{orphan:?}");
        for name in &names {
            let [_, key] = Write::creation_keys(name);
            memory.note(&key, WriteOutcome::Refused("may not escalate".to_owned()), now);
        }
        let next = world.look(&memory, now);
        assert_eq!(made(&next), [""; 0]);
        let told = next.status.unwrap()["stuck"][0]["message"].as_str().unwrap().to_owned();
        assert!(told.contains("403 Forbidden") && told.ends_with("may not escalate"), "{told}");
    }
}

#[test]
fn objects_that_cannot_be_listed_are_told_of_once_a_right_had_time_to_be_in_effect() {
    let mut world = begun(vec![held(0, 0)]);
    world.roles.clear();
    let lists = world.resources();
    let mut observed = world.observed(&lists);
    observed.precreated_roles = true;
    let (mut memory, now) = (Memory::default(), Instant::now());
    let mut told = |seconds| {
        let now = now + Duration::from_secs(seconds);
        let next = next(&observed, &memory, now);
        memory.note_step(&next.waits, next.looks.clone(), now);
        next.status.unwrap()["stuck"][0]["message"].clone()
    };
    assert_eq!((told(0), told(29)), (Value::Null, Value::Null));
    assert_eq!(told(30), "its objects can't be listed: 403 Forbidden");
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

/// List when the GroupOwners were made: tier 0 of kind 0, kind 1, and tier 1 of kind 0.
const BEFORE: [Picks; 3] = [(0, 1), (1, ALL_TIERS), (0, 2)];

#[test]
fn what_is_listed_goes_in_the_order_of_the_list_whichever_group_owns_it_yet() {
    for (listed, order) in [
        (vec![(0, 2), (1, ALL_TIERS), (0, 1)], ["uid-2", "uid-1", "uid-0"].as_slice()),
        // The number of a dropped entry passes to the next entry of its kind.
        (vec![(1, ALL_TIERS), (0, 2)], &["uid-1", "uid-2"]),
        // The first entry has no GroupOwner yet.
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

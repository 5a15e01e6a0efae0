//! Search through concurrent events: locks are made, changed and deleted, tables are cleaned. A review must not pass if
//! a lock, the same one or one after another, stood all the while.
//!
//! The real code makes each step, one request at a time, in a random order. An API server gives a request up after
//! [`LIFE`] ticks and does not store its object then.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use depguard_core::ControlPlane;
use depguard_core::locks::{Entry, Lock, LockEvaluation, LockKind, LockTable, TableGc, tables_of};
use depguard_core::protocol::{Answer, Ask, ObjectReview};
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::world::*;

/// Locks of the search; each stands in a table of its own.
const LOCKS: [(LockKind, &str); 2] = [(LockKind::ObjectLock, "a"), (LockKind::ClusterObjectLock, "b")];
/// Lifetime of a request.
const LIFE: u64 = 20;

/// Review in progress, one request at a time.
struct Running<'r> {
    evaluation: LockEvaluation<'r>,
    asks: VecDeque<Ask>,
}

impl<'r> Running<'r> {
    fn begin(world: &World, review: &ObjectReview<'r>) -> Self {
        Self { evaluation: LockEvaluation::begin(ControlPlane::Kubernetes, review, world.now), asks: VecDeque::new() }
    }

    /// Sends one request. Returns true if the review has no more requests.
    fn step(&mut self, world: &mut World) -> bool {
        if self.asks.is_empty() {
            self.asks.extend(self.evaluation.asks());
        }
        let Some(ask) = self.asks.pop_front() else { return true };
        let (status, body) = world.serve(&ask);
        let id = match ask {
            Ask::Get(query) => query.id,
            Ask::Send(send) => send.id,
        };
        self.evaluation.answer(id, Answer::Response { status, body: body.to_string().as_bytes() });
        false
    }
}

/// Writer that creates or changes a lock: on either target, or on both.
struct Writer<'r> {
    running: Running<'r>,
    path: String,
    object: Value,
    /// Object that the write replaces. If it was changed meanwhile, the write is dropped, because an API server would
    /// begin anew.
    old: Option<Value>,
    begun: u64,
}

struct Reviewer<'r> {
    running: Running<'r>,
    /// Set if the object was locked at each moment since the review began.
    locked: bool,
}

/// Controller between two of its requests.
enum Cleaner {
    Idle,
    Examines { table: LockTable, entry: Entry },
    Writes { table: LockTable, cleaned: LockTable },
}

fn object((kind, name): (LockKind, &str), targets: usize) -> Value {
    lock(kind, name, spec(kind, targets))
}

fn spec(kind: LockKind, targets: usize) -> Value {
    let target = |name: &str| {
        let mut target = json!({"group": "compute.example.com", "resource": "vms", "name": name});
        if kind == LockKind::ClusterObjectLock {
            target["namespace"] = "default".into();
        }
        target
    };
    let targets = match targets % 3 {
        0 => vec![target("vm-1")],
        1 => vec![target("vm-2")],
        _ => vec![target("vm-1"), target("vm-2")],
    };
    json!({"targets": targets, "holder": {"users": ["alice"]}})
}

/// Carries out the drawn steps. Returns an error if a review let a locked object go, or else the number of reviews
/// about a locked one.
fn search(choices: &[u8], after: u64) -> Result<usize, String> {
    let mut world = World::new(ControlPlane::Kubernetes);
    let (mut now, mut reviewed) = (0, 0);
    let mut ages = TableGc::new(Duration::from_secs(after));
    let mut writers: Vec<Option<Writer<'_>>> = vec![None, None];
    let (mut reviewer, mut cleaner): (Option<Reviewer<'_>>, _) = (None, Cleaner::Idle);
    let deletion = by("bob", &[], delete(vm())).to_string();
    // Reviews borrow the posted bytes.
    let mut posted = BTreeMap::new();
    for (lock, old, new) in writes(&[0, 1, 2], &[None, Some(0), Some(1), Some(2)]) {
        let review = match old {
            None => create(object(lock, new)),
            Some(old) => update(object(lock, old), object(lock, new)),
        };
        posted.insert((lock, old, new), about(lock.0, review).to_string());
    }
    let stored = |world: &World, (kind, name): (LockKind, &str)| world.objects.get(&path_of(kind, name)).cloned();
    let is_locked = |world: &World| {
        LOCKS.into_iter().any(|lock| stored(world, lock).is_some_and(|stored| stored["spec"] != spec(lock.0, 1)))
    };
    // Returns the entry that the stored lock needs in this table, in place of a given entry.
    let asked = |world: &World, table: &LockTable, entry: &Entry| {
        let (kind, name) = LOCKS.into_iter().find(|(_, name)| entry.lock == *name).unwrap();
        let lock = Lock::read(kind, &stored(world, (kind, name))?);
        tables_of(&lock).remove(table.name())?.pop()
    };
    let tables = LOCKS.map(|lock| tables_of(&Lock::read(lock.0, &object(lock, 0))).into_keys().next().unwrap());
    assert_ne!(tables[0], tables[1]);
    for &choice in choices {
        now += 1;
        let argument = usize::from(choice >> 4);
        match choice & 0xf {
            // Writers come more often than the others; there are two.
            which @ 0..6 => {
                let slot = &mut writers[usize::from(which % 2)];
                if let Some(writer) = slot {
                    let in_time = now - writer.begun < LIFE;
                    if !in_time || writer.running.step(&mut world) {
                        let Writer { running, path, object, old, .. } = slot.take().unwrap();
                        // The object is stored a while after it was allowed, or never.
                        let is_as_before = world.objects.get(&path) == old.as_ref();
                        if in_time && is_as_before && running.evaluation.decide().allowed() {
                            world.put(&path, object);
                        }
                    }
                    continue;
                }
                let lock = LOCKS[argument % 2];
                let targets = argument / 2 % 3;
                let old = stored(&world, lock);
                let before = old.as_ref().map(|old| (0..3).find(|n| old["spec"] == spec(lock.0, *n)).unwrap());
                let review = ObjectReview::parse(posted[&(lock, before, targets)].as_bytes()).unwrap();
                let running = Running::begin(&world, &review);
                let path = path_of(lock.0, lock.1);
                *slot = Some(Writer { running, path, object: object(lock, targets), old, begun: now });
            }
            6 => {
                let (kind, name) = LOCKS[argument % 2];
                world.objects.remove(&path_of(kind, name));
            }
            7..11 => {
                let Some(review) = &mut reviewer else {
                    let review = ObjectReview::parse(deletion.as_bytes()).unwrap();
                    reviewer = Some(Reviewer { running: Running::begin(&world, &review), locked: is_locked(&world) });
                    continue;
                };
                if review.running.step(&mut world) {
                    let Reviewer { running, locked } = reviewer.take().unwrap();
                    reviewed += usize::from(locked);
                    if locked && running.evaluation.decide().allowed() {
                        return Err(format!("let it go at {now}"));
                    }
                }
            }
            11..15 => {
                cleaner = match cleaner {
                    Cleaner::Idle => match world.table(&tables[argument % 2].path()) {
                        None => Cleaner::Idle,
                        Some(table) => {
                            let is_missed =
                                |entry: &Entry| !asked(&world, &table, entry).is_some_and(|asked| asked.says(entry));
                            let ripe = ages.ripe(&table, Duration::from_secs(now), is_missed);
                            let entry = ripe.get(argument % ripe.len().max(1)).cloned();
                            entry.map_or(Cleaner::Idle, |entry| Cleaner::Examines { table, entry })
                        }
                    },
                    Cleaner::Examines { table, entry } => {
                        let named = asked(&world, &table, &entry);
                        if named.as_ref().is_some_and(|named| named.says(&entry)) {
                            Cleaner::Idle
                        } else {
                            let cleaned = table.cleaned(&entry, named.as_ref());
                            cleaned.map_or(Cleaner::Idle, |cleaned| Cleaner::Writes { table, cleaned })
                        }
                    }
                    Cleaner::Writes { table, cleaned } => {
                        let path = table.name().path();
                        let current = world.table(&path);
                        if current.is_some_and(|current| current.resource_version() == table.resource_version()) {
                            if cleaned.is_empty() {
                                world.objects.remove(&path);
                            } else {
                                world.put(&path, cleaned.to_value());
                            }
                        }
                        Cleaner::Idle
                    }
                };
            }
            // Time passes.
            _ => now += LIFE / 4,
        }
        if let Some(reviewer) = &mut reviewer {
            reviewer.locked &= is_locked(&world);
        }
    }
    Ok(reviewed)
}

fn writes(new: &[usize], old: &[Option<usize>]) -> Vec<((LockKind, &'static str), Option<usize>, usize)> {
    let with_old = |lock| old.iter().flat_map(move |old| new.iter().map(move |new| (lock, *old, *new)));
    LOCKS.into_iter().flat_map(with_old).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(150))]

    #[test]
    fn an_object_that_is_locked_all_the_while_is_not_let_go(choices in prop::collection::vec(any::<u8>(), 0..600)) {
        let searched = search(&choices, LIFE);
        prop_assert!(searched.is_ok(), "{:?}", searched);
    }
}

/// Guards the search: a cleaner that removes entries too early must be found.
#[test]
fn the_search_finds_what_cleaning_too_early_does() {
    let mut state = 7_u64;
    let mut draw = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as u8
    };
    let runs: Vec<Vec<u8>> = (0..300).map(|_| (0..400).map(|_| draw()).collect()).collect();
    assert!(runs.iter().any(|choices| search(choices, 0).is_err()));
    let reviewed: usize = runs.iter().take(100).map(|choices| search(choices, LIFE).unwrap()).sum();
    assert!(reviewed > 100, "{reviewed} reviews had a lock to see");
}

/// Adds one lock after a review has read its table, and removes the other one before the review has read the other
/// table.
#[test]
fn a_lock_that_takes_over_from_another_one_is_seen() {
    let [new, old] = LOCKS;
    let mut world = World::new(ControlPlane::Kubernetes);
    world.lock(old.0, old.1, spec(old.0, 0));
    let table = tables_of(&Lock::read(old.0, &object(old, 0))).into_keys().next().unwrap();
    let mut ages = TableGc::new(Duration::from_secs(LIFE));
    for now in [0, 100] {
        ages.ripe(&world.table(&table.path()).unwrap(), Duration::from_secs(now), |_| false);
    }
    let deletion = by("bob", &[], delete(vm())).to_string();
    let review = ObjectReview::parse(deletion.as_bytes()).unwrap();
    let mut running = Running::begin(&world, &review);
    running.step(&mut world);
    let read = world.asked.last().cloned();
    assert!(read.as_ref().is_some_and(|read| !read.contains(&table.path())), "{read:?}");

    world.lock(new.0, new.1, spec(new.0, 0));
    world.objects.remove(&path_of(old.0, old.1));
    let stored = world.table(&table.path()).unwrap();
    for entry in ages.ripe(&stored, Duration::from_secs(101), |_| true) {
        world.put(&table.path(), stored.cleaned(&entry, None).unwrap().to_value());
    }
    while !running.step(&mut world) {}
    assert!(!running.evaluation.decide().allowed());
}

//! Differential tests of decisions against SQLite: random schemas of references, and random histories of changes. Rules
//! with `onDelete: Deny` and `onMissing: Deny` must decide as foreign keys with RESTRICT do, change by change; a
//! namespace that is deleted must be gone at the end if and only if its rows can be deleted in one transaction with
//! deferred keys.
//!
//! `DEPGUARD_HISTORIES` says how many histories each test plays.

mod cluster;
mod database;
mod schema;

use std::cell::RefCell;
use std::collections::BTreeMap;

use cluster::Cluster;
use database::{Check, Database};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::{Index, select};
use proptest::test_runner::TestRunner;
use schema::{Key, Kind, Mention, NAMES, NAMESPACES, Object, Reference, Schema};

/// Histories of each test, if `DEPGUARD_HISTORIES` says no other number.
const HISTORIES: u32 = 2_000;

/// Change of one object.
#[derive(Debug, Clone)]
enum Change {
    /// Creates the object, or updates it if it exists.
    Store(Object),
    Delete(Key),
}

/// Drawn form of a kind: its scope, and the targets and options of its references.
type DrawnKind = (bool, Vec<(Index, [bool; 5])>);

/// Returns schemas. In an acyclic one each kind refers to earlier kinds only.
fn schema(is_acyclic: bool) -> impl Strategy<Value = Schema> {
    let reference = (any::<Index>(), any::<[bool; 5]>());
    let kind = (prop::bool::weighted(0.7), vec(reference, 0..4));
    vec(kind, 2..5).prop_map(move |drawn| {
        let scopes: Vec<_> = drawn.iter().map(|(is_namespaced, _)| *is_namespaced).collect();
        let kind = |(number, (is_namespaced, references)): (usize, DrawnKind)| {
            let targets = if is_acyclic { number } else { scopes.len() };
            let references = references.into_iter().filter(|_| targets > 0);
            let references =
                references.map(|(target, [is_list, is_json, is_qualified, is_conditional, is_excluding])| {
                    let target = target.index(targets);
                    // Without a namespace such a reference means any namespace, which no foreign key can say.
                    let is_qualified = scopes[target] && (is_qualified || !is_namespaced);
                    Reference { target, is_list, is_json, is_qualified, is_conditional, is_excluding }
                });
            Kind { is_namespaced, references: references.collect() }
        };
        Schema { kinds: drawn.into_iter().enumerate().map(kind).collect() }
    })
}

fn key(schema: &Schema, kind: Index, namespace: &'static str, name: &'static str) -> Key {
    let kind = kind.index(schema.kinds.len());
    Key { kind, namespace: if schema.kinds[kind].is_namespaced { namespace } else { "" }, name }
}

/// Returns objects of the schema.
fn object(schema: &Schema) -> impl Strategy<Value = Object> + use<> {
    let schema = schema.clone();
    let mention = (prop::option::of(select(&NAMESPACES[..])), select(&NAMES[..]), prop::bool::weighted(0.8));
    let values = vec(vec(mention, 0..3), 3);
    (any::<Index>(), select(&NAMESPACES[..]), select(&NAMES[..]), values).prop_map(
        move |(kind, namespace, name, values)| {
            let key = key(&schema, kind, namespace, name);
            let Kind { is_namespaced, references } = &schema.kinds[key.kind];
            let values = references.iter().zip(values).map(|(reference, drawn)| {
                let mention = |(namespace, name, counts): (Option<&'static str>, &'static str, bool)| {
                    let namespace = namespace.or((!is_namespaced).then_some(NAMESPACES[0]));
                    Mention { namespace, name, counts }
                };
                drawn.into_iter().map(mention).take(if reference.is_list { 2 } else { 1 }).collect()
            });
            Object { key, values: values.collect() }
        },
    )
}

fn history() -> impl Strategy<Value = (Schema, Vec<Change>)> {
    schema(true).prop_flat_map(|schema| {
        let for_delete = schema.clone();
        let delete = (any::<Index>(), select(&NAMESPACES[..]), select(&NAMES[..]))
            .prop_map(move |(kind, namespace, name)| Change::Delete(key(&for_delete, kind, namespace, name)));
        let change = prop_oneof![3 => object(&schema).prop_map(Change::Store), 2 => delete];
        (Just(schema), vec(change, 1..40))
    })
}

/// Plays histories, and returns how often each event was counted.
fn play<S: Strategy>(
    histories: S,
    test: impl Fn(&S::Value, &mut BTreeMap<&'static str, u64>),
) -> BTreeMap<&'static str, u64> {
    let count = std::env::var("DEPGUARD_HISTORIES").map_or(HISTORIES, |count| count.parse().expect("a number"));
    let mut runner = TestRunner::new(ProptestConfig { cases: count, failure_persistence: None, ..Default::default() });
    let counts = RefCell::new(BTreeMap::new());
    let played = runner.run(&histories, |history| {
        test(&history, &mut counts.borrow_mut());
        Ok(())
    });
    played.unwrap_or_else(|error| panic!("{error}"));
    let counts = counts.into_inner();
    println!("{count} histories: {counts:?}");
    counts
}

#[test]
fn each_change_is_allowed_if_and_only_if_foreign_keys_allow_it() {
    let counts = play(history(), |(schema, changes), counts| {
        let (database, mut cluster) = (Database::new(schema, Check::AtOnce), Cluster::new(schema, "Deny"));
        for change in changes {
            let (decided, expected, events) = match change {
                Change::Store(object) if cluster.objects.contains_key(&object.key) => {
                    (cluster.store(object), database.update(object), ["update allowed", "update refused"])
                }
                Change::Store(object) => {
                    (cluster.store(object), database.insert(object), ["creation allowed", "creation refused"])
                }
                Change::Delete(key) if cluster.objects.contains_key(key) => {
                    (cluster.delete(*key), database.delete(*key), ["deletion allowed", "deletion refused"])
                }
                Change::Delete(_) => continue,
            };
            assert_eq!(decided, expected, "{change:?}");
            *counts.entry(events[usize::from(!decided)]).or_default() += 1;
        }
    });
    assert!(counts.len() == 6 && counts.values().all(|count| *count > 100), "too easy: {counts:?}");
}

#[test]
fn a_deleted_namespace_ends_if_and_only_if_deferred_keys_allow_it() {
    let world = schema(false).prop_flat_map(|schema| {
        let objects = vec(object(&schema), 1..12);
        (Just(schema), objects, any::<u64>())
    });
    let counts = play(world, |(schema, objects, turn), counts| {
        let mut stored: BTreeMap<Key, Object> = objects.iter().map(|object| (object.key, object.clone())).collect();
        let keys: Vec<_> = stored.keys().copied().collect();
        // References to nothing are left out: no foreign key would let them in.
        for object in stored.values_mut() {
            for field in 0..object.values.len() {
                let mut targets = schema.targets(object, field).into_iter();
                let reference = &schema.kinds[object.key.kind].references[field];
                object.values[field].retain(|mention| {
                    !reference.counts(mention) || targets.next().is_some_and(|target| keys.contains(&target))
                });
            }
        }
        let database = Database::new(schema, Check::AtCommit);
        assert!(database.insert_all(&stored.values().cloned().collect::<Vec<_>>()));
        let mut cluster = Cluster::new(schema, "Ignore");
        assert!(stored.values().all(|object| cluster.store(object)));

        cluster.is_terminating = true;
        let mut left: Vec<_> = keys.into_iter().filter(|key| key.namespace == NAMESPACES[0]).collect();
        // The namespace controller tries again until no attempt succeeds any more.
        let mut before = usize::MAX;
        while left.len() < before {
            before = left.len();
            let start = usize::try_from(*turn).unwrap_or_default() % before.max(1);
            left.rotate_left(start);
            left.retain(|key| !cluster.delete(*key));
        }
        let expected = database.delete_namespace();
        assert_eq!(left.is_empty(), expected, "{left:?} are left");
        *counts.entry(if expected { "ended" } else { "held up" }).or_default() += 1;
    });
    assert!(counts.len() == 2 && counts.values().all(|count| *count > 100), "too easy: {counts:?}");
}

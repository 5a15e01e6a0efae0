//! Tests of tables: their names, their entries, and which entries may be removed.

use std::collections::BTreeSet;
use std::time::Duration;

use depguard_core::Group;
use depguard_core::api::LabelSelector;
use depguard_core::locks::{Entry, Lock, LockKind, LockTable, TableError, TableGc, TableName, TableWrite, tables_of};
use depguard_core::model::{GroupResource, Namespace, Resource};
use depguard_core::protocol::{Answer, Ask};
use proptest::prelude::*;
use serde_json::json;

use crate::world;

fn name(namespace: Option<&str>, group: &str, resource: &str) -> TableName {
    let kind = GroupResource { group: Group::parse(group).unwrap(), resource: Resource::parse(resource).unwrap() };
    TableName { namespace: namespace.map(|namespace| Namespace::parse(namespace).unwrap()), kind }
}

fn entry(lock: &str, names: &[&str]) -> Entry {
    Entry { names: names.iter().map(|name| (*name).to_owned()).collect(), ..Entry::new(lock, None) }
}

/// Returns the table as an API server would return it.
fn stored(table: &LockTable, uid: &str) -> LockTable {
    let mut object = table.to_value();
    object["metadata"]["uid"] = uid.into();
    object["metadata"]["resourceVersion"] = "1".into();
    LockTable::parse(object.to_string().as_bytes()).unwrap()
}

fn any_name() -> impl Strategy<Value = TableName> {
    let label = || prop_oneof!["[a-c]{1,2}", "(cluster|ns|hash|pods)", "[a-c]{60,63}"];
    let group = || {
        let groups = prop::collection::vec(label(), 0..5).prop_map(|labels| labels.join("."));
        groups.prop_filter("a group", |group| Group::parse(group).is_ok())
    };
    (prop::option::of(label()), group(), label())
        .prop_map(|(ns, group, resource)| name(ns.as_deref(), &group, &resource))
}

proptest! {
    #[test]
    fn no_two_tables_have_one_name(a in any_name(), b in any_name()) {
        let (a_name, b_name) = (a.as_name(), b.as_name());
        prop_assert_eq!(a == b, a_name == b_name);
        for name in [&a_name, &b_name] {
            prop_assert!(name.len() <= 253);
            let is_label = |label: &str| {
                let edge = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
                label.starts_with(edge) && label.ends_with(edge) && label.chars().all(|c| edge(c) || c == '-')
            };
            prop_assert!(name.split('.').all(is_label), "{}", name);
        }
        let read = LockTable::from_value(&LockTable::new(&a).to_value()).unwrap();
        prop_assert_eq!(read.name(), &a);
    }
}

#[test]
fn what_one_table_is_called_another_is_not() {
    let long = [["a"; 31].join("").as_str(); 4].map(|part| part.repeat(2)).join(".");
    let names: Vec<_> = [
        name(None, "", "pods"),
        name(Some("pods"), "", "pods"),
        name(Some("cluster"), "", "pods"),
        name(None, "cluster", "pods"),
        name(None, "ns", "pods"),
        name(Some("a"), "b.c", "d"),
        name(Some("a"), "c", "d"),
        name(None, &long, "pods"),
        name(Some("a"), &long, "pods"),
        name(Some("b"), &long, "pods"),
    ]
    .iter()
    .map(TableName::as_name)
    .collect();
    assert_eq!(names.iter().collect::<BTreeSet<_>>().len(), names.len(), "{names:?}");
    assert_eq!((names[0].as_str(), names[1].as_str()), ("cluster.pods", "ns.pods.pods"));
    assert!(names[7].len() <= 253 && names[8].starts_with("hash.pods."), "{names:?}");
}

#[test]
fn a_table_keeps_what_it_said_until_it_is_cleaned() {
    let empty = LockTable::new(&name(Some("default"), "", "pods"));
    let one = empty.with(&[entry("a", &["p"])]).unwrap();
    let two = one.with(&[entry("a", &["q"]), entry("b", &["p"])]).unwrap();
    let said: Vec<_> = two.entries().map(|entry| (entry.lock.as_str(), entry.names.len(), entry.revision)).collect();
    assert_eq!((said, two.revision()), (vec![("a", 2, 2), ("b", 1, 2)], 2));
    let read = stored(&two, "u");
    assert_eq!(read.entries().collect::<Vec<_>>(), two.entries().collect::<Vec<_>>());
    assert_eq!((read.uid(), read.resource_version(), read.revision()), (Some("u"), Some("1"), 2));

    let seen = two.entries().next().unwrap().clone();
    let narrowed = two.cleaned(&seen, Some(&entry("a", &["q"]))).unwrap();
    let first = narrowed.entries().next().unwrap();
    assert_eq!((first.names.len(), first.revision, narrowed.revision()), (1, 2, 3));
    assert_eq!(two.cleaned(&seen, None).unwrap().entries().count(), 1);
    // Admission has written the entry since then.
    let written = two.with(&[entry("a", &[])]).unwrap();
    assert_eq!(written.cleaned(&seen, None), None);
    assert_eq!(one.cleaned(&entry("x", &[]), None), None);
}

#[test]
fn what_is_no_table_of_that_name_is_none() {
    let good = LockTable::new(&name(Some("default"), "", "pods")).with(&[entry("a", &["p"])]).unwrap().to_value();
    assert!(LockTable::from_value(&good).is_ok());
    for (pointer, value) in [
        ("/metadata/name", json!("ns.default.secrets")),
        ("/spec/namespace", json!("other")),
        ("/spec/namespace", json!(null)),
        ("/spec/resource", json!("secrets")),
        ("/spec/resource", json!("Pods")),
        ("/spec/revision", json!(-1)),
        ("/spec/entries", json!([{"names": []}])),
        ("/spec/entries", json!({})),
        ("/spec/more", json!(1)),
        ("/spec", json!(null)),
    ] {
        let mut table = good.clone();
        let (parent, field) = pointer.rsplit_once('/').unwrap();
        table.pointer_mut(parent).unwrap()[field] = value.clone();
        assert!(LockTable::from_value(&table).is_err(), "{pointer} {value}");
    }
}

#[test]
fn a_table_has_room_for_so_many_locks_and_no_more() {
    let table = LockTable::new(&name(Some("default"), "", "pods"));
    let entries = |count: usize| (0..count).map(|n| entry(&format!("l{n}"), &["p"])).collect::<Vec<_>>();
    let full = table.with(&entries(4_000)).unwrap();
    assert!(full.with(&[entry("l0", &["q"])]).is_ok());
    let error = full.with(&[entry("one-more", &["p"])]).unwrap_err();
    assert_eq!(error, TableError::Full("ns.default.pods".to_owned()));
    assert!(error.to_string().contains("lock many objects by one lock with a selector"));

    let large = |n: usize| {
        let labels = (0..64).map(|label| (format!("l{label}"), "v".repeat(63))).collect();
        let selector = LabelSelector { match_labels: Some(labels), match_expressions: None };
        Entry { selectors: vec![selector], ..Entry::new(&format!("l{n}"), None) }
    };
    assert!(table.with(&(0..100).map(large).collect::<Vec<_>>()).is_ok());
    assert!(table.with(&(0..200).map(large).collect::<Vec<_>>()).is_err());
}

#[test]
fn notes_for_one_table_are_written_together_and_one_without_room_keeps_no_other_out() {
    let pods = name(Some("default"), "", "pods");
    let many = |lock: &str, count: usize| Entry {
        names: (0..count).map(|n| format!("{n:0>200}")).collect(),
        ..Entry::new(lock, None)
    };
    let mut write = TableWrite::new(
        pods.clone(),
        vec![vec![entry("a", &["p"])], vec![many("huge", 4_000)], vec![entry("b", &["p"]), entry("c", &["q"])]],
    );
    assert!(matches!(write.request(None), Some(Ask::Get(query)) if query.path == pods.path()));
    // Before the table is stored, no lock counts as recorded.
    assert!((0..3).all(|note| write.outcome(note).is_err()));
    let absent = json!({
        "kind": "Status", "reason": "NotFound", "code": 404, "details": {"kind": "locktables", "name": pods.as_name()},
    });
    write.answer(Answer::Response { status: 404, body: absent.to_string().as_bytes() });
    let Some(Ask::Send(send)) = write.request(None) else { panic!("a write") };
    assert!((0..3).all(|note| write.outcome(note).is_err()));
    let stored = LockTable::parse(&send.body).unwrap();
    assert_eq!(stored.entries().map(|entry| entry.lock.as_str()).collect::<Vec<_>>(), ["a", "b", "c"]);
    write.answer(Answer::Response { status: 201, body: &send.body });
    assert_eq!(write.request(None), None);
    assert_eq!((write.outcome(0), write.outcome(2)), (Ok(()), Ok(())));
    let why = write.outcome(1).unwrap_err().to_string();
    assert!(
        why.starts_with("the write of LockTable ns.default.pods is refused: LockTable ns.default.pods is full"),
        "{why}"
    );
}

#[test]
fn an_entry_is_ripe_once_it_was_missed_and_unchanged_for_long_enough() {
    let minutes = |count: u64| Duration::from_secs(60 * count);
    let one = LockTable::new(&name(Some("default"), "", "pods")).with(&[entry("a", &["p"])]).unwrap();
    let mut ages = TableGc::new(minutes(5));
    let missed = |_: &Entry| true;
    let table = stored(&one, "u");
    // The age counts from the moment when the lock is missed, however long the lock existed.
    assert!(ages.ripe(&table, minutes(10), |_| false).is_empty());
    assert!(ages.ripe(&table, minutes(90), |_| false).is_empty());
    assert!(ages.ripe(&table, minutes(100), missed).is_empty());
    assert!(ages.ripe(&table, minutes(104), missed).is_empty());
    assert_eq!(ages.ripe(&table, minutes(105), missed).len(), 1);
    // The age starts again if the entry is written anew without changes, if the table is made anew, or if the table has
    // no UID.
    assert!(ages.ripe(&stored(&one.with(&[entry("a", &["p"])]).unwrap(), "u"), minutes(106), missed).is_empty());
    assert!(ages.ripe(&stored(&one, "u2"), minutes(200), missed).is_empty());
    assert_eq!(ages.clone().ripe(&stored(&one, "u2"), minutes(205), missed).len(), 1);
    assert!(ages.ripe(&stored(&one, "u3"), minutes(205), missed).is_empty());
    assert!(ages.ripe(&one, minutes(300), missed).is_empty() && ages.ripe(&one, minutes(400), missed).is_empty());
    ages.keep_only(&BTreeSet::new());
    assert!(ages.ripe(&table, minutes(900), missed).is_empty());
}

#[test]
fn a_lock_stands_in_a_table_for_each_kind() {
    let spec = json!({"targets": [
        {"resource": "pods", "name": "p"}, {"resource": "pods", "name": "q", "namespace": "x"},
        {"resource": "pods/eviction", "name": "p"}, {"resource": "nodes", "name": "n"},
        {"resource": "pods", "selector": {"matchLabels": {"a": "b"}}}, {"resource": "pods", "selector": {"matchLabels": {"a": "b"}}},
    ]});
    let lock = Lock::parse(LockKind::ClusterObjectLock, &world::lock(LockKind::ClusterObjectLock, "l", spec)).unwrap();
    let tables = tables_of(&lock);
    assert_eq!(tables.keys().map(TableName::as_name).collect::<Vec<_>>(), ["cluster.nodes", "cluster.pods"]);
    let pods = &tables[&name(None, "", "pods")];
    let said: Vec<_> = pods
        .iter()
        .map(|entry| (entry.namespace.as_ref().map(Namespace::as_str), entry.names.len(), entry.selectors.len()))
        .collect();
    assert_eq!(said, [(None, 1, 1), (Some("x"), 1, 0)]);
    assert!(pods[0].says(&Entry { revision: 7, ..pods[0].clone() }) && !pods[0].says(&pods[1]));
}

//! Objects, notes and registers for the tests.

use depguard_core::Group;
use depguard_core::interlock::{
    Ask, Buckets, Delete, Dependent, Insert, Listing, Nonce, Note, ObjectKey, Observation, Outcome, Register,
    RegisterName, Revision,
};
use depguard_core::model::{GroupResource, Resource};
use depguard_core::protocol::{Cause, Unresolved};
use serde_json::{Value, json};

pub(crate) fn one() -> Buckets {
    Buckets::new(1).unwrap()
}

pub(crate) fn name() -> RegisterName {
    one().registers().next().unwrap()
}

pub(crate) fn key(resource: &str, name: &str) -> ObjectKey {
    let kind = GroupResource { group: Group::CORE, resource: Resource::parse(resource).unwrap() };
    ObjectKey { cluster: None, kind, namespace: None, name: name.to_owned() }
}

pub(crate) fn vpc(name: &str) -> ObjectKey {
    key("vpcs", name)
}

pub(crate) fn revision(version: u32) -> Revision {
    Revision::parse("uid", &version.to_string()).unwrap()
}

pub(crate) fn created(name: &str) -> Dependent {
    Dependent::created(key("machines", name), &format!("uid-of-{name}")).unwrap()
}

pub(crate) fn updated(name: &str, version: u32) -> Dependent {
    Dependent::updated(key("machines", name), revision(version))
}

/// Returns an open register without marks.
pub(crate) fn register() -> Register {
    parse(&wire("r", "r", &json!([])))
}

pub(crate) fn wire(uid: &str, open_for: &str, targets: &Value) -> Value {
    json!({
        "apiVersion": "dependencies.opendefense.cloud/v1alpha1", "kind": "ReferenceRegister",
        "metadata": {"name": name().to_string(), "uid": uid, "resourceVersion": "1"},
        "spec": {"openFor": open_for, "targets": targets},
    })
}

pub(crate) fn parse(value: &Value) -> Register {
    Register::parse(value.to_string().as_bytes()).unwrap()
}

pub(crate) fn insert(nonce: u128, dependent: &Dependent, targets: &[&str]) -> Insert {
    Insert::begin(one(), Nonce::new(nonce), dependent, targets.iter().map(|target| vpc(target)))
}

/// Returns a deletion whose first LIST found nothing.
pub(crate) fn delete(nonce: u128, target: &str, version: u32) -> Delete {
    let mut delete = Delete::begin(one(), Nonce::new(nonce), vpc(target), revision(version));
    assert_eq!(delete.asks(), [Ask::Dependents]);
    delete.listed(Listing::Empty);
    delete
}

/// Returns the one note that an evaluation asks to record.
pub(crate) fn note(asks: &[Ask]) -> Note {
    match asks {
        [Ask::Record(_, note)] => note.clone(),
        other => panic!("{other:?}"),
    }
}

pub(crate) fn intent(nonce: u128, dependent: &Dependent, targets: &[&str]) -> Note {
    note(&insert(nonce, dependent, targets).asks())
}

pub(crate) fn flag(nonce: u128, target: &str, version: u32) -> Note {
    note(&delete(nonce, target, version).asks())
}

/// Returns the register with the note, which must be recorded.
pub(crate) fn with(register: &Register, note: Note) -> Register {
    let (next, outcomes) = register.with(&[note]);
    assert_eq!(outcomes, [Outcome::Recorded]);
    next.unwrap_or_else(|| register.clone())
}

pub(crate) fn outcome(register: &Register, note: Note) -> Outcome {
    register.with(&[note]).1.remove(0)
}

pub(crate) fn marks(register: &Register) -> usize {
    register
        .marks()
        .map(|(_, marks)| marks.flags.len() + marks.intents.len() + usize::from(marks.shared.is_some()))
        .sum()
}

/// Returns the wait that a deletion of `a` leaves because of a creation's live intent.
pub(crate) fn deletion_wait(nonce: u128) -> Note {
    let mut delete = delete(nonce, "a", 1);
    let meant = with(&register(), intent(9000, &created("m"), &["a"]));
    delete.recorded(outcome(&meant, note(&delete.asks())));
    delete.observed(created("m").key(), Observation::Absent);
    note(&delete.asks())
}

/// Returns the wait that a creation leaves because of a live flag of `a`.
pub(crate) fn reference_wait(nonce: u128) -> Note {
    let mut insert = insert(nonce, &created("m"), &["a"]);
    let flagged = with(&register(), flag(9000, "a", 1));
    insert.recorded(name(), outcome(&flagged, note(&insert.asks())));
    insert.observed(&vpc("a"), Observation::Stored { revision: revision(1), is_terminating: false });
    note(&insert.asks())
}

pub(crate) fn failed() -> Unresolved {
    Unresolved::new(Cause::ReadFailed, "failed")
}

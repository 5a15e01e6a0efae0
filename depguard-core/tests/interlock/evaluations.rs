//! Evaluations of both sides, step by step.

use std::collections::BTreeSet;

use depguard_core::interlock::{
    Ask, Buckets, Delete, Dependent, Insert, Listing, Nonce, Note, Observation, Outcome, Refusal, RegisterName,
    Revision, Verdict,
};

use crate::cast::*;

fn stored(version: u32) -> Observation {
    Observation::Stored { revision: revision(version), is_terminating: false }
}

fn refused(refusal: Refusal) -> Verdict {
    Verdict::Refused(refusal)
}

/// Returns a creation whose intent was recorded.
fn marked() -> Insert {
    let mut insert = insert(1, &created("m"), &["a"]);
    insert.recorded(name(), Outcome::Recorded);
    assert_eq!(insert.asks(), [Ask::Target(vpc("a"))]);
    insert
}

#[test]
fn a_creation_passes_if_its_target_is_there() {
    let mut insert = marked();
    assert_eq!(insert.verdict(), None);
    insert.observed(&vpc("a"), stored(1));
    assert_eq!(insert.verdict(), Some(&Verdict::Allowed));
}

#[test]
fn a_refused_creation_takes_its_intent_down_first() {
    let gone = Observation::Stored { revision: revision(1), is_terminating: true };
    let unknown = Observation::Unknown(failed());
    for (observation, refusal) in [
        (Observation::Absent, Refusal::Missing(vpc("a"))),
        (gone, Refusal::Terminating(vpc("a"))),
        (unknown, Refusal::Unknown(failed())),
    ] {
        let mut insert = marked();
        insert.observed(&vpc("a"), observation);
        assert_eq!(insert.verdict(), None);
        let written = with(&register(), intent(1, &created("m"), &["a"]));
        assert_eq!(marks(&with(&written, note(&insert.asks()))), 0);
        insert.recorded(name(), Outcome::Recorded);
        assert_eq!(insert.verdict(), Some(&refused(refusal)));
    }
}

#[test]
fn a_creation_without_a_new_reference_asks_nothing() {
    assert_eq!(insert(1, &created("m"), &[]).verdict(), Some(&Verdict::Allowed));
}

/// Returns a creation that waits for its name.
fn named() -> Insert {
    let insert = insert(1, &created("m"), &["a"]).if_name_is_free(&created("m"));
    let asks = insert.asks();
    let [Ask::Record(..), Ask::Dependent(machine)] = &asks[..] else { panic!("{asks:?}") };
    assert_eq!(machine, &key("machines", "m"));
    insert
}

#[test]
fn a_creation_of_a_name_that_another_object_has_leaves_no_intent() {
    let another = || Observation::Stored { revision: Revision::parse("another", "1").unwrap(), is_terminating: false };
    for (outcome, is_marked) in
        [(Outcome::Recorded, true), (Outcome::Unknown(failed()), true), (Outcome::Failed(failed()), false)]
    {
        let mut insert = named();
        insert.name_observed(another());
        // The write may be under way.
        assert_eq!((insert.verdict(), insert.asks().len()), (None, 1));
        insert.recorded(name(), outcome);
        if is_marked {
            assert_eq!(note(&insert.asks()), Note::take_down(Nonce::new(1)));
            insert.recorded(name(), Outcome::Recorded);
        }
        assert_eq!(insert.verdict(), Some(&refused(Refusal::NameTaken)));
    }
    let mut insert = named();
    insert.recorded(name(), Outcome::Recorded);
    insert.name_observed(another());
    assert_eq!(note(&insert.asks()), Note::take_down(Nonce::new(1)));
    insert.recorded(name(), Outcome::Recorded);
    assert_eq!(insert.verdict(), Some(&refused(Refusal::NameTaken)));
}

#[test]
fn a_creation_waits_for_its_name_before_it_passes() {
    let own = Observation::Stored { revision: Revision::parse("uid-of-m", "1").unwrap(), is_terminating: false };
    for observation in [Observation::Absent, Observation::Unknown(failed()), own] {
        let mut insert = named();
        insert.recorded(name(), Outcome::Recorded);
        assert!(!insert.is_recorded());
        insert.observed(&vpc("a"), stored(1));
        assert_eq!((insert.verdict(), insert.asks()), (None, vec![Ask::Dependent(key("machines", "m"))]));
        insert.name_observed(observation);
        assert_eq!(insert.verdict(), Some(&Verdict::Allowed));
    }
    let none = insert(1, &created("m"), &[]).if_name_is_free(&created("m"));
    assert_eq!((none.verdict(), none.asks()), (Some(&Verdict::Allowed), vec![]));
}

/// Returns the result of a creation that met a flag from version 2 of its target, and sees the target so.
fn against_a_flag(observation: Observation) -> Insert {
    let flagged = with(&register(), flag(9, "a", 2));
    let mut insert = insert(1, &created("m"), &["a"]);
    insert.recorded(name(), outcome(&flagged, note(&insert.asks())));
    assert_eq!(insert.asks(), [Ask::Target(vpc("a"))]);
    insert.observed(&vpc("a"), observation);
    insert
}

#[test]
fn a_flag_is_void_once_its_target_has_left_the_reviewed_state() {
    let flagged = with(&register(), flag(9, "a", 2));
    let insert = against_a_flag(stored(3));
    let written = with(&flagged, note(&insert.asks()));
    assert_eq!(marks(&written), 2);
    // Another flag is as live as before.
    let flagged = with(&flagged, flag(10, "a", 3));
    assert!(matches!(outcome(&flagged, note(&insert.asks())), Outcome::Opposed(all) if all.len() == 1));
}

#[test]
fn a_flag_of_the_targets_state_makes_a_creation_wait() {
    let mut put_off = against_a_flag(stored(2));
    assert!(note(&put_off.asks()).is_wait());
    put_off.recorded(name(), Outcome::Recorded);
    assert_eq!(put_off.verdict(), Some(&refused(Refusal::AgainSoon)));
    assert_eq!(against_a_flag(Observation::Absent).verdict(), Some(&refused(Refusal::Missing(vpc("a")))));
    let terminating = Observation::Stored { revision: revision(3), is_terminating: true };
    assert_eq!(against_a_flag(terminating).verdict(), Some(&refused(Refusal::Terminating(vpc("a")))));
}

#[test]
fn a_creation_that_is_refused_at_its_second_register_takes_the_first_intent_down() {
    let buckets = Buckets::new(1024).unwrap();
    let mut insert = Insert::begin(buckets, Nonce::new(1), &created("m"), [vpc("a"), vpc("b")]);
    let mut registers: BTreeSet<RegisterName> = BTreeSet::new();
    for outcome in [Outcome::Recorded, Outcome::Opposed(Vec::new())] {
        let asks = insert.asks();
        let [Ask::Record(register, _)] = &asks[..] else { panic!("{asks:?}") };
        registers.insert(*register);
        insert.recorded(*register, outcome);
    }
    assert_eq!(registers.len(), 2);
    let asks = insert.asks();
    let [Ask::Record(register, _)] = &asks[..] else { panic!("{asks:?}") };
    insert.recorded(*register, Outcome::Failed(failed()));
    // The cleaner takes away what could not be taken down.
    assert_eq!(insert.verdict(), Some(&refused(Refusal::AgainSoon)));
}

#[test]
fn a_referenced_target_is_refused_without_a_write() {
    let mut delete = Delete::begin(one(), Nonce::new(1), vpc("a"), revision(1));
    delete.listed(Listing::Referrers);
    assert_eq!(delete.verdict(), Some(&refused(Refusal::Referenced)));
}

#[test]
fn only_the_list_after_the_flag_allows_a_deletion() {
    let mut delete = delete(1, "a", 1);
    // Answers that nobody asked for change nothing.
    delete.listed(Listing::Empty);
    assert_eq!(delete.verdict(), None);
    delete.recorded(Outcome::Recorded);
    assert_eq!(delete.asks(), [Ask::Dependents]);
    delete.listed(Listing::Empty);
    assert_eq!(delete.verdict(), Some(&Verdict::Allowed));
}

#[test]
fn a_deletion_that_is_refused_after_its_flag_takes_the_flag_down() {
    for (listing, refusal) in
        [(Listing::Referrers, Refusal::Referenced), (Listing::Unknown(failed()), Refusal::Unknown(failed()))]
    {
        let mut delete = delete(1, "a", 1);
        let flagged = with(&register(), note(&delete.asks()));
        delete.recorded(Outcome::Recorded);
        delete.listed(listing);
        assert_eq!(delete.verdict(), None);
        assert_eq!(marks(&with(&flagged, note(&delete.asks()))), 0);
        delete.recorded(Outcome::Unknown(failed()));
        assert_eq!(delete.verdict(), Some(&refused(refusal)));
    }
}

#[test]
fn a_flag_that_may_be_there_is_taken_down_and_one_that_is_not_is_not() {
    let mut unknown = delete(1, "a", 1);
    unknown.recorded(Outcome::Unknown(failed()));
    assert!(matches!(unknown.asks()[..], [Ask::Record(..)]));
    let mut unwritten = delete(1, "a", 1);
    unwritten.recorded(Outcome::Failed(failed()));
    assert_eq!(unwritten.verdict(), Some(&refused(Refusal::Unknown(failed()))));
}

/// Returns the result of a deletion that met the intent of this dependent `m`, and sees `m` so.
fn against(dependent: &Dependent, observation: Observation) -> Delete {
    let meant = with(&register(), intent(9, dependent, &["a"]));
    let mut delete = delete(1, "a", 1);
    delete.recorded(outcome(&meant, note(&delete.asks())));
    assert_eq!(delete.asks(), [Ask::Dependent(key("machines", "m"))]);
    delete.observed(&key("machines", "m"), observation);
    delete
}

/// Checks that a deletion goes on to its flag, and leaves the decision to the LIST after that.
fn goes_on(dependent: &Dependent, observation: Observation) {
    let meant = with(&register(), intent(9, dependent, &["a"]));
    let mut delete = against(dependent, observation);
    assert_eq!(marks(&with(&meant, note(&delete.asks()))), 2);
    delete.recorded(Outcome::Recorded);
    assert_eq!(delete.asks(), [Ask::Dependents]);
}

/// Checks that a deletion leaves a wait, then is put off.
fn waits(mut delete: Delete) {
    assert!(note(&delete.asks()).is_wait());
    delete.recorded(Outcome::Recorded);
    assert_eq!(delete.verdict(), Some(&refused(Refusal::AgainSoon)));
}

#[test]
fn the_intent_of_an_update_is_void_once_the_dependent_has_left_the_replaced_state() {
    let updated = updated("m", 2);
    for observation in [Observation::Absent, stored(3)] {
        goes_on(&updated, observation);
    }
    waits(against(&updated, stored(2)));
    let unknown = Observation::Unknown(failed());
    assert_eq!(against(&updated, unknown).verdict(), Some(&refused(Refusal::Unknown(failed()))));
}

/// Tests that a name proves nothing: another creation may have the same one, and this one may still be stored.
#[test]
fn the_intent_of_a_creation_is_void_once_its_own_uid_was_stored() {
    let created = created("m");
    let own = Revision::parse(created.uid(), "9").unwrap();
    goes_on(&created, Observation::Stored { revision: own, is_terminating: false });
    for observation in [Observation::Absent, stored(3)] {
        waits(against(&created, observation));
    }
    let unknown = Observation::Unknown(failed());
    assert_eq!(against(&created, unknown).verdict(), Some(&refused(Refusal::Unknown(failed()))));
}

/// Tests a check by the caller's own reads.
#[test]
fn only_a_check_after_all_intents_were_recorded_counts() {
    let mut early = insert(1, &created("m"), &["a"]);
    assert!(!early.is_recorded());
    early.checked(true);
    assert_eq!(early.verdict(), None);
    let mut allowed = marked();
    assert!(allowed.is_recorded());
    allowed.checked(true);
    assert_eq!(allowed.verdict(), Some(&Verdict::Allowed));
    let mut unchecked = marked();
    unchecked.checked(false);
    assert!(matches!(unchecked.asks()[..], [Ask::Record(..)]), "its intent is taken down first");
    unchecked.recorded(name(), Outcome::Recorded);
    assert_eq!(unchecked.verdict(), Some(&refused(Refusal::Failed)));
}

#[test]
fn proofs_without_end_end() {
    let mut delete = delete(1, "a", 1);
    let mut rounds = 0;
    while delete.verdict().is_none() {
        rounds += 1;
        let meant = with(&register(), intent(100 + rounds, &updated("m", 2), &["a"]));
        delete.recorded(outcome(&meant, note(&delete.asks())));
        delete.observed(&key("machines", "m"), stored(3));
    }
    assert_eq!((rounds, delete.verdict()), (5, Some(&refused(Refusal::AgainSoon))));
}

//! Cleaner of registers.

use std::time::Duration;

use depguard_core::interlock::{Cleaner, Dependent, Register};
use serde_json::json;

use crate::cast::*;

const KEEP: Duration = Duration::from_secs(90);

fn seconds(number: u64) -> Duration {
    Duration::from_secs(number)
}

fn nothing(_: &Dependent) -> bool {
    false
}

fn cleaner() -> Cleaner {
    Cleaner::new(KEEP)
}

#[test]
fn a_mark_goes_once_it_was_seen_unchanged_for_long_enough() {
    let flagged = with(&register(), flag(1, "a", 1));
    let mut cleaner = cleaner();
    assert_eq!(cleaner.clean(&flagged, seconds(1000), nothing), None);
    let both = with(&flagged, flag(2, "a", 1));
    assert_eq!(cleaner.clean(&both, seconds(1050), nothing), None);
    assert_eq!(cleaner.clean(&both, seconds(1089), nothing), None);
    let cleaned = cleaner.clean(&both, seconds(1090), nothing).unwrap();
    assert_eq!(cleaned, with(&register(), flag(2, "a", 1)));
    assert_eq!(cleaned.resource_version(), both.resource_version());
    assert_eq!(marks(&cleaner.clean(&cleaned, seconds(1140), nothing).unwrap()), 0);
    assert_eq!(cleaner.ages(seconds(1150)).map(|(.., age)| age).max(), Some(seconds(100)));
}

#[test]
fn a_cleaner_that_is_started_again_sees_all_marks_for_the_first_time() {
    let flagged = with(&register(), flag(1, "a", 1));
    cleaner().clean(&flagged, seconds(0), nothing);
    assert_eq!(cleaner().clean(&flagged, seconds(1000), nothing), None);
}

#[test]
fn a_mark_that_went_and_came_back_is_new() {
    let flagged = with(&register(), flag(1, "a", 1));
    let mut cleaner = cleaner();
    cleaner.clean(&flagged, seconds(0), nothing);
    cleaner.clean(&register(), seconds(50), nothing);
    assert_eq!(cleaner.clean(&flagged, seconds(100), nothing), None);
}

#[test]
fn the_intent_of_a_creation_goes_once_its_uid_was_seen_and_no_other_mark_does() {
    let notes =
        [intent(1, &created("m"), &["a"]), intent(2, &created("n"), &["a"]), intent(3, &updated("m", 2), &["a"])];
    let meant = notes.into_iter().fold(register(), |register, note| with(&register, note));
    let cleaned = cleaner().clean(&meant, seconds(0), |dependent| dependent.uid() == "uid-of-m").unwrap();
    assert_eq!(marks(&cleaned), 2);
    // An update's UID was stored before, and tells nothing.
    let update = with(&register(), intent(3, &updated("m", 2), &["a"]));
    assert_eq!(cleaner().clean(&update, seconds(0), |_| true), None);
}

#[test]
fn a_shared_mark_is_closed_and_kept_for_as_long_again() {
    let shared = |epoch: u32, open: bool| -> Register {
        let target = json!({"resource": "vpcs", "name": "a"});
        let shared = json!({"epoch": format!("{epoch:032x}"), "open": open});
        parse(&wire("r", "r", &json!([{"target": target, "shared": shared}])))
    };
    let mut cleaner = cleaner();
    assert_eq!(cleaner.clean(&shared(1, true), seconds(0), nothing), None);
    assert_eq!(cleaner.clean(&shared(1, true), seconds(90), nothing), Some(shared(1, false)));
    assert_eq!(cleaner.clean(&shared(1, false), seconds(91), nothing), None);
    assert_eq!(cleaner.clean(&shared(1, false), seconds(180), nothing), None);
    assert_eq!(marks(&cleaner.clean(&shared(1, false), seconds(181), nothing).unwrap()), 0);
    // Opened again, the mark begins anew.
    assert_eq!(cleaner.clean(&shared(2, true), seconds(182), nothing), None);
    assert_eq!(cleaner.clean(&shared(2, true), seconds(271), nothing), None);
}

#[test]
fn a_register_made_anew_is_opened_after_the_time_of_marks() {
    // Whoever made it: a copy of the old register says that it is open for the old one.
    let copy = parse(&wire("new", "r", &json!([])));
    let mut cleaner = cleaner();
    cleaner.clean(&register(), seconds(0), nothing);
    assert_eq!(cleaner.clean(&copy, seconds(100), nothing), None);
    assert_eq!(cleaner.clean(&copy, seconds(189), nothing), None);
    let opened = cleaner.clean(&copy, seconds(190), nothing).unwrap();
    assert!(!copy.is_open() && opened.is_open());
}

#[test]
fn marks_in_a_register_made_anew_are_new() {
    let flagged = |uid: &str| with(&register(), flag(1, "a", 1)).stored_as(uid, "5");
    let mut cleaner = cleaner();
    cleaner.clean(&flagged("r"), seconds(0), nothing);
    let cleaned = cleaner.clean(&flagged("new"), seconds(100), nothing);
    assert_eq!(cleaned, None);
}

#[test]
fn a_register_that_is_not_stored_is_not_cleaned() {
    assert_eq!(cleaner().clean(&Register::new(name()), seconds(0), nothing), None);
}

#[test]
fn a_wait_lapses_unless_it_is_asked_for_again() {
    let meant = with(&register(), intent(1, &created("m"), &["a"]));
    let waiting = with(&with(&meant, deletion_wait(2)), deletion_wait(3));
    let wait = |register: &Register| register.marks().next().unwrap().1.wait;
    let mut cleaner = cleaner();
    assert_eq!(cleaner.clean(&waiting, seconds(0), nothing), None);
    assert_eq!(cleaner.clean(&waiting, seconds(29), nothing), None);
    let stale = cleaner.clean(&waiting, seconds(30), nothing).unwrap();
    assert!(wait(&stale).is_some_and(|wait| wait.is_due && !wait.is_fresh));
    // Asked for again, the wait is as good as new.
    let again = with(&stale, deletion_wait(4));
    assert!(wait(&again).is_some_and(|wait| wait.is_due && wait.is_fresh));
    assert_eq!(cleaner.clean(&again, seconds(50), nothing), None);
    assert_eq!(cleaner.clean(&again, seconds(79), nothing), None);
    let stale = cleaner.clean(&again, seconds(80), nothing).unwrap();
    assert_eq!(cleaner.clean(&stale, seconds(81), nothing), None);
    // The intent is as old as the cleaner, and goes with the wait.
    let left = cleaner.clean(&stale, seconds(111), nothing).unwrap();
    assert!(left.marks().next().is_none());
}

//! Writes of notes to a register, attempt by attempt.

use depguard_core::interlock::{Outcome, Register, RegisterWrite};
use depguard_core::protocol::{StoredRead, WriteResult, WriteStep};

use crate::cast::*;

fn begin(register: &Register) -> RegisterWrite {
    let mut write = RegisterWrite::new(name(), vec![intent(1, &created("m"), &["a"])]);
    assert_eq!(write.step(), Some(WriteStep::Read(&name())));
    write.read(StoredRead::Stored(Box::new(register.clone())));
    write
}

fn to_write(write: &RegisterWrite) -> Register {
    match write.step() {
        Some(WriteStep::Write(register)) => register.clone(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_note_is_recorded_once_the_register_is_stored_and_not_before() {
    let mut write = begin(&register());
    assert_eq!(to_write(&write).resource_version(), register().resource_version());
    assert!(matches!(write.outcome(0), Outcome::Unknown(_)));
    write.written(WriteResult::Stored);
    assert_eq!((write.step(), write.outcome(0)), (None, Outcome::Recorded));
}

#[test]
fn after_a_conflict_the_note_is_judged_anew() {
    let mut write = begin(&register());
    write.written(WriteResult::Conflict);
    assert_eq!(write.step(), Some(WriteStep::Read(&name())));
    write.read(StoredRead::Stored(Box::new(with(&register(), flag(2, "a", 1)))));
    assert_eq!(write.step(), None);
    assert!(matches!(write.outcome(0), Outcome::Opposed(_)));
}

#[test]
fn conflicts_without_end_end() {
    let mut write = begin(&register());
    let mut attempts = 0;
    while write.step().is_some() {
        attempts += 1;
        write.written(WriteResult::Conflict);
        write.read(StoredRead::Stored(Box::new(register())));
    }
    assert_eq!(attempts, 16);
    assert!(matches!(write.outcome(0), Outcome::Failed(_)));
}

#[test]
fn a_write_whose_answer_is_lost_is_found_by_the_next_read() {
    let mut write = begin(&register());
    let stored = to_write(&write);
    write.written(WriteResult::Unknown(failed()));
    write.read(StoredRead::Stored(Box::new(stored)));
    assert_eq!((write.step(), write.outcome(0)), (None, Outcome::Recorded));
}

#[test]
fn after_a_lost_answer_a_failure_says_that_the_mark_may_be_there() {
    for unread in [StoredRead::Absent, StoredRead::Unknown(failed())] {
        let mut lost = begin(&register());
        lost.written(WriteResult::Unknown(failed()));
        lost.read(unread.clone());
        assert!(matches!(lost.outcome(0), Outcome::Unknown(_)));
        let mut never_sent = RegisterWrite::new(name(), vec![intent(1, &created("m"), &["a"])]);
        never_sent.read(unread);
        assert!(matches!(never_sent.outcome(0), Outcome::Failed(_)));
    }
}

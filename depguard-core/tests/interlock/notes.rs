//! Notes against registers.

use depguard_core::interlock::{
    Listing, MAX_FLAGS, MAX_INTENTS, MAX_REGISTER_BYTES, Note, Opponent, Outcome, Register,
};
use proptest::prelude::*;

use crate::cast::*;

#[test]
fn at_most_one_side_has_a_mark_about_a_target() {
    let flagged = with(&register(), flag(1, "a", 1));
    let opponents = opponents(&flagged, intent(2, &created("m"), &["a"]));
    assert!(matches!(&opponents[..], [Opponent::Flag(target, ..)] if *target == vpc("a")));
    assert_eq!(outcome(&flagged, intent(2, &created("m"), &["b"])), Outcome::Recorded);
    let meant = with(&register(), intent(2, &created("m"), &["a"]));
    assert!(matches!(self::opponents(&meant, flag(1, "a", 1))[..], [Opponent::Intent(..)]));
    assert_eq!(outcome(&meant, flag(1, "b", 1)), Outcome::Recorded);
    // Marks of one side don't oppose each other.
    assert_eq!(outcome(&flagged, flag(3, "a", 1)), Outcome::Recorded);
    assert_eq!(outcome(&meant, intent(3, &created("n"), &["a"])), Outcome::Recorded);
}

#[test]
fn a_note_about_several_targets_is_recorded_about_all_or_none() {
    let flagged = with(&register(), flag(1, "b", 1));
    let (next, outcomes) = flagged.with(&[intent(2, &created("m"), &["a", "b"])]);
    assert!(next.is_none() && matches!(outcomes[..], [Outcome::Opposed(_)]));
    assert_eq!(marks(&with(&register(), intent(2, &created("m"), &["a", "b"]))), 2);
}

#[test]
fn a_merged_note_is_judged_by_the_notes_before_it() {
    let notes = [intent(1, &created("m"), &["a"]), flag(2, "a", 1), flag(3, "b", 1), intent(4, &created("n"), &["b"])];
    let (next, outcomes) = register().with(&notes);
    assert_eq!(marks(&next.unwrap()), 2);
    let is_recorded: Vec<_> = outcomes.iter().map(|outcome| *outcome == Outcome::Recorded).collect();
    assert_eq!(is_recorded, [true, false, true, false]);
}

#[test]
fn a_note_that_is_there_already_needs_no_write() {
    let note = intent(1, &created("m"), &["a"]);
    let written = with(&register(), note.clone());
    assert_eq!(written.with(&[note]), (None, vec![Outcome::Recorded]));
}

#[test]
fn a_closed_register_records_nothing_but_lets_marks_be_taken_down() {
    let taken_down = down(1);
    for (uid, open_for) in [("r", ""), ("r", "another")] {
        let closed = parse(&wire(uid, open_for, &serde_json::json!([])));
        assert!(!closed.is_open());
        assert_eq!(outcome(&closed, intent(1, &created("m"), &["a"])), Outcome::Shut);
        assert_eq!(outcome(&closed, flag(1, "a", 1)), Outcome::Shut);
        assert_eq!(outcome(&closed, taken_down.clone()), Outcome::Recorded);
    }
}

fn opponents(register: &Register, note: Note) -> Vec<Opponent> {
    match outcome(register, note) {
        Outcome::Opposed(opponents) => opponents,
        other => panic!("{other:?}"),
    }
}

/// Returns the note by which a refused deletion takes its flag down.
fn down(nonce: u128) -> Note {
    let mut delete = delete(nonce, "a", 1);
    delete.recorded(Outcome::Recorded);
    delete.listed(Listing::Referrers);
    note(&delete.asks())
}

#[test]
fn only_its_own_evaluation_takes_a_mark_down() {
    let both = with(&with(&register(), flag(1, "a", 1)), flag(2, "a", 1));
    let left = with(&both, down(1));
    assert_eq!(left.marks().next().unwrap().1.flags.len(), 1);
    assert!(matches!(outcome(&left, intent(3, &created("m"), &["a"])), Outcome::Opposed(_)));
    assert_eq!(marks(&with(&left, down(2))), 0);
}

#[test]
fn a_hot_target_gets_a_shared_mark_on_which_others_rely() {
    let mut hot = register();
    for number in 0..MAX_INTENTS {
        hot = with(&hot, intent(number as u128, &created(&format!("m{number}")), &["a"]));
    }
    assert_eq!(marks(&hot), MAX_INTENTS);
    let shared = with(&hot, intent(100, &created("n"), &["a"]));
    assert!(shared.marks().next().unwrap().1.shared.unwrap().is_open);
    assert_eq!(shared.with(&[intent(101, &created("o"), &["a"])]), (None, vec![Outcome::Recorded]));
    assert!(matches!(outcome(&shared, flag(200, "a", 1)), Outcome::Opposed(all) if all.len() == MAX_INTENTS + 1));
}

#[test]
fn a_target_has_a_limited_number_of_flags() {
    let mut flagged = register();
    for number in 0..MAX_FLAGS {
        flagged = with(&flagged, flag(number as u128, "a", 1));
    }
    assert_eq!(outcome(&flagged, flag(100, "a", 1)), Outcome::Shut);
    assert_eq!(outcome(&flagged, flag(100, "b", 1)), Outcome::Recorded);
}

#[test]
fn a_full_register_records_no_more_and_can_be_emptied() {
    let mut full = register();
    let long = "x".repeat(240);
    let mut number = 0;
    let refused = loop {
        let note = flag(number, &format!("{long}{number}"), 1);
        match full.with(std::slice::from_ref(&note)) {
            (Some(next), _) => full = next,
            (None, outcomes) => break outcomes,
        }
        number += 1;
    };
    assert_eq!(refused, [Outcome::Shut]);
    let size = full.to_value().to_string().len();
    assert!((MAX_REGISTER_BYTES / 4..MAX_REGISTER_BYTES).contains(&size), "{size}");
    assert!(marks(&with(&full, down(0))) < marks(&full));
}

#[test]
fn a_note_that_never_fits_is_told_so() {
    let names: Vec<_> = (0..400).map(|number| format!("{}{number}", "x".repeat(240))).collect();
    let names: Vec<_> = names.iter().map(String::as_str).collect();
    assert!(matches!(outcome(&register(), intent(1, &created("m"), &names)), Outcome::Failed(_)));
    assert_eq!(outcome(&register(), intent(1, &created("m"), &names[..20])), Outcome::Recorded);
}

proptest! {
    /// Notes that are written together end as if they were written one after another, and never leave marks of both
    /// sides about one target.
    #[test]
    fn merged_notes_end_as_single_ones(choices in prop::collection::vec((0_u128..6, 0_usize..4, 0_usize..3), 1..12)) {
        let targets = ["a", "b", "c"];
        let notes: Vec<_> = choices.iter().map(|(nonce, kind, target)| match kind {
            0 => flag(*nonce, targets[*target], 1),
            1 => intent(*nonce, &created("m"), &[targets[*target]]),
            2 => intent(*nonce, &created("m"), &[targets[*target], targets[(target + 1) % 3]]),
            _ => down(*nonce),
        }).collect();
        let (merged, outcomes) = register().with(&notes);
        let merged = merged.unwrap_or_else(register);
        let mut single = register();
        for (note, expected) in notes.iter().zip(outcomes) {
            let (next, outcome) = single.with(std::slice::from_ref(note));
            prop_assert_eq!(&outcome[0], &expected);
            single = next.unwrap_or(single);
        }
        prop_assert_eq!(&merged, &single);
        for (_, marks) in merged.marks() {
            prop_assert!(marks.flags.is_empty() || marks.intents.is_empty());
        }
    }
}

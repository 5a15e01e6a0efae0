//! Notes against registers.

use depguard_core::LogicalCluster;
use depguard_core::interlock::{
    Delete, Listing, MAX_FLAGS, MAX_INTENTS, MAX_REGISTER_BYTES, Nonce, Note, ObjectKey, Observation, Opponent,
    Outcome, Register, Revision,
};
use depguard_core::model::Namespace;
use depguard_core::protocol::Cause;
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
        assert!(put_off(outcome(&closed, intent(1, &created("m"), &["a"]))).contains("the controller opens it about"));
        assert!(put_off(outcome(&closed, flag(1, "a", 1))).contains("the controller opens it about"));
        assert_eq!(outcome(&closed, taken_down.clone()), Outcome::Recorded);
    }
}

/// Returns the reason why a register puts a note off.
fn put_off(outcome: Outcome) -> String {
    match outcome {
        Outcome::Failed(why) if why.cause() == Cause::Contended => why.to_string(),
        other => panic!("{other:?}"),
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
    let shared = with(&hot, intent(1000, &created("n"), &["a"]));
    assert!(shared.marks().next().unwrap().1.shared.unwrap().is_open);
    assert_eq!(shared.with(&[intent(1001, &created("o"), &["a"])]), (None, vec![Outcome::Recorded]));
    assert!(matches!(outcome(&shared, flag(2000, "a", 1)), Outcome::Opposed(all) if all.len() == MAX_INTENTS + 1));
}

#[test]
fn a_target_has_a_limited_number_of_flags() {
    let mut flagged = register();
    for number in 0..MAX_FLAGS {
        flagged = with(&flagged, flag(number as u128, "a", 1));
    }
    assert!(put_off(outcome(&flagged, flag(1000, "a", 1))).contains("was to be deleted too often"));
    assert_eq!(outcome(&flagged, flag(1000, "b", 1)), Outcome::Recorded);
}

#[test]
fn a_full_register_records_no_more_and_can_be_emptied() {
    let (full, why) = filled(register(), 0, |number| format!("of-{number}"));
    assert!(why.contains("has no room for more marks"), "{why}");
    let size = full.to_value().to_string().len();
    assert!((MAX_REGISTER_BYTES / 4..MAX_REGISTER_BYTES).contains(&size), "{size}");
    let taken_down = Note::take_down(Nonce::new(0));
    assert!(marks(&with(&full, taken_down)) < marks(&full));
}

/// Flags targets with long names, each in the namespace that `of` names, until the register puts one off.
fn filled(mut register: Register, first: u128, of: impl Fn(u128) -> String) -> (Register, String) {
    let long = "x".repeat(240);
    for number in first.. {
        let note = flag_in(number, &of(number), &format!("{long}{number}"));
        match register.with(std::slice::from_ref(&note)) {
            (Some(next), _) => register = next,
            (None, mut outcomes) => return (register, put_off(outcomes.remove(0))),
        }
    }
    unreachable!()
}

fn flag_in(nonce: u128, namespace: &str, name: &str) -> Note {
    let target = ObjectKey { namespace: Some(Namespace::parse(namespace).unwrap()), ..vpc(name) };
    let mut delete = Delete::begin(one(), Nonce::new(nonce), target, revision(1));
    delete.listed(Listing::Empty);
    note(&delete.asks())
}

#[test]
fn a_tenant_has_a_share_of_a_register_that_is_half_full() {
    // Alone, a tenant fills half of a register; so does each of two.
    let (half, why) = filled(register(), 0, |_| "a".to_owned());
    assert!(why.contains("has used its share"), "{why}");
    assert!((MAX_REGISTER_BYTES / 2 - 2048..=MAX_REGISTER_BYTES / 2).contains(&half.size()), "{}", half.size());
    let (more, why) = filled(half, 10_000, |_| "b".to_owned());
    assert!(why.contains("has used its share"), "{why}");
    assert!(more.size() <= MAX_REGISTER_BYTES / 4 * 3);
    // The last quarter is for tenants with few marks.
    let (last, why) = filled(more, 20_000, |_| "c".to_owned());
    assert!(why.contains("has used its share"), "{why}");
    assert!((MAX_REGISTER_BYTES / 4 * 3..MAX_REGISTER_BYTES / 4 * 3 + 4096).contains(&last.size()), "{}", last.size());
    assert_eq!(outcome(&last, flag_in(30_000, "d", "v")), Outcome::Recorded);
    // In kcp a tenant is a logical cluster, whatever the namespace.
    let in_kcp = |nonce: u128, cluster: &str, name: &str| {
        let cluster = Some(LogicalCluster::parse(cluster).unwrap());
        let namespace = Some(Namespace::parse(&format!("n{nonce}")).unwrap());
        let target = ObjectKey { cluster, namespace, ..vpc(&format!("{}{name}", "x".repeat(240))) };
        let mut delete = Delete::begin(one(), Nonce::new(nonce), target, revision(1));
        delete.listed(Listing::Empty);
        note(&delete.asks())
    };
    let mut of_one = register();
    for number in 0_u128.. {
        let (next, _) = of_one.with(&[in_kcp(number, "one", &number.to_string())]);
        let Some(next) = next else { break };
        of_one = next;
    }
    assert!(of_one.size() <= MAX_REGISTER_BYTES / 2);
    assert_eq!(outcome(&of_one, in_kcp(10_000, "another", "v")), Outcome::Recorded);
}

#[test]
fn the_other_side_yields_to_a_wait_that_was_asked_for_twice() {
    for (mark, wait, other, others_mark) in [
        (intent(1, &created("m"), &["a"]), deletion_wait(2), deletion_wait(3), intent(4, &created("n"), &["a"])),
        (flag(1, "a", 1), reference_wait(2), reference_wait(3), flag(4, "a", 1)),
    ] {
        let marked = with(&register(), mark.clone());
        let once = with(&marked, wait.clone());
        assert_eq!(outcome(&once, others_mark.clone()), Outcome::Recorded, "one refusal makes nobody yield");
        let twice = with(&once, other.clone());
        assert!(put_off(outcome(&twice, others_mark.clone())).contains("have waited for longer"));
        // A mark that is recorded keeps its place, and a wait that is due and fresh needs no write.
        assert_eq!(outcome(&twice, mark), Outcome::Recorded);
        assert_eq!(twice.with(&[other]), (None, vec![Outcome::Recorded]));
    }
}

#[test]
fn a_wait_is_left_only_while_the_other_side_has_a_mark() {
    for wait in [deletion_wait(1), reference_wait(1)] {
        assert_eq!(register().with(&[wait]), (None, vec![Outcome::Recorded]));
    }
    let flagged = with(&register(), flag(1, "a", 1));
    assert_eq!(flagged.with(&[deletion_wait(2)]), (None, vec![Outcome::Recorded]));
}

#[test]
fn a_mark_of_the_side_that_waits_ends_the_wait() {
    let meant = with(&register(), intent(1, &created("m"), &["a"]));
    let for_deletion = with(&with(&meant, deletion_wait(2)), deletion_wait(3));
    assert!(for_deletion.marks().all(|(_, marks)| marks.wait.is_some_and(|wait| wait.is_due)));
    let mut delete = delete(5, "a", 1);
    delete.recorded(outcome(&for_deletion, note(&delete.asks())));
    let own = Revision::parse(created("m").uid(), "9").unwrap();
    delete.observed(created("m").key(), Observation::Stored { revision: own, is_terminating: false });
    let flagged = with(&for_deletion, note(&delete.asks()));
    assert!(flagged.marks().all(|(_, marks)| marks.wait.is_none()));
}

#[test]
fn a_deletion_that_waits_closes_the_shared_mark() {
    let mut hot = register();
    for number in 0..=MAX_INTENTS {
        hot = with(&hot, intent(number as u128, &created(&format!("m{number}")), &["a"]));
    }
    let is_open = |register: &Register| register.marks().next().unwrap().1.shared.unwrap().is_open;
    let once = with(&hot, deletion_wait(1000));
    assert!(is_open(&once));
    let twice = with(&once, deletion_wait(1001));
    assert!(!is_open(&twice));
    assert!(put_off(outcome(&twice, intent(1002, &created("n"), &["a"]))).contains("have waited for longer"));
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

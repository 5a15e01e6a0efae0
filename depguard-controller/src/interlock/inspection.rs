//! Inspection of all registers: what to write, and if all are open. Pure.

use std::collections::BTreeMap;
use std::time::Duration;

use depguard_core::interlock::{Buckets, Cleaner, MAX_REGISTER_BYTES, Register, RegisterName};

use crate::runtime::metrics::RegisterFigures;
use crate::runtime::round::MAX_SILENCE;

/// Room that a reference to a target takes at most, in bytes: a register without that room is full.
const ROOM: usize = 4 << 10;

/// Memory of the inspections so far. A new one has seen nothing.
pub(super) struct Inspector {
    cleaner: Cleaner,
    /// Registers that the last inspection found open.
    open: BTreeMap<RegisterName, OpenRegister>,
}

/// Register that was found open.
#[derive(Debug, Clone)]
struct OpenRegister {
    uid: String,
    /// Time of the last read that was answered.
    heard: Duration,
}

/// Reason why a register could not be read.
#[derive(Debug, Clone)]
pub(super) enum Unread {
    /// The API server gave an answer that is no register.
    Answer(String),
    /// Nobody answered.
    Silence(String),
}

/// One inspection of all registers.
pub(super) struct Inspection<'i> {
    inspector: &'i mut Inspector,
    open: BTreeMap<RegisterName, OpenRegister>,
    problems: BTreeMap<RegisterName, String>,
    figures: RegisterFigures,
    full: Option<RegisterName>,
}

/// Write of one register.
#[derive(Debug)]
pub(super) enum Write {
    Create(Register),
    /// Register to write, and the number of marks that it has no more.
    Clean(Register, u64),
}

/// Result of an inspection.
#[derive(Debug)]
pub(super) struct Report {
    /// Problem of the first register that is not open, and the number of such registers; `None`: all are open.
    pub(super) problem: Option<String>,
    /// True if the same registers were open at the last inspection.
    pub(super) is_unbroken: bool,
    /// Register that has no room for another mark.
    pub(super) full: Option<RegisterName>,
    pub(super) figures: RegisterFigures,
}

impl Inspector {
    /// Makes an inspector that keeps each mark for this time.
    pub(super) fn new(keep: Duration) -> Self {
        Self { cleaner: Cleaner::new(keep), open: BTreeMap::new() }
    }

    pub(super) fn begin(&mut self) -> Inspection<'_> {
        let (open, problems, figures) = (BTreeMap::new(), BTreeMap::new(), RegisterFigures::default());
        Inspection { inspector: self, open, problems, figures, full: None }
    }
}

impl Inspection<'_> {
    /// Takes the result of reading a register, which was read before `at`, and returns what to write. `None` in `found`:
    /// the register doesn't exist.
    pub(super) fn take(
        &mut self,
        name: RegisterName,
        found: Result<Option<Register>, Unread>,
        at: Duration,
    ) -> Option<Write> {
        match found {
            Ok(Some(register)) => {
                let (marks, size) = (self.figures.add(&register), register.size());
                self.figures.sizes.insert(name.to_string(), size);
                self.full = self.full.or((size > MAX_REGISTER_BYTES - ROOM).then_some(name));
                match register.uid().filter(|_| register.is_open()) {
                    Some(uid) => {
                        self.figures.open += 1;
                        self.open.insert(name, OpenRegister { uid: uid.to_owned(), heard: at });
                    }
                    None => {
                        let why = "is closed, until no request is under way whose marks it may miss";
                        self.problems.insert(name, why.to_owned());
                        self.figures.closed += 1;
                    }
                }
                let next = self.inspector.cleaner.clean(&register, at, |_| false)?;
                let left = RegisterFigures::default().add(&next);
                Some(Write::Clean(next, marks.saturating_sub(left)))
            }
            Ok(None) => {
                self.figures.missing += 1;
                self.problems.insert(name, "does not exist; depguard creates it".to_owned());
                Some(Write::Create(Register::new(name)))
            }
            Err(Unread::Silence(why)) => {
                self.unheard(name, why, at);
                None
            }
            Err(Unread::Answer(why)) => {
                self.figures.unreadable += 1;
                self.problems.insert(name, why);
                None
            }
        }
    }

    /// Takes in that nothing was heard of a register. For a short time that says nothing about a register that was open.
    fn unheard(&mut self, name: RegisterName, why: String, at: Duration) {
        self.figures.unreadable += 1;
        match self.inspector.open.get(&name).filter(|known| at.saturating_sub(known.heard) < MAX_SILENCE) {
            Some(known) => _ = self.open.insert(name, known.clone()),
            None => _ = self.problems.insert(name, why),
        }
    }

    /// Ends the inspection. A register of which nothing was heard for too long is not open.
    pub(super) fn end(mut self, buckets: Buckets, at: Duration) -> Report {
        let is_told = |name: &RegisterName| self.open.contains_key(name) || self.problems.contains_key(name);
        for name in buckets.registers().filter(|name| !is_told(name)).collect::<Vec<_>>() {
            self.unheard(name, "was not read in time".to_owned(), at);
        }
        self.figures.oldest = self.inspector.cleaner.ages(at).map(|(_, _, age)| age).max();
        let uids = |open: &BTreeMap<RegisterName, OpenRegister>| {
            open.iter().map(|(name, register)| (*name, register.uid.clone())).collect::<Vec<_>>()
        };
        let is_unbroken = uids(&self.inspector.open) == uids(&self.open);
        self.inspector.open = self.open;
        let problem = self.problems.iter().next().map(|(name, why)| match self.problems.len() {
            1 => format!("ReferenceRegister {name} {why}"),
            several => format!("{several} ReferenceRegisters are not open: {name} {why}"),
        });
        Report { problem, is_unbroken, full: self.full, figures: self.figures }
    }
}

impl RegisterFigures {
    /// Adds the marks of a register, and returns their number.
    fn add(&mut self, register: &Register) -> u64 {
        let mut number = 0_u64;
        for (_, marks) in register.marks() {
            let of = [marks.flags.len(), marks.intents.len(), usize::from(marks.shared.is_some())];
            for (total, more) in self.marks.iter_mut().zip(of) {
                *total = total.saturating_add(more);
                number = number.saturating_add(more as u64);
            }
        }
        number
    }
}

#[cfg(test)]
mod tests {
    use depguard_core::Group;
    use depguard_core::interlock::{Ask, Delete, Listing, Nonce, ObjectKey, Revision};
    use depguard_core::model::{GroupResource, Namespace, Resource};

    use super::*;

    const KEEP: Duration = Duration::from_secs(90);

    fn buckets() -> Buckets {
        Buckets::new(2).unwrap()
    }

    fn names() -> [RegisterName; 2] {
        buckets().registers().collect::<Vec<_>>().try_into().unwrap()
    }

    fn seconds(number: u64) -> Duration {
        Duration::from_secs(number)
    }

    /// Stores a register as an API server does.
    fn stored(write: Option<Write>, uid: &str, version: &str) -> Register {
        match write {
            Some(Write::Create(register) | Write::Clean(register, _)) => register.stored_as(uid, version),
            None => panic!("nothing to write"),
        }
    }

    /// Returns an open register, seen by an inspector of its own.
    fn opened(name: RegisterName) -> Register {
        let mut inspector = Inspector::new(KEEP);
        let made = stored(inspector.begin().take(name, Ok(None), seconds(0)), "u", "1");
        assert!(inspector.begin().take(name, Ok(Some(made.clone())), seconds(0)).is_none());
        stored(inspector.begin().take(name, Ok(Some(made)), KEEP), "u", "2")
    }

    /// Returns an open register with a flag.
    fn flagged() -> Register {
        let kind = GroupResource { group: Group::CORE, resource: Resource::parse("vpcs").unwrap() };
        let target = ObjectKey { cluster: None, kind, namespace: None, name: "a".into() };
        let revision = Revision::parse("v", "1").unwrap();
        let mut delete = Delete::begin(buckets(), Nonce::new(1), target, revision);
        delete.listed(Listing::Empty);
        let Ask::Record(name, note) = delete.asks().remove(0) else { panic!("no note") };
        opened(name).with(&[note]).0.unwrap().stored_as("u", "3")
    }

    fn problem(inspector: &mut Inspector, found: [Result<Option<Register>, Unread>; 2]) -> (Option<String>, bool) {
        problem_at(inspector, found, seconds(0))
    }

    fn problem_at(
        inspector: &mut Inspector,
        found: [Result<Option<Register>, Unread>; 2],
        at: Duration,
    ) -> (Option<String>, bool) {
        let mut inspection = inspector.begin();
        for (name, found) in names().into_iter().zip(found) {
            inspection.take(name, found, at);
        }
        let Report { problem, is_unbroken, .. } = inspection.end(buckets(), at);
        (problem, is_unbroken)
    }

    #[test]
    fn a_missing_register_is_made_closed_and_opened_after_the_wait_and_no_sooner() {
        let (mut inspector, [name, _]) = (Inspector::new(KEEP), names());
        let made = stored(inspector.begin().take(name, Ok(None), seconds(5)), "u", "1");
        assert!(!made.is_open());
        for at in [seconds(10), seconds(10) + KEEP - Duration::from_millis(1)] {
            assert!(inspector.begin().take(name, Ok(Some(made.clone())), at).is_none(), "{at:?}");
        }
        assert!(stored(inspector.begin().take(name, Ok(Some(made)), seconds(10) + KEEP), "u", "2").is_open());
    }

    #[test]
    fn a_mark_is_taken_away_after_the_wait_and_no_sooner_and_anew_by_another_inspector() {
        let (register, mut inspector) = (flagged(), Inspector::new(KEEP));
        let name = register.name();
        let mut take = |at| inspector.begin().take(name, Ok(Some(register.clone())), at);
        assert!(take(seconds(1)).is_none());
        assert!(take(seconds(1) + KEEP - Duration::from_millis(1)).is_none());
        let Some(Write::Clean(next, 1)) = take(seconds(1) + KEEP) else { panic!("the flag stays") };
        assert_eq!((next.marks().count(), next.is_open()), (0, true));
        // A controller that was started again has seen nothing.
        let mut another = Inspector::new(KEEP);
        assert!(another.begin().take(name, Ok(Some(register.clone())), seconds(1000)).is_none());
    }

    #[test]
    fn registers_are_open_together_or_not_at_all() {
        let [first, second] = names();
        let open = || [Ok(Some(opened(first))), Ok(Some(opened(second)))];
        let mut inspector = Inspector::new(KEEP);
        assert_eq!(problem(&mut inspector, open()), (None, false));
        assert_eq!(problem(&mut inspector, open()), (None, true));
        let closed = Ok(Some(Register::new(second).stored_as("u", "1")));
        for (found, said) in [
            (Ok(None), "does not exist; depguard creates it"),
            (closed, "is closed, until no request is under way"),
            (Err(Unread::Answer("can't be read: 403".to_owned())), "can't be read: 403"),
        ] {
            let [one, _] = open();
            let (why, _) = problem(&mut inspector, [one, found]);
            assert!(why.as_ref().is_some_and(|why| why.contains(said) && why.contains(&second.to_string())), "{why:?}");
            assert_eq!(problem(&mut inspector, open()), (None, false), "a break counts: {said}");
        }
        // Another register of the same name is another one.
        let made_anew = opened(second).stored_as("another", "9");
        assert!(!made_anew.is_open());
        let report = inspector.begin().end(buckets(), MAX_SILENCE);
        assert!(report.problem.unwrap().starts_with("2 ReferenceRegisters are not open: bucket-0-of-2 was not read"));
        assert_eq!(report.figures.unreadable, 2);
    }

    #[test]
    fn a_register_of_which_nothing_is_heard_for_a_short_time_is_as_it_was() {
        let [first, second] = names();
        let open = || [Ok(Some(opened(first))), Ok(Some(opened(second)))];
        let late = || [Ok(Some(opened(first))), Err(Unread::Silence("can't be read: no answer".to_owned()))];
        let mut inspector = Inspector::new(KEEP);
        assert_eq!(problem_at(&mut inspector, open(), seconds(0)), (None, false));
        assert_eq!(problem_at(&mut inspector, late(), seconds(10)), (None, true));
        // Not even read.
        let mut inspection = inspector.begin();
        inspection.take(first, Ok(Some(opened(first))), seconds(20));
        let report = inspection.end(buckets(), seconds(20));
        assert_eq!((report.problem, report.figures.open, report.figures.unreadable), (None, 1, 1));
        let (why, _) = problem_at(&mut inspector, late(), MAX_SILENCE);
        assert!(why.is_some_and(|why| why.contains("no answer")));
    }

    #[test]
    fn a_register_without_room_is_told_and_its_size_is_a_figure() {
        let [name, _] = names();
        let mut register = opened(name);
        let kind = GroupResource { group: Group::CORE, resource: Resource::parse("vpcs").unwrap() };
        for number in 0_u32.. {
            let target = |attempt| ObjectKey {
                cluster: None,
                kind: kind.clone(),
                // Each tenant has only a share of a register.
                namespace: Some(Namespace::parse(&format!("n{number}")).unwrap()),
                name: format!("{}{number}-{attempt}", "x".repeat(200)),
            };
            let target = (0..).map(target).find(|target: &ObjectKey| buckets().register_of(target) == name).unwrap();
            let mut delete =
                Delete::begin(buckets(), Nonce::new(number.into()), target, Revision::parse("v", "1").unwrap());
            delete.listed(Listing::Empty);
            let Ask::Record(_, note) = delete.asks().remove(0) else { panic!("no note") };
            let Some(next) = register.with(&[note]).0 else { break };
            register = next;
        }
        let mut inspector = Inspector::new(KEEP);
        let mut inspection = inspector.begin();
        let size = register.size();
        inspection.take(name, Ok(Some(register)), seconds(0));
        let report = inspection.end(buckets(), seconds(0));
        assert_eq!((report.full, report.figures.sizes[&name.to_string()]), (Some(name), size));
    }
}

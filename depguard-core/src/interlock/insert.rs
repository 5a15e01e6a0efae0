//! Evaluation of a creation or an update by which a dependent begins to refer to targets.

use std::collections::{BTreeMap, BTreeSet};

use super::evaluation::{Ask, MAX_ROUNDS, Observation, Refusal, Verdict};
use super::mark::{Flag, Intent, Nonce, Side};
use super::note::{Content, Note, Opponent, Outcome};
use super::object_key::{Buckets, Dependent, ObjectKey, RegisterName};

/// Evaluation of the references that a dependent begins to have.
///
/// It records an intent in the register of each target, one register after the other, and then reads all targets. Each
/// must exist and must not be terminating. If the evaluation refuses, it takes its intents down before it returns the
/// [verdict](Self::verdict).
///
/// The creation of an object that another one keeps from being stored must leave no intent: whoever creates a name again and
/// again would hold up all deletions of the targets. So an evaluation may [wait for the name](Self::if_name_is_free): beside
/// the first intent it reads the object of the dependent's name, and refuses if one is stored. It must not allow such a
/// creation without an intent: the name may be free by the time of the creation. If the object can't be read, the evaluation
/// goes on, since the intent keeps the promise.
///
/// A flag keeps the intent out, unless the flag is void: unless a GET of the target, sent after the flag was read, shows
/// another state than the flag's. (A flag that was read says that the target had this state before.)
///
/// Carry out all requests of [`asks`](Self::asks), pass on the answers, and repeat that until there is a verdict. A
/// caller that has no more time refuses; the cleaner then takes the intents away.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Insert {
    nonce: Nonce,
    /// The notes to record, by register.
    notes: BTreeMap<RegisterName, Note>,
    /// The registers that may have an intent of this evaluation.
    marked: BTreeSet<RegisterName>,
    name: Name,
    rounds: u32,
    phase: Phase,
}

/// Name of the dependent to create.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum Name {
    /// No object has the name, or the request creates none.
    Free,
    /// The object of the name of this dependent is to be read.
    Unread(Dependent),
    /// An object has the name. The evaluation refuses once it knows if its note is recorded.
    Taken,
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum Phase {
    /// The note for this register is to be recorded.
    Recording(RegisterName),
    /// The flags that keep the note for this register out may be void.
    Disproving(RegisterName, BTreeMap<ObjectKey, Vec<(Nonce, Flag)>>),
    /// All intents are recorded; these targets are to be read.
    Checking(BTreeSet<ObjectKey>),
    /// Intents are to be taken down, and waits to be left.
    Ending(BTreeMap<RegisterName, Note>, Refusal),
    Settled(Verdict),
}

impl Insert {
    /// Begins to decide if the dependent may refer to these targets.
    pub fn begin(
        buckets: Buckets,
        nonce: Nonce,
        dependent: &Dependent,
        targets: impl IntoIterator<Item = ObjectKey>,
    ) -> Self {
        let mut by_register: BTreeMap<_, BTreeSet<_>> = BTreeMap::new();
        for target in targets {
            by_register.entry(buckets.register_of(&target)).or_default().insert(target);
        }
        let note = |targets| {
            let content = Content::Intents(dependent.clone(), targets);
            Note { nonce, content, void: BTreeSet::new() }
        };
        let notes: BTreeMap<_, _> = by_register.into_iter().map(|(name, targets)| (name, note(targets))).collect();
        let phase = Phase::Settled(Verdict::Allowed);
        let mut insert = Self { nonce, notes, marked: BTreeSet::new(), name: Name::Free, rounds: 0, phase };
        insert.phase = insert.next_phase();
        insert
    }

    /// Allows the creation only if no other object has the dependent's name. An evaluation of no references asks nothing.
    #[must_use]
    pub fn if_name_is_free(self, dependent: &Dependent) -> Self {
        let name = if self.verdict().is_some() { Name::Free } else { Name::Unread(dependent.clone()) };
        Self { name, ..self }
    }

    /// Returns all requests without an answer.
    pub fn asks(&self) -> Vec<Ask> {
        let name = match &self.name {
            Name::Unread(dependent) => Some(Ask::Dependent(dependent.key().clone())),
            Name::Free | Name::Taken => None,
        };
        let asks: Vec<_> = match &self.phase {
            Phase::Recording(name) => {
                self.notes.get(name).map(|note| Ask::Record(*name, note.clone())).into_iter().collect()
            }
            Phase::Disproving(_, flags) => flags.keys().cloned().map(Ask::Target).collect(),
            Phase::Checking(targets) => targets.iter().cloned().map(Ask::Target).collect(),
            Phase::Ending(notes, _) => notes.iter().map(|(name, note)| Ask::Record(*name, note.clone())).collect(),
            Phase::Settled(_) => Vec::new(),
        };
        asks.into_iter().chain(name).collect()
    }

    /// Takes the answer to the GET of the dependent's name.
    pub fn name_observed(&mut self, observation: Observation) {
        let Name::Unread(dependent) = &self.name else { return };
        let is_taken = match observation {
            Observation::Stored { revision, is_terminating: _ } => {
                !Intent { dependent: dependent.clone() }.is_void_at(Some(&revision))
            }
            // The intent is all that keeps the promise.
            Observation::Absent | Observation::Unknown(_) => false,
        };
        match (is_taken, &self.phase) {
            (true, Phase::Recording(_)) => self.name = Name::Taken,
            (true, _) => self.refuse(Refusal::NameTaken),
            (false, _) => {
                self.name = Name::Free;
                self.settle();
            }
        }
    }

    /// Takes the outcome of the note for a register.
    pub fn recorded(&mut self, register: RegisterName, outcome: Outcome) {
        match &mut self.phase {
            Phase::Recording(name) if *name == register => match (outcome, &self.name) {
                (Outcome::Recorded | Outcome::Unknown(_), Name::Taken) => {
                    self.marked.insert(register);
                    self.refuse(Refusal::NameTaken);
                }
                (_, Name::Taken) => self.refuse(Refusal::NameTaken),
                (Outcome::Recorded, _) => {
                    self.marked.insert(register);
                    self.phase = self.next_phase();
                }
                (Outcome::Opposed(opponents), _) => self.disprove(register, opponents),
                (Outcome::Failed(why), _) => self.refuse(Refusal::Unknown(why)),
                (Outcome::Unknown(why), _) => {
                    self.marked.insert(register);
                    self.refuse(Refusal::Unknown(why));
                }
            },
            // A mark that could not be taken down is left to the cleaner.
            Phase::Ending(notes, refusal) => {
                notes.remove(&register);
                if notes.is_empty() {
                    self.phase = Phase::Settled(Verdict::Refused(refusal.clone()));
                }
            }
            Phase::Recording(_) | Phase::Disproving(..) | Phase::Checking(_) | Phase::Settled(_) => {}
        }
    }

    /// Returns true if all intents are recorded and the name is free, so that the targets are to be checked.
    pub fn is_recorded(&self) -> bool {
        matches!(self.phase, Phase::Checking(_)) && self.name == Name::Free
    }

    /// Takes the result of a check of all targets by the caller's own reads: true if the dependent may refer to all of
    /// them. Each read must have been sent after the intents were [recorded](Self::is_recorded).
    pub fn checked(&mut self, is_allowed: bool) {
        match (&mut self.phase, is_allowed) {
            (Phase::Checking(targets), true) => {
                targets.clear();
                self.settle();
            }
            (Phase::Checking(_), false) => self.refuse(Refusal::Failed),
            (Phase::Recording(_) | Phase::Disproving(..) | Phase::Ending(..) | Phase::Settled(_), _) => {}
        }
    }

    /// Takes the answer to the GET of a target.
    pub fn observed(&mut self, target: &ObjectKey, observation: Observation) {
        let revision = match (&self.phase, observation) {
            (Phase::Recording(_) | Phase::Ending(..) | Phase::Settled(_), _) => return,
            (_, Observation::Absent) => return self.refuse(Refusal::Missing(target.clone())),
            (_, Observation::Unknown(why)) => return self.refuse(Refusal::Unknown(why)),
            (_, Observation::Stored { is_terminating: true, .. }) => {
                return self.refuse(Refusal::Terminating(target.clone()));
            }
            (_, Observation::Stored { revision, is_terminating: false }) => revision,
        };
        match &mut self.phase {
            Phase::Disproving(register, flags) => {
                let about = flags.remove(target).unwrap_or_default();
                if !about.iter().all(|(_, flag)| flag.is_void_at(&revision)) {
                    let wait = (*register, Note::wait(self.nonce, Side::Reference, [target.clone()].into()));
                    return self.end([wait], Refusal::AgainSoon);
                }
                if let Some(note) = self.notes.get_mut(register) {
                    note.void.extend(about.into_iter().map(|(nonce, _)| nonce));
                }
                if flags.is_empty() {
                    self.phase = Phase::Recording(*register);
                }
            }
            Phase::Checking(targets) => {
                targets.remove(target);
                self.settle();
            }
            Phase::Recording(_) | Phase::Ending(..) | Phase::Settled(_) => {}
        }
    }

    /// Returns the verdict, once nothing more is asked.
    pub fn verdict(&self) -> Option<&Verdict> {
        match &self.phase {
            Phase::Settled(verdict) => Some(verdict),
            _ => None,
        }
    }

    /// Returns the phase after a note was recorded: the next note, or the check of the targets.
    fn next_phase(&self) -> Phase {
        match self.notes.keys().find(|name| !self.marked.contains(name)) {
            Some(name) => Phase::Recording(*name),
            None if self.notes.is_empty() => Phase::Settled(Verdict::Allowed),
            None => Phase::Checking(self.notes.values().flat_map(Note::targets).cloned().collect()),
        }
    }

    fn disprove(&mut self, register: RegisterName, opponents: Vec<Opponent>) {
        self.rounds += 1;
        let mut flags: BTreeMap<_, Vec<_>> = BTreeMap::new();
        for opponent in opponents {
            match opponent {
                Opponent::Flag(target, nonce, flag) => flags.entry(target).or_default().push((nonce, flag)),
                // Marks of the same side oppose nobody.
                Opponent::Intent(..) | Opponent::Shared(_) => return self.refuse(Refusal::AgainSoon),
            }
        }
        if flags.is_empty() || self.rounds > MAX_ROUNDS {
            return self.refuse(Refusal::AgainSoon);
        }
        self.phase = Phase::Disproving(register, flags);
    }

    /// Allows the request if nothing is left to find out.
    fn settle(&mut self) {
        if matches!(&self.phase, Phase::Checking(targets) if targets.is_empty()) && self.name == Name::Free {
            self.phase = Phase::Settled(Verdict::Allowed);
        }
    }

    fn refuse(&mut self, refusal: Refusal) {
        self.end([], refusal);
    }

    /// Takes all marks down, leaves these waits, then refuses.
    fn end(&mut self, waits: impl IntoIterator<Item = (RegisterName, Note)>, refusal: Refusal) {
        self.name = Name::Free;
        let marked = std::mem::take(&mut self.marked).into_iter().map(|name| (name, Note::take_down(self.nonce)));
        let notes: BTreeMap<_, _> = marked.chain(waits).collect();
        self.phase = match notes.is_empty() {
            true => Phase::Settled(Verdict::Refused(refusal)),
            false => Phase::Ending(notes, refusal),
        };
    }
}

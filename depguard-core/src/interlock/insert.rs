//! Evaluation of a creation or an update by which a dependent begins to refer to targets.

use std::collections::{BTreeMap, BTreeSet};

use super::evaluation::{Ask, MAX_ROUNDS, Observation, Refusal, Verdict};
use super::mark::{Flag, Nonce};
use super::note::{Content, Note, Opponent, Outcome};
use super::object_key::{Buckets, Dependent, ObjectKey, RegisterName};

/// Evaluation of the references that a dependent begins to have.
///
/// It records an intent in the register of each target, one register after the other, and then reads all targets. Each
/// must exist and must not be terminating. If the evaluation refuses, it takes its intents down before it returns the
/// [verdict](Self::verdict).
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
    rounds: u32,
    phase: Phase,
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum Phase {
    /// The note for this register is to be recorded.
    Recording(RegisterName),
    /// The flags that keep the note for this register out may be void.
    Disproving(RegisterName, BTreeMap<ObjectKey, Vec<(Nonce, Flag)>>),
    /// All intents are recorded; these targets are to be read.
    Checking(BTreeSet<ObjectKey>),
    /// The intents in these registers are to be taken down.
    TakingDown(BTreeSet<RegisterName>, Refusal),
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
        let mut insert = Self { nonce, notes, marked: BTreeSet::new(), rounds: 0, phase };
        insert.phase = insert.next_phase();
        insert
    }

    /// Returns all requests without an answer.
    pub fn asks(&self) -> Vec<Ask> {
        match &self.phase {
            Phase::Recording(name) => {
                self.notes.get(name).map(|note| Ask::Record(*name, note.clone())).into_iter().collect()
            }
            Phase::Disproving(_, flags) => flags.keys().cloned().map(Ask::Target).collect(),
            Phase::Checking(targets) => targets.iter().cloned().map(Ask::Target).collect(),
            Phase::TakingDown(registers, _) => {
                registers.iter().map(|name| Ask::Record(*name, Note::take_down(self.nonce))).collect()
            }
            Phase::Settled(_) => Vec::new(),
        }
    }

    /// Takes the outcome of the note for a register.
    pub fn recorded(&mut self, register: RegisterName, outcome: Outcome) {
        match &mut self.phase {
            Phase::Recording(name) if *name == register => match outcome {
                Outcome::Recorded => {
                    self.marked.insert(register);
                    self.phase = self.next_phase();
                }
                Outcome::Opposed(opponents) => self.disprove(register, opponents),
                Outcome::Shut => self.refuse(Refusal::AgainSoon),
                Outcome::Failed(why) => self.refuse(Refusal::Unknown(why)),
                Outcome::Unknown(why) => {
                    self.marked.insert(register);
                    self.refuse(Refusal::Unknown(why));
                }
            },
            // A mark that could not be taken down is left to the cleaner.
            Phase::TakingDown(registers, refusal) => {
                registers.remove(&register);
                if registers.is_empty() {
                    self.phase = Phase::Settled(Verdict::Refused(refusal.clone()));
                }
            }
            Phase::Recording(_) | Phase::Disproving(..) | Phase::Checking(_) | Phase::Settled(_) => {}
        }
    }

    /// Returns true if all intents are recorded, so that the targets are to be checked.
    pub fn is_recorded(&self) -> bool {
        matches!(self.phase, Phase::Checking(_))
    }

    /// Takes the result of a check of all targets by the caller's own reads: true if the dependent may refer to all of
    /// them. Each read must have been sent after the intents were [recorded](Self::is_recorded).
    pub fn checked(&mut self, is_allowed: bool) {
        match (&self.phase, is_allowed) {
            (Phase::Checking(_), true) => self.phase = Phase::Settled(Verdict::Allowed),
            (Phase::Checking(_), false) => self.refuse(Refusal::Failed),
            (Phase::Recording(_) | Phase::Disproving(..) | Phase::TakingDown(..) | Phase::Settled(_), _) => {}
        }
    }

    /// Takes the answer to the GET of a target.
    pub fn observed(&mut self, target: &ObjectKey, observation: Observation) {
        let revision = match (&self.phase, observation) {
            (Phase::Recording(_) | Phase::TakingDown(..) | Phase::Settled(_), _) => return,
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
                    return self.refuse(Refusal::AgainSoon);
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
                if targets.is_empty() {
                    self.phase = Phase::Settled(Verdict::Allowed);
                }
            }
            Phase::Recording(_) | Phase::TakingDown(..) | Phase::Settled(_) => {}
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

    fn refuse(&mut self, refusal: Refusal) {
        let marked = std::mem::take(&mut self.marked);
        self.phase = match marked.is_empty() {
            true => Phase::Settled(Verdict::Refused(refusal)),
            false => Phase::TakingDown(marked, refusal),
        };
    }
}

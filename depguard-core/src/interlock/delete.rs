//! Evaluation of the deletion of a target.

use std::collections::{BTreeMap, BTreeSet};

use super::evaluation::{Ask, Listing, MAX_ROUNDS, Observation, Refusal, Verdict};
use super::mark::{Intent, Nonce, Side};
use super::note::{Content, Note, Opponent, Outcome};
use super::object_key::{Buckets, ObjectKey, RegisterName, Revision};

/// Evaluation of the deletion of a target.
///
/// It lists the dependents, so that a referenced target costs no write. If there are none, it records a flag, and lists
/// the dependents again: only the second LIST, sent after the flag was stored, says that there are none. If the
/// evaluation refuses, it takes the flag down before it returns the [verdict](Self::verdict). If it allows, the flag
/// stays.
///
/// An intent keeps the flag out, unless the intent is void: unless a GET of the dependent, sent after the intent was
/// read, shows the UID of the creation, or another state than the one that the update replaces. Then the dependent is
/// stored, and the second LIST shows it, or it never will be.
///
/// Carry out all requests of [`asks`](Self::asks), pass on the answers, and repeat that until there is a verdict. A
/// caller that has no more time refuses; the cleaner then takes the flag away.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Delete {
    register: RegisterName,
    note: Note,
    rounds: u32,
    phase: Phase,
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum Phase {
    /// The dependents are to be listed for the first time.
    Looking,
    /// The flag is to be recorded.
    Recording,
    /// The intents that keep the flag out may be void.
    Disproving(BTreeMap<ObjectKey, Vec<(Nonce, Intent)>>),
    /// The flag is recorded; the dependents are to be listed again.
    Confirming,
    /// The flag is to be taken down, or a wait is to be left.
    Ending(Box<Note>, Refusal),
    Settled(Verdict),
}

impl Delete {
    /// Begins to decide if a target may be deleted. `revision` is that of the review's `oldObject`.
    pub fn begin(buckets: Buckets, nonce: Nonce, target: ObjectKey, revision: Revision) -> Self {
        let register = buckets.register_of(&target);
        let note = Note { nonce, content: Content::Flag(target, revision), void: BTreeSet::new() };
        Self { register, note, rounds: 0, phase: Phase::Looking }
    }

    /// Returns all requests without an answer.
    pub fn asks(&self) -> Vec<Ask> {
        match &self.phase {
            Phase::Looking | Phase::Confirming => vec![Ask::Dependents],
            Phase::Recording => vec![Ask::Record(self.register, self.note.clone())],
            Phase::Disproving(intents) => intents.keys().cloned().map(Ask::Dependent).collect(),
            Phase::Ending(note, _) => vec![Ask::Record(self.register, (**note).clone())],
            Phase::Settled(_) => Vec::new(),
        }
    }

    /// Takes the answer to the LIST of dependents.
    pub fn listed(&mut self, listing: Listing) {
        let is_marked = match self.phase {
            Phase::Looking => false,
            Phase::Confirming => true,
            Phase::Recording | Phase::Disproving(_) | Phase::Ending(..) | Phase::Settled(_) => return,
        };
        match (listing, is_marked) {
            (Listing::Empty, false) => self.phase = Phase::Recording,
            (Listing::Empty, true) => self.phase = Phase::Settled(Verdict::Allowed),
            (Listing::Referrers, _) => self.refuse(Refusal::Referenced, is_marked),
            (Listing::Unknown(why), _) => self.refuse(Refusal::Unknown(why), is_marked),
        }
    }

    /// Takes the outcome of the note.
    pub fn recorded(&mut self, outcome: Outcome) {
        match &self.phase {
            Phase::Recording => match outcome {
                Outcome::Recorded => self.phase = Phase::Confirming,
                Outcome::Opposed(opponents) => self.disprove(opponents),
                Outcome::Failed(why) => self.refuse(Refusal::Unknown(why), false),
                Outcome::Unknown(why) => self.refuse(Refusal::Unknown(why), true),
            },
            // A mark that could not be taken down is left to the cleaner.
            Phase::Ending(_, refusal) => self.phase = Phase::Settled(Verdict::Refused(refusal.clone())),
            Phase::Looking | Phase::Disproving(_) | Phase::Confirming | Phase::Settled(_) => {}
        }
    }

    /// Takes the answer to the GET of a dependent.
    pub fn observed(&mut self, dependent: &ObjectKey, observation: Observation) {
        let Phase::Disproving(intents) = &mut self.phase else { return };
        let current = match observation {
            Observation::Stored { revision, is_terminating: _ } => Some(revision),
            Observation::Absent => None,
            Observation::Unknown(why) => return self.refuse(Refusal::Unknown(why), false),
        };
        let about = intents.remove(dependent).unwrap_or_default();
        let is_proven = intents.is_empty();
        if !about.iter().all(|(_, intent)| intent.is_void_at(current.as_ref())) {
            return self.wait();
        }
        self.note.void.extend(about.into_iter().map(|(nonce, _)| nonce));
        if is_proven {
            self.phase = Phase::Recording;
        }
    }

    /// Returns the verdict, once nothing more is asked.
    pub fn verdict(&self) -> Option<&Verdict> {
        match &self.phase {
            Phase::Settled(verdict) => Some(verdict),
            _ => None,
        }
    }

    fn disprove(&mut self, opponents: Vec<Opponent>) {
        self.rounds += 1;
        let mut intents: BTreeMap<_, Vec<_>> = BTreeMap::new();
        for opponent in opponents {
            match opponent {
                Opponent::Intent(nonce, intent) => {
                    intents.entry(intent.dependent.key().clone()).or_default().push((nonce, intent));
                }
                Opponent::Shared(_) => return self.wait(),
                // Marks of the same side oppose nobody.
                Opponent::Flag(..) => return self.refuse(Refusal::AgainSoon, false),
            }
        }
        if intents.is_empty() || self.rounds > MAX_ROUNDS {
            return self.refuse(Refusal::AgainSoon, false);
        }
        self.phase = Phase::Disproving(intents);
    }

    /// Leaves a wait, then refuses.
    fn wait(&mut self) {
        let targets = self.note.targets().into_iter().cloned().collect();
        let wait = Note::wait(self.note.nonce, Side::Deletion, targets);
        self.phase = Phase::Ending(Box::new(wait), Refusal::AgainSoon);
    }

    fn refuse(&mut self, refusal: Refusal, is_marked: bool) {
        self.phase = match is_marked {
            true => Phase::Ending(Box::new(Note::take_down(self.note.nonce)), refusal),
            false => Phase::Settled(Verdict::Refused(refusal)),
        };
    }
}

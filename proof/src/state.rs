//! State of a world: the stored objects, the register, and everything under way.

use std::collections::{BTreeMap, BTreeSet};
use std::hash::{Hash, Hasher};
use std::sync::Arc;
use std::time::Duration;

use depguard_core::interlock::{
    AgingPart, Ask, Cleaner, Delete, Insert, Listing, Observation, Outcome, Register, RegisterName, RegisterWrite,
    Verdict,
};

use crate::owners::{Owners, Propagation};
use crate::world::{Events, Targets};

/// State of a world.
#[derive(Debug, Clone)]
pub struct State {
    pub(crate) now: u32,
    /// The stored registers. `None`: somebody has removed the register.
    pub(crate) registers: BTreeMap<RegisterName, Option<Arc<Register>>>,
    /// The register before the last write, if stale reads are possible.
    pub(crate) stale: Option<Arc<Register>>,
    /// Writes of registers whose senders don't wait for the answer any more.
    pub(crate) late: BTreeSet<Arc<Register>>,
    pub(crate) targets: Vec<TargetState>,
    pub(crate) dependents: BTreeMap<u8, StoredDependent>,
    /// The creations that were stored, by request and attempt.
    pub(crate) created: BTreeSet<(usize, u8)>,
    pub(crate) requests: Vec<Arc<RequestState>>,
    /// Writes of notes under way, by lane: a replica that merges, or a request.
    pub(crate) batches: BTreeMap<(u8, RegisterName), Arc<Batch>>,
    pub(crate) cleaner: Arc<Cleaner>,
    /// The register that the cleaner is about to write.
    pub(crate) cleaning: Option<Arc<Register>>,
    /// The events that may still happen.
    pub(crate) left: Events,
    /// The replicas that don't know the rule.
    pub(crate) unaware: BTreeSet<u8>,
    /// The time since which all replicas know the rule; `None`: always, or not yet.
    pub(crate) aware_since: Option<u32>,
    /// The dependents whose ownerReferences the collector is about to take away.
    pub(crate) orphaned: BTreeSet<u8>,
    /// The dependents that an override left behind.
    pub(crate) let_go: BTreeSet<u8>,
    /// The replicas whose API servers still call by the former path.
    pub(crate) behind: BTreeSet<u8>,
    /// True once the configurations have the next path.
    pub(crate) has_changed: bool,
    /// True if a reference became dangling although the world promised that none does.
    pub(crate) is_broken: bool,
    /// The longest time that tells two states apart.
    pub(crate) longest: u32,
}

/// Target, stored or not.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct TargetState {
    pub(crate) is_stored: bool,
    /// Number of creations, which is in the UID.
    pub(crate) births: u8,
    /// Number of changes, which is the `resourceVersion`.
    pub(crate) version: u8,
    pub(crate) is_terminating: bool,
    /// True if somebody's finalizer holds the target.
    pub(crate) is_held: bool,
    /// The collector's finalizer; none for a deletion in the background.
    pub(crate) propagation: Propagation,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct StoredDependent {
    pub(crate) uid: String,
    pub(crate) version: u8,
    pub(crate) targets: Targets,
    pub(crate) owners: Owners,
}

#[derive(Debug, Clone)]
pub(crate) struct RequestState {
    /// The time at which the request came, and its lifetime.
    pub(crate) start: Option<u32>,
    pub(crate) lifetime: u32,
    pub(crate) attempt: u8,
    pub(crate) phase: Phase,
    /// The obstacles that the collector's update met last.
    pub(crate) refused_in: Option<u64>,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) enum Phase {
    Waiting,
    Review(Box<Review>),
    /// The webhook has allowed the request.
    Admitted(Basis),
    Ended(End),
}

/// State of the object in the review; the API server stores the new state only in its place.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) enum Basis {
    Nothing,
    Dependent(StoredDependent),
    Target(TargetState),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum End {
    /// The API server has stored or deleted the object.
    Done,
    /// The webhook told the client to come again soon.
    AgainSoon,
    /// The webhook has refused the request for a reason in the objects.
    Refused,
    /// The webhook could not find something out.
    Unknown,
    /// The API server has given the request up, for any reason besides the webhook.
    GivenUp,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Review {
    pub(crate) basis: Basis,
    pub(crate) evaluation: Evaluation,
    /// The requests that the evaluation has without an answer.
    pub(crate) asks: Vec<Ask>,
    /// True once a note of the evaluation was recorded.
    pub(crate) is_marked: bool,
    /// Reads from the beginning of the review, for a world without one of the guards about reads.
    pub(crate) early: Option<Box<Early>>,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) enum Evaluation {
    Insert(Insert),
    Delete(Delete),
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Early {
    pub(crate) targets: Vec<Observation>,
    pub(crate) dependents: Vec<Observation>,
    pub(crate) listing: Listing,
}

/// Notes that are written together.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Batch {
    /// One write of all notes; in a world without [`JudgedAsWritten`](crate::Guard::JudgedAsWritten), one write a note.
    pub(crate) writes: Vec<RegisterWrite>,
    /// The request of each note.
    pub(crate) members: Vec<usize>,
}

impl Review {
    /// Goes on with the evaluation.
    pub(crate) fn advance(&mut self, step: impl FnOnce(&mut Evaluation)) {
        step(&mut self.evaluation);
        self.asks = self.evaluation.asks();
    }
}

impl Evaluation {
    pub(crate) fn asks(&self) -> Vec<Ask> {
        match self {
            Self::Insert(insert) => insert.asks(),
            Self::Delete(delete) => delete.asks(),
        }
    }

    pub(crate) fn verdict(&self) -> Option<&Verdict> {
        match self {
            Self::Insert(insert) => insert.verdict(),
            Self::Delete(delete) => delete.verdict(),
        }
    }

    pub(crate) fn recorded(&mut self, register: RegisterName, outcome: Outcome) {
        match self {
            Self::Insert(insert) => insert.recorded(register, outcome),
            Self::Delete(delete) => delete.recorded(outcome),
        }
    }
}

impl Batch {
    /// Returns the outcome of the note of this number.
    pub(crate) fn outcome(&self, note: usize) -> Outcome {
        match &self.writes[..] {
            [write] => write.outcome(note),
            writes => writes[note].outcome(0),
        }
    }
}

impl RequestState {
    pub(crate) fn is_alive(&self, now: u32) -> bool {
        self.start.is_some_and(|start| now - start <= self.lifetime)
    }

    pub(crate) fn has_ended(&self) -> bool {
        matches!(self.phase, Phase::Ended(_))
    }
}

impl State {
    pub(crate) fn time(&self) -> Duration {
        Duration::from_secs(self.now.into())
    }

    /// Returns true if the world promises that no reference becomes dangling.
    pub(crate) fn promises(&self, wait: u32) -> bool {
        self.aware_since.is_none_or(|since| self.now - since >= wait) && self.unaware.is_empty()
    }
}

/// Everything that tells two states apart. Absolute times don't, nor do differences of times that are longer than any
/// that matters.
#[derive(PartialEq, Hash)]
struct Essence<'a> {
    registers: &'a BTreeMap<RegisterName, Option<Arc<Register>>>,
    stale: &'a Option<Arc<Register>>,
    late: &'a BTreeSet<Arc<Register>>,
    targets: &'a [TargetState],
    dependents: &'a BTreeMap<u8, StoredDependent>,
    created: &'a BTreeSet<(usize, u8)>,
    requests: Vec<(Option<u32>, u8, &'a Phase, Option<u64>)>,
    batches: &'a BTreeMap<(u8, RegisterName), Arc<Batch>>,
    ages: Vec<(RegisterName, &'a AgingPart, Duration)>,
    cleaning: &'a Option<Arc<Register>>,
    left: &'a Events,
    unaware: &'a BTreeSet<u8>,
    aware_for: Option<u32>,
    orphaned: &'a BTreeSet<u8>,
    let_go: &'a BTreeSet<u8>,
    behind: &'a BTreeSet<u8>,
    has_changed: bool,
    is_broken: bool,
}

impl State {
    fn essence(&self) -> Essence<'_> {
        let Self {
            now,
            registers,
            stale,
            late,
            targets,
            dependents,
            created,
            requests,
            batches,
            cleaner,
            cleaning,
            left,
            unaware,
            aware_since,
            orphaned,
            let_go,
            behind,
            has_changed,
            is_broken,
            longest,
        } = self;
        let age = |since: u32, cap: u32| (now - since).min(cap);
        let requests = requests.iter().map(|request| {
            let RequestState { start, lifetime, attempt, phase, refused_in } = &**request;
            // The age of a request that has ended tells nothing.
            let start = start.filter(|_| !request.has_ended());
            (start.map(|start| age(start, lifetime + 1)), *attempt, phase, *refused_in)
        });
        let oldest = Duration::from_secs((*longest).into());
        let ages = cleaner.ages(self.time()).map(|(register, part, age)| (register, part, age.min(oldest)));
        Essence {
            registers,
            stale,
            late,
            targets,
            dependents,
            created,
            requests: requests.collect(),
            batches,
            ages: ages.collect(),
            cleaning,
            left,
            unaware,
            aware_for: aware_since.map(|since| age(since, *longest)),
            orphaned,
            let_go,
            behind,
            has_changed: *has_changed,
            is_broken: *is_broken,
        }
    }
}

impl Hash for State {
    fn hash<H: Hasher>(&self, hasher: &mut H) {
        self.essence().hash(hasher);
    }
}

impl PartialEq for State {
    fn eq(&self, other: &Self) -> bool {
        self.essence() == other.essence()
    }
}

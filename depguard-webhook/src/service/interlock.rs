//! Interlock of reviews: each side records its marks before its final reads, and takes them down if it refuses.
//!
//! ```text
//! reference  read the name, record the intents ........ read the targets    allow: the intents stay
//! deletion   list the dependents  record the flag ..... list them again     allow: the flag stays
//! ```
//!
//! Each review has the time that its API server gives it. A review whose time is over, or whose connection is gone, is
//! not allowed any more; its marks are then taken down in the background.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use depguard_core::decision::{AllowReason, Verdict as DecisionVerdict};
use depguard_core::interlock::{
    Ask, Buckets, Generation, Listing, Nonce, Note, ObjectKey, ObjectRead, Observation, Outcome, Refusal, RegisterName,
    Verdict,
};
use depguard_core::interlocked::{InterlockedDeletion, InterlockedReferences, InterlockedReview};
use depguard_core::protocol::{Cause, Unresolved};
use depguard_core::{Decision, Evaluation};
use futures::future::join_all;
use ring::rand::{SecureRandom, SystemRandom};
use tokio::sync::Semaphore;
use tokio::time::{Instant, timeout, timeout_at};

use crate::metrics::interlock::{InterlockCounters, Side};
use crate::ports::api_reader::{ApiReader, Writer};
use crate::reads::driver::{self, Reads};
use crate::service::followed_request::FollowedRequest;
use crate::service::generations::Generations;

/// Time limit of each request after a review. The marks that are left then are left to the controller.
const CLEANUP: Duration = Duration::from_secs(10);

/// Maximum number of allowed requests that are followed at once.
const MAX_FOLLOWED: usize = 1024;
/// Time in which the marks of a request that is stored wait for another write of their register. A dependent that is
/// deleted within this time may hold up the deletion of its target, and its clients retry after a second.
const SHARING: Duration = Duration::from_millis(500);

/// Registers of an installation, and the way to them.
pub(crate) struct Interlock {
    generations: Generations,
    writer: Arc<dyn Writer>,
    random: SystemRandom,
    /// Places for allowed requests that are followed until they are stored.
    followed: Arc<Semaphore>,
}

/// Interlock by the registers that the path of a review names.
#[derive(Clone, Copy)]
pub(crate) struct InterlockAt<'a> {
    interlock: &'a Interlock,
    pub(crate) buckets: Buckets,
}

/// One review in the interlock, until its time is over.
pub(crate) struct Interlocking<'a, P: ApiReader> {
    interlock: &'a Interlock,
    buckets: Buckets,
    reads: &'a Reads<P>,
    deadline: Instant,
}

/// Marks that a review may have recorded. Unless they are kept, they are taken down once the review is over.
struct Marked<'a, P: ApiReader> {
    writer: &'a Arc<dyn Writer>,
    reads: &'a Reads<P>,
    nonce: Nonce,
    registers: Registers,
}

/// Registers with marks of one review, each with the number of marks.
type Registers = BTreeMap<RegisterName, usize>;

impl Interlock {
    pub(crate) fn new(generations: Generations, writer: impl Writer) -> Self {
        Self {
            generations,
            writer: Arc::new(writer),
            random: SystemRandom::new(),
            followed: Arc::new(Semaphore::new(MAX_FOLLOWED)),
        }
    }

    /// Returns the registers of the installation.
    pub(crate) fn generations(&self) -> &Generations {
        &self.generations
    }

    /// Returns the interlock at a path with this generation; `None` if this replica doesn't have its registers.
    pub(crate) fn at(&self, generation: Option<Generation>) -> Option<InterlockAt<'_>> {
        Some(InterlockAt { interlock: self, buckets: self.generations.at(generation)? })
    }

    /// Returns a number that no other evaluation has; `None` if the operating system has no random numbers.
    fn nonce(&self) -> Option<Nonce> {
        let mut bytes = [0; 16];
        self.random.fill(&mut bytes).ok()?;
        Some(Nonce::new(u128::from_be_bytes(bytes)))
    }
}

impl<P: ApiReader> Reads<P> {
    /// Begins a review in the interlock.
    pub(crate) fn interlocking<'a>(&'a self, at: InterlockAt<'a>, deadline: Instant) -> Interlocking<'a, P> {
        let InterlockAt { interlock, buckets } = at;
        Interlocking { interlock, buckets, reads: self, deadline }
    }
}

impl<P: ApiReader> Interlocking<'_, P> {
    /// Decides a creation or an update: records the intents, and only then begins `evaluation`.
    pub(crate) async fn reference(&self, part: InterlockedReferences, evaluation: Evaluation) -> Decision {
        let Some(nonce) = self.interlock.nonce() else { return part.review.refused(&no_random_number()) };
        let (mut insert, mut marked) = (part.begin(self.buckets, nonce), self.marked(nonce));
        let (mut evaluation, mut decision, mut since) = (Some(evaluation), None, None);
        while insert.verdict().is_none() {
            if insert.is_recorded() {
                decision = self.decide(&mut evaluation).await;
                insert.checked(decision.as_ref().is_some_and(Decision::allowed));
                continue;
            }
            let asks = insert.asks();
            let name = async {
                // The only dependent is the one that is to be created.
                if !asks.iter().any(|ask| matches!(ask, Ask::Dependent(_))) {
                    return None;
                }
                Some(self.look_for_name(&part.read_dependent()).await)
            };
            let others = async {
                for ask in &asks {
                    match ask {
                        Ask::Record(register, note) => {
                            match marked.record(*register, note.clone(), self.deadline).await {
                                Some(outcome) => insert.recorded(*register, outcome),
                                None => return false,
                            }
                        }
                        Ask::Target(target) => {
                            let observed = self.observe(&part.review, target, Side::Reference).await;
                            insert.observed(target, without_teardown(observed));
                        }
                        Ask::Dependent(_) => {}
                        // Only a deletion lists dependents.
                        Ask::Dependents => return false,
                    }
                }
                true
            };
            let (name, goes_on) = tokio::join!(name, others);
            if !goes_on {
                break;
            }
            if let Some((observation, revision)) = name {
                since = revision;
                insert.name_observed(observation);
            }
        }
        // A read of the one target that had a flag tells less than the evaluation of all.
        if let Some(Verdict::Refused(Refusal::Missing(_))) = insert.verdict() {
            decision = self.decide(&mut evaluation).await;
        }
        let refused = |refusal: &Refusal| part.refused(refusal);
        let (decision, kept) = self.conclude(refused, Side::Reference, insert.verdict(), decision, marked);
        if !kept.is_empty() {
            self.take_down_once_over(part, since, nonce, kept);
        }
        decision
    }

    /// Looks for an object of a name that is to be created. Returns the revision from which on a watch shows all that becomes
    /// of the name, too.
    async fn look_for_name(&self, read: &ObjectRead) -> (Observation, Option<String>) {
        let page = timeout_at(self.deadline, self.reads.gets.get(&read.hint_query())).await.ok().flatten();
        match read.hint(driver::answer(page.as_ref())) {
            Some((revision, true)) => (Observation::Absent, Some(revision)),
            // The object may be gone, and nobody is refused for an object that is gone.
            hint => (self.get(read).await, hint.map(|(revision, _)| revision)),
        }
    }

    /// Takes the marks of an allowed request down, in the background, once the request is stored: its target can then be
    /// deleted as soon as nothing refers to it. The controller takes away what is left.
    fn take_down_once_over(
        &self,
        part: InterlockedReferences,
        since: Option<String>,
        nonce: Nonce,
        registers: Registers,
    ) {
        let Ok(place) = Arc::clone(&self.interlock.followed).try_acquire_owned() else { return };
        let (marks, writer) = (self.reads.registers.clone(), Arc::clone(&self.interlock.writer));
        let followed = FollowedRequest::new(self.reads.gets.clone(), part, since);
        let tasks = self.reads.tasks.clone();
        self.reads.tasks.try_spawn(async move {
            // A webhook that stops waits for no further request to be stored. It takes down at once what it can.
            let is_over = tokio::select! {
                () = tasks.stopping() => false,
                is_over = followed.is_over() => is_over,
            };
            if is_over {
                let removal = Note::take_down(nonce);
                registers.keys().for_each(|name| marks.record_with_next(None, *name, removal.clone()));
                let _ = timeout(SHARING, tasks.stopping()).await;
                let left = registers.keys().filter(|name| marks.take_back(None, **name, &removal));
                finish(left.map(|name| marks.record(&writer, None, *name, removal.clone()))).await;
            }
            drop(place);
        });
    }

    /// Decides a deletion that `first` allows: records the flag, and only then carries out `second`, which reads
    /// everything anew.
    ///
    /// An override deletes what is referenced, too. So nothing that the interlock finds changes it, and the flag only
    /// tells the other side.
    pub(crate) async fn deletion<F: Future<Output = Decision>>(
        &self,
        part: InterlockedDeletion,
        first: Decision,
        second: impl FnOnce() -> F,
    ) -> Decision {
        let is_override = matches!(first.verdict(), DecisionVerdict::Allowed(AllowReason::Overridden));
        let Some(nonce) = self.interlock.nonce() else {
            return if is_override { first } else { part.review.refused(&no_random_number()) };
        };
        let (mut delete, mut marked) = (part.begin(self.buckets, nonce), self.marked(nonce));
        let (mut second, mut decision) = (Some(second), None);
        delete.listed(Listing::Empty);
        // One after the other: the first intent that is not void ends the reads.
        while let Some(ask) = delete.asks().into_iter().next() {
            match ask {
                // A deletion that is allowed all the same waits for nobody.
                Ask::Record(_, note) if is_override && note.is_wait() => break,
                Ask::Record(register, note) => match marked.record(register, note, self.deadline).await {
                    Some(outcome) => delete.recorded(outcome),
                    None => break,
                },
                Ask::Dependent(dependent) => {
                    let observed = self.observe(&part.review, &dependent, Side::Deletion).await;
                    delete.observed(&dependent, observed);
                }
                Ask::Dependents if is_override => {
                    decision = Some(first.clone());
                    delete.listed(Listing::Empty);
                }
                Ask::Dependents => {
                    let Some(second) = second.take() else { break };
                    let decided = second().await;
                    delete.listed(if decided.allowed() { Listing::Empty } else { Listing::Referrers });
                    decision = Some(decided);
                }
                // Only a reference asks for targets.
                Ask::Target(_) => break,
            }
        }
        match delete.verdict() {
            Some(Verdict::Refused(_)) | None if is_override => first,
            verdict => {
                let refused = |refusal: &Refusal| part.review.refused(refusal);
                self.conclude(refused, Side::Deletion, verdict, decision, marked).0
            }
        }
    }

    /// Carries out an evaluation, once.
    async fn decide(&self, evaluation: &mut Option<Evaluation>) -> Option<Decision> {
        Some(driver::decide(self.reads, evaluation.take()?, self.deadline).await)
    }

    /// Returns the decision, and the registers whose marks are kept. It allows only what both the marks and the reads
    /// after them allow.
    fn conclude(
        &self,
        refused: impl FnOnce(&Refusal) -> Decision,
        side: Side,
        verdict: Option<&Verdict>,
        decision: Option<Decision>,
        marked: Marked<'_, P>,
    ) -> (Decision, Registers) {
        let too_late = Refusal::Unknown(too_late());
        match (verdict, decision) {
            (Some(Verdict::Allowed), Some(decision)) => {
                let kept = marked.keep();
                let marks = kept.iter().map(|(register, number)| (register.to_string(), *number));
                (decision.with_marks(marks.collect()), kept)
            }
            (_, Some(decision)) if !decision.allowed() => (decision, Registers::new()),
            (verdict, _) => {
                let refusal = match verdict {
                    Some(Verdict::Refused(refusal)) => refusal,
                    Some(Verdict::Allowed) | None => &too_late,
                };
                self.counters().refused(side, refusal);
                (refused(refusal), Registers::new())
            }
        }
    }

    /// Reads an object, to find out if a mark about it is void.
    async fn observe(&self, review: &InterlockedReview, key: &ObjectKey, side: Side) -> Observation {
        let Some(read) = review.read(key) else { return Observation::Unknown(too_late()) };
        self.counters().checked(side);
        self.get(&read).await
    }

    async fn get(&self, read: &ObjectRead) -> Observation {
        match timeout_at(self.deadline, self.reads.gets.get(&read.query())).await {
            Ok(page) => read.observation(driver::answer(page.as_ref())),
            Err(_) => Observation::Unknown(too_late()),
        }
    }

    fn marked(&self, nonce: Nonce) -> Marked<'_, P> {
        Marked { writer: &self.interlock.writer, reads: self.reads, nonce, registers: Registers::new() }
    }

    fn counters(&self) -> &InterlockCounters {
        counters(self.reads)
    }
}

impl<P: ApiReader> Marked<'_, P> {
    /// Records a note. `None`: the time is over, or the write was lost, so that nobody knows if the note is recorded.
    async fn record(&mut self, register: RegisterName, note: Note, deadline: Instant) -> Option<Outcome> {
        let (marks, is_removal) = (note.marks(), note == Note::take_down(self.nonce));
        if marks > 0 {
            // From here on the mark may be there.
            self.registers.insert(register, marks);
        }
        let recorded = timeout_at(deadline, self.reads.registers.record(self.writer, None, register, note)).await;
        let outcome = recorded.ok().flatten()?;
        let is_absent = match &outcome {
            Outcome::Recorded => is_removal,
            Outcome::Opposed(_) | Outcome::Failed(_) => marks > 0,
            Outcome::Unknown(_) => false,
        };
        if is_absent {
            self.registers.remove(&register);
        }
        Some(outcome)
    }

    /// Keeps the marks, because the review is allowed, and returns their registers.
    fn keep(mut self) -> Registers {
        std::mem::take(&mut self.registers)
    }
}

impl<P: ApiReader> Drop for Marked<'_, P> {
    fn drop(&mut self) {
        if self.registers.is_empty() {
            return;
        }
        counters(self.reads).abandoned();
        let take_down =
            |register| self.reads.registers.record(self.writer, None, register, Note::take_down(self.nonce));
        let removals: Vec<_> = std::mem::take(&mut self.registers).into_keys().map(take_down).collect();
        self.reads.tasks.try_spawn(finish(removals));
    }
}

/// Waits for the removal of marks. The controller takes away what is left.
async fn finish<F: Future<Output = Option<Outcome>>>(removals: impl IntoIterator<Item = F>) {
    let _ = timeout(CLEANUP, join_all(removals)).await;
}

fn counters<P: ApiReader>(reads: &Reads<P>) -> &InterlockCounters {
    &reads.gets.source().metrics().interlock
}

/// Returns the observation of a target that may be torn down: the evaluation knows which dependents go with it.
fn without_teardown(observed: Observation) -> Observation {
    match observed {
        Observation::Stored { revision, is_terminating: _ } => Observation::Stored { revision, is_terminating: false },
        Observation::Absent | Observation::Unknown(_) => observed,
    }
}

fn too_late() -> Unresolved {
    Unresolved::new(Cause::ReadFailed, "the requests of the interlock were not answered in time; retry later")
}

fn no_random_number() -> Refusal {
    let why = "the webhook's operating system gives no random number; check it, and retry later";
    Refusal::Unknown(Unresolved::new(Cause::ReadFailed, why))
}

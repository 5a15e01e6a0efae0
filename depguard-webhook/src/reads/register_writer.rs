//! Writes of reference registers: notes that many reviews have for one register at the same time are written together.
//!
//! As with lock tables, one write of a register is under way and one waits, and each write reads the register after the
//! last of its notes has come. Nobody waits for the removal of marks of a request that is over, so it is written with the
//! next note for the same register.

use std::sync::Arc;

use depguard_core::interlock::{Nonce, Note, Outcome, RegisterName, RegisterRequest, RegisterWrite};

use crate::coalesce::batcher::Thresholds;
use crate::coalesce::executor::{BatchJob, BatchRun, Coalescer};
use crate::limits::read_budget::Size;
use crate::ports::api_reader::ApiReader;
use crate::ports::register_store::RegisterStore;
use crate::reads::bounded_reader::BoundedReader;
use crate::reads::removals::Removals;
use crate::server::tasks::Tasks;

/// Estimated length of a register, in bytes.
const ESTIMATE: usize = 64 << 10;

/// Writes under way, by register.
pub(crate) struct RegisterWriter<P: ApiReader>(Coalescer<Writes<P>>);

struct Writes<P> {
    source: Arc<BoundedReader<P>>,
    removals: Removals,
}

/// Note of one review, and the store to use.
struct PendingNote {
    store: Arc<dyn RegisterStore>,
    note: Note,
}

impl<P: ApiReader> RegisterWriter<P> {
    pub(crate) fn new(source: Arc<BoundedReader<P>>, tasks: Tasks) -> Self {
        Self(Coalescer::new(Writes { source, removals: Removals::default() }, tasks))
    }

    /// Records a note by a write that begins from now on. `None` if the write was lost on the way: nobody knows then if
    /// the note is recorded.
    pub(crate) fn record(
        &self,
        store: &Arc<dyn RegisterStore>,
        register: RegisterName,
        note: Note,
    ) -> impl Future<Output = Option<Outcome>> + Send + use<P> {
        self.0.ask(register, PendingNote { store: Arc::clone(store), note }, false)
    }

    /// Lets the next write of the register, whoever asks for it, take the marks of an evaluation down.
    pub(crate) fn remove_with_next(&self, register: RegisterName, nonce: Nonce) {
        self.0.batch_job().removals.add(register, nonce);
    }

    /// Takes back what [`Self::remove_with_next`] asked for. Returns false if a write has taken the marks down.
    pub(crate) fn take_back(&self, register: RegisterName, nonce: Nonce) -> bool {
        self.0.batch_job().removals.take(register, nonce)
    }
}

impl<P: ApiReader> Clone for RegisterWriter<P> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<P: ApiReader> BatchJob for Writes<P> {
    type Key = RegisterName;
    type Job = PendingNote;
    type Answer = Outcome;

    const THRESHOLDS: Thresholds = Thresholds::TOGETHER;

    async fn run_batch(run: BatchRun<Self>) {
        let Self { source, removals } = run.batch_job();
        let Some(permit) = source.enter(Size::Small, ESTIMATE).await else { return };
        let Some(members) = run.begin() else { return };
        let Some(store) = members.first().map(|(_, pending)| Arc::clone(&pending.store)) else { return };
        let removed = removals.of(*run.key());
        let (tickets, notes): (Vec<_>, Vec<_>) =
            members.into_iter().map(|(ticket, pending)| (ticket, pending.note)).unzip();
        let counters = &source.metrics().interlock;
        counters.noted(notes.len() + removed.len());
        // Each note is judged after the ones before it: the removals make room.
        let notes = removed.iter().copied().map(Note::take_down).chain(notes).collect();
        let mut write = RegisterWrite::new(*run.key(), notes);
        let mut permit = Some(permit);
        while let Some(request) = write.request() {
            let here = match permit.take() {
                Some(permit) => Some(permit),
                None => source.enter(Size::Small, ESTIMATE).await,
            };
            let Some(here) = here else { return };
            let page = source.ask_register(&*store, &request, here).await;
            if let RegisterRequest::Put(_, body) = &request {
                counters.written(body.len(), &page.fetched);
            }
            write.answer(page.fetched.as_answer());
        }
        for (note, nonce) in removed.iter().enumerate() {
            if write.outcome(note) == Outcome::Recorded {
                removals.take(*run.key(), *nonce);
            }
        }
        for (note, ticket) in tickets.into_iter().enumerate() {
            run.answer(ticket, write.outcome(removed.len() + note));
        }
    }
}

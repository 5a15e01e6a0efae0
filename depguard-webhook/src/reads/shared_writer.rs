//! Writes of shared objects, which are lock tables and reference registers: notes that many reviews have for one object at
//! the same time are written together.
//!
//! If the writes came one by one, reviews that are made at once would wait for each other, and the last of them in vain.
//! So one write of an object is under way and one waits, and each write reads the object after the last of its notes has
//! come. A note for which nobody waits is written with the next one.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use depguard_core::LogicalCluster;
use depguard_core::interlock::Register;
use depguard_core::locks::LockTable;
use depguard_core::protocol::{Ask, SharedObject, SharedWrite};

use crate::coalesce::batcher::Thresholds;
use crate::coalesce::executor::{BatchJob, BatchRun, Coalescer};
use crate::limits::read_budget::Size;
use crate::metrics::Metrics;
use crate::ports::api_reader::{ApiReader, Fetched, Writer};
use crate::reads::bounded_reader::BoundedReader;
use crate::server::tasks::Tasks;

/// Kind of shared objects, and what the metrics count about it.
pub(crate) trait CountedObject: SharedObject {
    /// Estimated length of an object, in bytes.
    const ESTIMATE: usize;

    /// Counts the notes of one write.
    fn noted(metrics: &Metrics, notes: usize);

    /// Counts a request that wrote, and its answer.
    fn written(metrics: &Metrics, bytes: usize, fetched: &Fetched);
}

/// Name of an object, in its logical cluster.
type Key<T> = (Option<LogicalCluster>, <T as SharedObject>::Name);

/// Writes under way, by object.
pub(crate) struct SharedWriter<T: CountedObject, P: ApiReader>(Coalescer<Writes<T, P>>);

pub(crate) struct Writes<T: CountedObject, P> {
    source: Arc<BoundedReader<P>>,
    /// Notes for which nobody waits. Whoever adds one takes it away again.
    unwaited: Mutex<BTreeMap<Key<T>, Vec<T::Note>>>,
}

/// Note of one review, and the writer to use.
pub(crate) struct PendingNote<T: SharedObject> {
    writer: Arc<dyn Writer>,
    note: T::Note,
}

impl CountedObject for LockTable {
    // At most a few tables are long.
    const ESTIMATE: usize = 16 << 10;

    fn noted(metrics: &Metrics, notes: usize) {
        metrics.shared(Size::Small, notes);
    }

    fn written(_: &Metrics, _: usize, _: &Fetched) {}
}

impl CountedObject for Register {
    const ESTIMATE: usize = 64 << 10;

    fn noted(metrics: &Metrics, notes: usize) {
        metrics.interlock.noted(notes);
    }

    fn written(metrics: &Metrics, bytes: usize, fetched: &Fetched) {
        metrics.interlock.written(bytes, fetched);
    }
}

impl<T: CountedObject, P: ApiReader> SharedWriter<T, P> {
    pub(crate) fn new(source: Arc<BoundedReader<P>>, tasks: Tasks) -> Self {
        Self(Coalescer::new(Writes { source, unwaited: Mutex::default() }, tasks))
    }

    /// Writes a note by a write that begins from now on. `None` if the write was lost on the way: nobody knows then if
    /// the note is written.
    pub(crate) fn record(
        &self,
        writer: &Arc<dyn Writer>,
        cluster: Option<LogicalCluster>,
        name: T::Name,
        note: T::Note,
    ) -> impl Future<Output = Option<T::Outcome>> + Send + use<T, P> {
        self.0.ask((cluster, name), PendingNote { writer: Arc::clone(writer), note }, false)
    }

    /// Lets the next write of the object, whoever asks for it, write this note too.
    pub(crate) fn record_with_next(&self, cluster: Option<LogicalCluster>, name: T::Name, note: T::Note) {
        self.0.batch_job().unwaited().entry((cluster, name)).or_default().push(note);
    }

    /// Takes back what [`Self::record_with_next`] asked for. Returns false if the note is written.
    pub(crate) fn take_back(&self, cluster: Option<LogicalCluster>, name: T::Name, note: &T::Note) -> bool {
        self.0.batch_job().take(&(cluster, name), note)
    }
}

impl<T: CountedObject, P: ApiReader> Clone for SharedWriter<T, P> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<T: CountedObject, P> Writes<T, P> {
    fn unwaited(&self) -> MutexGuard<'_, BTreeMap<Key<T>, Vec<T::Note>>> {
        self.unwaited.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes one note away. Returns false if that was done before.
    fn take(&self, key: &Key<T>, note: &T::Note) -> bool {
        let mut unwaited = self.unwaited();
        let Some(notes) = unwaited.get_mut(key) else { return false };
        let position = notes.iter().position(|other| other == note);
        position.map(|position| notes.swap_remove(position));
        if notes.is_empty() {
            unwaited.remove(key);
        }
        position.is_some()
    }
}

impl<T: CountedObject, P: ApiReader> BatchJob for Writes<T, P> {
    type Key = Key<T>;
    type Job = PendingNote<T>;
    type Answer = T::Outcome;

    const THRESHOLDS: Thresholds = Thresholds::TOGETHER;

    async fn run_batch(run: BatchRun<Self>) {
        let job = run.batch_job();
        let source = &job.source;
        let (cluster, name) = run.key().clone();
        let Some(permit) = source.enter(Size::Small, T::ESTIMATE).await else { return };
        let Some(members) = run.begin() else { return };
        let Some(writer) = members.first().map(|(_, pending)| Arc::clone(&pending.writer)) else { return };
        let unwaited = job.unwaited().get(run.key()).cloned().unwrap_or_default();
        let (tickets, notes): (Vec<_>, Vec<_>) =
            members.into_iter().map(|(ticket, pending)| (ticket, pending.note)).unzip();
        T::noted(source.metrics(), notes.len() + unwaited.len());
        // Each note is judged after the ones before it: removals make room.
        let mut write = SharedWrite::<T>::new(name, unwaited.iter().cloned().chain(notes).collect());
        let mut permit = Some(permit);
        while let Some(ask) = write.request(cluster.as_ref()) {
            let here = match permit.take() {
                Some(permit) => Some(permit),
                None => source.enter(Size::Small, T::ESTIMATE).await,
            };
            let Some(here) = here else { return };
            let page = source.send(&*writer, &ask, here).await;
            if let Ask::Send(send) = &ask {
                T::written(source.metrics(), send.body.len(), &page.fetched);
            }
            write.answer(page.fetched.as_answer());
        }
        if write.is_done() {
            for note in &unwaited {
                job.take(run.key(), note);
            }
        }
        for (number, ticket) in tickets.into_iter().enumerate() {
            run.answer(ticket, write.outcome(unwaited.len() + number));
        }
    }
}

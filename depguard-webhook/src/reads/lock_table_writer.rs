//! Writes of lock tables: entries that many reviews have to note in one table at the same time are written together.
//!
//! A table is one object, and each lock of its kind is noted in it before the lock is stored. If the writes came one by
//! one, locks that are made at once would wait for each other, and the last of them in vain. So one write is under way
//! and one waits, and no review is answered by a write that was sent before the review came.

use std::sync::Arc;

use depguard_core::LogicalCluster;
use depguard_core::locks::{Ask, Entry, TableName, TableNote, TableWrite};
use depguard_core::protocol::Unresolved;

use crate::coalesce::batcher::Thresholds;
use crate::coalesce::executor::{BatchJob, BatchRun, Coalescer};
use crate::limits::read_budget::Size;
use crate::ports::api_reader::{ApiReader, Writer};
use crate::reads::bounded_reader::BoundedReader;
use crate::server::tasks::Tasks;

/// Estimated length of a table, in bytes: at most a few tables are long.
const ESTIMATE: usize = 16 << 10;

/// Writes under way, by table.
pub(crate) struct LockTableWriter<P: ApiReader>(Coalescer<Writes<P>>);

struct Writes<P>(Arc<BoundedReader<P>>);

/// Entries that one review has to note, and the writer to use.
struct PendingEntries {
    writer: Arc<dyn Writer>,
    entries: Vec<Entry>,
}

impl<P: ApiReader> LockTableWriter<P> {
    pub(crate) fn new(source: Arc<BoundedReader<P>>, tasks: Tasks) -> Self {
        Self(Coalescer::new(Writes(source), tasks))
    }

    /// Notes entries by a write that begins from now on, and returns the result. `None` if it was lost on the way.
    pub(crate) async fn note(&self, writer: &Arc<dyn Writer>, note: TableNote) -> Option<Result<(), Unresolved>> {
        let TableNote { cluster, table, entries } = note;
        self.0.ask((cluster, table), PendingEntries { writer: Arc::clone(writer), entries }, false).await
    }
}

impl<P: ApiReader> BatchJob for Writes<P> {
    type Key = (Option<LogicalCluster>, TableName);
    type Job = PendingEntries;
    type Answer = Result<(), Unresolved>;

    const THRESHOLDS: Thresholds = Thresholds::TOGETHER;

    async fn run_batch(run: BatchRun<Self>) {
        let source = Arc::clone(&run.batch_job().0);
        let (cluster, table) = run.key().clone();
        let Some(permit) = source.enter(Size::Small, ESTIMATE).await else { return };
        let Some(members) = run.begin() else { return };
        let Some(writer) = members.first().map(|(_, noting)| Arc::clone(&noting.writer)) else { return };
        source.metrics().shared(Size::Small, members.len());
        let (tickets, notes): (Vec<_>, Vec<_>) =
            members.into_iter().map(|(ticket, noting)| (ticket, noting.entries)).unzip();
        let mut write = TableWrite::new(table, notes);
        let mut permit = Some(permit);
        while let Some(ask) = write.ask(cluster.as_ref()) {
            let here = match permit.take() {
                Some(permit) => Some(permit),
                None => source.enter(Size::Small, ESTIMATE).await,
            };
            let Some(here) = here else { return };
            let page = match &ask {
                Ask::Get(query) => source.fetch(query, here).await,
                Ask::Send(send) => source.send(&*writer, send, here).await,
            };
            write.answer(page.fetched.as_answer());
        }
        for (note, ticket) in tickets.into_iter().enumerate() {
            run.answer(ticket, write.outcome(note));
        }
    }
}

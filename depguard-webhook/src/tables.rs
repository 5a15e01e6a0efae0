//! Writes of lock tables: what many reviews have to note in one table at the same time is written together.
//!
//! A table is one object, and each lock of its kind is noted in it before it is stored. Written one by one, as many locks as
//! are made at once would wait for each other, and the last of them in vain. So one write is under way and one waits, and
//! nobody is answered by what was sent before he came.

use std::sync::Arc;

use depguard_core::LogicalCluster;
use depguard_core::locks::{Ask, Entry, TableName, TableNote, TableWrite};

use crate::board::{Board, Carrier, Scanning};
use crate::budget::Size;
use crate::lanes::Bounds;
use crate::port::{Port, Writer};
use crate::source::Source;
use crate::tasks::Tasks;

/// About what a table is long, in bytes: at most a few of them long.
const ESTIMATE: usize = 16 << 10;

/// The writes under way, by table.
pub(crate) struct Tables<P: Port>(Board<Writes<P>>);

struct Writes<P>(Arc<Source<P>>);

/// What one review has to note, and by whom that is written.
struct Noting {
    writer: Arc<dyn Writer>,
    entries: Vec<Entry>,
}

impl<P: Port> Tables<P> {
    pub(crate) fn new(source: Arc<Source<P>>, tasks: Tasks) -> Self {
        Self(Board::new(Writes(source), tasks))
    }

    /// What came of a note, by what is written from now on. `None`: it was lost on the way.
    pub(crate) async fn note(&self, writer: &Arc<dyn Writer>, note: TableNote) -> Option<Result<(), String>> {
        let TableNote { cluster, table, entries } = note;
        self.0.ask((cluster, table), Noting { writer: Arc::clone(writer), entries }, false).await
    }
}

impl<P: Port> Carrier for Writes<P> {
    type Key = (Option<LogicalCluster>, TableName);
    type Job = Noting;
    type Answer = Result<(), String>;

    const BOUNDS: Bounds = Bounds::TOGETHER;

    async fn scan(scanning: Scanning<Self>) {
        let source = Arc::clone(&scanning.carrier().0);
        let (cluster, table) = scanning.key().clone();
        let Some(room) = source.enter(Size::Small, ESTIMATE).await else { return };
        let Some(members) = scanning.begin() else { return };
        let Some(writer) = members.first().map(|(_, noting)| Arc::clone(&noting.writer)) else { return };
        source.metrics().shared(Size::Small, members.len());
        let (tickets, notes): (Vec<_>, Vec<_>) =
            members.into_iter().map(|(ticket, noting)| (ticket, noting.entries)).unzip();
        let mut write = TableWrite::new(table, notes);
        let mut room = Some(room);
        while let Some(ask) = write.ask(cluster.as_ref()) {
            let here = match room.take() {
                Some(room) => Some(room),
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
            scanning.answer(ticket, write.outcome(note));
        }
    }
}

//! Reads of the same path that are asked for at the same time: one answers them all.
//!
//! A thousand deletions at once want the same bindings a thousand times. As with lists, one read runs and one waits, and
//! nobody is answered by what was sent before he asked.

use std::sync::Arc;

use depguard_core::{Accept, ExportName, LogicalCluster, Query};

use crate::board::{Board, Carrier, Scanning};
use crate::budget::Size;
use crate::lanes::Bounds;
use crate::port::Port;
use crate::source::{Page, Source};
use crate::tasks::Tasks;

/// About what a read of a few objects brings, in bytes.
const ESTIMATE: usize = 64 << 10;

/// The reads under way, by what they ask for.
pub(crate) struct Gets<P: Port>(Board<Reads<P>>);

struct Reads<P>(Arc<Source<P>>);

/// What makes two queries one.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Asked {
    cluster: Option<LogicalCluster>,
    export: Option<(LogicalCluster, ExportName)>,
    path: String,
    accept: Accept,
}

impl<P: Port> Gets<P> {
    pub(crate) fn new(source: Arc<Source<P>>, tasks: Tasks) -> Self {
        Self(Board::new(Reads(source), tasks))
    }

    /// Where they are read from.
    pub(crate) fn source(&self) -> &Source<P> {
        &self.0.carrier().0
    }

    /// The answer to a query by what is sent from now on. `None`: it was lost on the way.
    pub(crate) async fn get(&self, query: &Query) -> Option<Arc<Page>> {
        let Query { cluster, export, path, accept, .. } = query.clone();
        self.0.ask(Asked { cluster, export, path, accept }, query.clone(), false).await
    }
}

impl<P: Port> Carrier for Reads<P> {
    type Key = Asked;
    type Job = Query;
    type Answer = Arc<Page>;

    const BOUNDS: Bounds = Bounds::TOGETHER;

    async fn scan(scanning: Scanning<Self>) {
        let source = Arc::clone(&scanning.carrier().0);
        let Some(room) = source.enter(Size::Small, ESTIMATE).await else { return };
        let Some(members) = scanning.begin() else { return };
        // They are the same but for their ids.
        let Some((_, query)) = members.first() else { return };
        source.metrics().shared(Size::Small, members.len());
        let page = Arc::new(source.fetch(query, room).await);
        for (ticket, _) in members {
            scanning.answer(ticket, Arc::clone(&page));
        }
    }
}

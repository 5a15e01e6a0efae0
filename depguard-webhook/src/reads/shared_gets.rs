//! Shared reads: one read answers all requests for the same path that come at the same time.
//!
//! A thousand deletions at once need the same bindings a thousand times. As with lists, one read runs and one waits,
//! and nobody is answered by a read that was sent before they asked.

use std::sync::Arc;

use depguard_core::protocol::Accept;
use depguard_core::{ExportName, LogicalCluster, Query};

use crate::coalesce::batcher::Thresholds;
use crate::coalesce::executor::{BatchJob, BatchRun, Coalescer};
use crate::limits::read_budget::Size;
use crate::ports::api_reader::ApiReader;
use crate::reads::bounded_reader::{BoundedReader, Page};
use crate::server::tasks::Tasks;
use crate::traces::{ReadSpan, ReadStats};

/// Estimated bytes of a read of a few objects.
const ESTIMATE: usize = 64 << 10;

/// Reads under way, by their request.
pub(crate) struct SharedGets<P: ApiReader>(Coalescer<Gets<P>>);

struct Gets<P>(Arc<BoundedReader<P>>);

/// Request of a read: two queries with the same request are one read.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct ReadKey {
    cluster: Option<LogicalCluster>,
    export: Option<(LogicalCluster, ExportName)>,
    path: String,
    accept: Accept,
}

impl<P: ApiReader> SharedGets<P> {
    pub(crate) fn new(source: Arc<BoundedReader<P>>, tasks: Tasks) -> Self {
        Self(Coalescer::new(Gets(source), tasks))
    }

    /// Returns the source of the reads.
    pub(crate) fn source(&self) -> &Arc<BoundedReader<P>> {
        &self.0.batch_job().0
    }

    /// Answers a query by a read that is sent from now on. `None` if it was lost on the way.
    pub(crate) async fn get(&self, query: &Query) -> Option<Arc<Page>> {
        let span = ReadSpan::get(query);
        let Query { cluster, export, path, accept, .. } = query.clone();
        let page = self.0.ask(ReadKey { cluster, export, path, accept }, query.clone(), false).await;
        span.end(page.as_ref().map(|page| ReadStats::one(&page.fetched)).unwrap_or_default());
        page
    }
}

impl<P: ApiReader> BatchJob for Gets<P> {
    type Key = ReadKey;
    type Job = Query;
    type Answer = Arc<Page>;

    const THRESHOLDS: Thresholds = Thresholds::TOGETHER;

    async fn run_batch(run: BatchRun<Self>) {
        let source = Arc::clone(&run.batch_job().0);
        let Some(permit) = source.enter(Size::Small, ESTIMATE).await else { return };
        let Some(members) = run.begin() else { return };
        // The queries differ only in their ids.
        let Some((_, query)) = members.first() else { return };
        source.metrics().shared(Size::Small, members.len());
        let page = Arc::new(source.fetch(query, permit).await);
        for (ticket, _) in members {
            run.answer(ticket, Arc::clone(&page));
        }
    }
}

impl<P: ApiReader> Clone for SharedGets<P> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

//! Reads of lists, page by page: while one page is searched, the next is on its way.

use std::sync::Arc;

use bytes::BytesMut;
use depguard_core::lookup::ListReader;
use depguard_core::protocol::Request;
use tokio::sync::oneshot;
use tokio_util::sync::{CancellationToken, DropGuard};

use crate::limits::read_budget::{BytePermit, Size};
use crate::ports::api_reader::{ApiReader, Fetched};
use crate::reads::bounded_reader::{BoundedReader, Page};
use crate::server::tasks::Tasks;
use crate::traces::ReadStats;

/// Estimated bytes of a list's first page: 500 objects of 2 kB.
pub(crate) const FIRST_PAGE: usize = 1 << 20;
/// Minimum estimate for any page.
const LEAST: usize = 64 << 10;

/// List that is being read. At most two of its pages are held.
pub(crate) struct PageReader<P> {
    source: Arc<BoundedReader<P>>,
    tasks: Tasks,
    size: Size,
    /// Room for the first page, taken before the list begins.
    permit: Option<BytePermit>,
    /// Estimated bytes of the next page.
    estimate: usize,
    /// Buffer of the last page but one: memory that is used again costs less than fresh memory.
    buffer: BytesMut,
    stats: ReadStats,
}

/// Page that is requested before the previous page was searched. The request is given up when this is dropped.
struct Prefetch {
    request: Request,
    page: oneshot::Receiver<Page>,
    _given_up: DropGuard,
}

impl<P: ApiReader> PageReader<P> {
    /// Makes a reader of `source`, with `permit` for the first page.
    pub(crate) fn new(source: Arc<BoundedReader<P>>, tasks: Tasks, size: Size, permit: BytePermit) -> Self {
        Self {
            source,
            tasks,
            size,
            estimate: permit.size(),
            permit: Some(permit),
            buffer: BytesMut::new(),
            stats: ReadStats::default(),
        }
    }

    /// Reads until the reading has ended; `look` is called with the reading before each answer.
    pub(crate) async fn read(&mut self, reading: &mut ListReader, mut look: impl FnMut(&mut ListReader)) {
        let mut prefetch = None::<Prefetch>;
        while let Some(request) = reading.next() {
            // A page that nobody waits for is dropped before anything is waited for, and with it the room that it takes up.
            let page = match prefetch.take().filter(|prefetch| prefetch.request == request) {
                Some(prefetch) => prefetch.page.await.ok(),
                None => self.fetch(reading, &request).await,
            };
            let Some(page) = page else { return };
            self.stats.count(&page.fetched);
            look(reading);
            if let Fetched::Response { status: 200, body } = &page.fetched {
                self.estimate = (body.len() + body.len() / 8).max(LEAST);
                if let Some(next) = reading.prefetch(body) {
                    prefetch = Some(self.prefetch(reading, next));
                    // Lets the request be sent: the search keeps this thread busy.
                    tokio::task::yield_now().await;
                }
            }
            reading.answer(page.fetched.as_answer());
            self.buffer = page.into_buffer();
        }
    }

    /// Returns the counts of all pages that were read.
    pub(crate) fn stats(&self) -> ReadStats {
        self.stats
    }

    async fn fetch(&mut self, reading: &ListReader, request: &Request) -> Option<Page> {
        let permit = match self.permit.take() {
            Some(permit) => permit,
            None => self.source.enter(self.size, self.estimate).await?,
        };
        Some(self.source.fetch(&reading.query(request.clone()), permit).await)
    }

    fn prefetch(&mut self, reading: &ListReader, request: Request) -> Prefetch {
        let query = reading.query(request.clone());
        let (source, size, estimate) = (Arc::clone(&self.source), self.size, self.estimate);
        let buffer = std::mem::take(&mut self.buffer);
        let given_up = CancellationToken::new();
        let (done, page) = oneshot::channel();
        let fetch = given_up.clone().run_until_cancelled_owned(async move {
            if let Some(mut permit) = source.enter(size, estimate).await {
                permit.reuse(buffer);
                // The receiver either waits for this page or has given it up.
                let _ = done.send(source.fetch(&query, permit).await);
            }
        });
        self.tasks.spawn(async {
            fetch.await;
        });
        Prefetch { request, page, _given_up: given_up.drop_guard() }
    }
}

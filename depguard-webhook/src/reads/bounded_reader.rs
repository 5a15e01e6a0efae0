//! Reads through a port, with a limit to the bytes that are held at once.

use std::sync::Arc;

use bytes::BytesMut;
use depguard_core::Query;
use depguard_core::protocol::Ask;

use crate::limits::read_budget::{Budget, BytePermit, Size};
use crate::metrics::Metrics;
use crate::ports::api_reader::{ApiReader, Fetched, Writer};

/// Source of all reads.
pub(crate) struct BoundedReader<P> {
    port: P,
    budget: Budget,
    metrics: Arc<Metrics>,
}

/// Result of a query. Its bytes count in the budget until the page is dropped.
pub(crate) struct Page {
    pub(crate) fetched: Fetched,
    _permit: Option<BytePermit>,
}

/// Maximum size of a buffer that is kept for the next page.
const MAX_KEPT: usize = 2 << 20;

impl Page {
    /// Returns the buffer of the body, to be used again.
    pub(crate) fn into_buffer(self) -> BytesMut {
        match self.fetched {
            Fetched::Response { body, .. } if body.len() <= MAX_KEPT => {
                let mut buffer = body.try_into_mut().unwrap_or_default();
                buffer.clear();
                buffer
            }
            _ => BytesMut::new(),
        }
    }
}

impl<P: ApiReader> BoundedReader<P> {
    pub(crate) fn new(port: P, budget: Budget, metrics: Arc<Metrics>) -> Self {
        Self { port, budget, metrics }
    }

    /// Returns the budget of reads.
    pub(crate) fn budget(&self) -> &Budget {
        &self.budget
    }

    /// Returns the metrics that count reads.
    pub(crate) fn metrics(&self) -> &Metrics {
        &self.metrics
    }

    /// Waits for a place to read, and for room for about so many bytes.
    pub(crate) async fn enter(&self, size: Size, estimate: usize) -> Option<BytePermit> {
        self.budget.enter(size, estimate).await
    }

    /// Sends a request that is more than a read, or the read before a write.
    pub(crate) async fn send(&self, writer: &dyn Writer, ask: &Ask, mut permit: BytePermit) -> Page {
        let fetched = writer.send(ask, &mut permit).await;
        self.page(fetched, permit)
    }

    /// Counts an answer, and keeps its bytes in the budget.
    fn page(&self, fetched: Fetched, mut permit: BytePermit) -> Page {
        self.metrics.fetched(permit.reads(), &fetched);
        permit.settle(fetched.size());
        Page { fetched, _permit: Some(permit) }
    }

    /// Sends the query.
    pub(crate) async fn fetch(&self, query: &Query, mut permit: BytePermit) -> Page {
        loop {
            let fetched = self.port.get_within(query, &mut permit).await;
            self.metrics.fetched(permit.reads(), &fetched);
            match (&fetched, permit.refused()) {
                // Only others' room stood in the way: the query is sent once more, with all the room that a body may
                // have.
                (Fetched::TooLarge, Some((size, most))) => {
                    drop(permit);
                    match self.enter(size, most).await {
                        Some(whole) => permit = whole,
                        None => return Page { fetched, _permit: None },
                    }
                }
                _ => {
                    permit.settle(fetched.size());
                    return Page { fetched, _permit: Some(permit) };
                }
            }
        }
    }
}

//! A port, and how much of what it gives is held at once.

use std::sync::Arc;

use bytes::BytesMut;
use depguard_core::{Query, locks};

use crate::budget::{Budget, Room, Size};
use crate::metrics::Metrics;
use crate::port::{Fetched, Port, Writer};

/// Where everything is read from.
pub(crate) struct Source<P> {
    port: P,
    budget: Budget,
    metrics: Arc<Metrics>,
}

/// What came of a query. Its bytes count among those under way until it is dropped.
pub(crate) struct Page {
    pub(crate) fetched: Fetched,
    _room: Option<Room>,
}

/// A larger buffer is not kept for the next page.
const MOST_KEPT: usize = 2 << 20;

impl Page {
    /// The buffer of the body, to be used again.
    pub(crate) fn into_buffer(self) -> BytesMut {
        match self.fetched {
            Fetched::Response { body, .. } if body.len() <= MOST_KEPT => {
                let mut buffer = body.try_into_mut().unwrap_or_default();
                buffer.clear();
                buffer
            }
            _ => BytesMut::new(),
        }
    }
}

impl<P: Port> Source<P> {
    pub(crate) fn new(port: P, budget: Budget, metrics: Arc<Metrics>) -> Self {
        Self { port, budget, metrics }
    }

    /// What may be read at once, and how much of that is taken.
    pub(crate) fn budget(&self) -> &Budget {
        &self.budget
    }

    /// Where what is read is counted.
    pub(crate) fn metrics(&self) -> &Metrics {
        &self.metrics
    }

    /// Waits for a place to read, and for room for about so many bytes.
    pub(crate) async fn enter(&self, size: Size, estimate: usize) -> Option<Room> {
        self.budget.enter(size, estimate).await
    }

    /// Sends what is not only read.
    pub(crate) async fn send(&self, writer: &dyn Writer, send: &locks::Send, mut room: Room) -> Page {
        let fetched = writer.send(send, &mut room).await;
        self.metrics.fetched(room.reads(), &fetched);
        room.settle(fetched.size());
        Page { fetched, _room: Some(room) }
    }

    /// Sends the query.
    pub(crate) async fn fetch(&self, query: &Query, mut room: Room) -> Page {
        loop {
            let fetched = self.port.get_within(query, &mut room).await;
            self.metrics.fetched(room.reads(), &fetched);
            match (&fetched, room.refused()) {
                // Only what others read stood in the way: once more, with all the room that a body may have.
                (Fetched::TooLarge, Some((size, most))) => {
                    drop(room);
                    match self.enter(size, most).await {
                        Some(whole) => room = whole,
                        None => return Page { fetched, _room: None },
                    }
                }
                _ => {
                    room.settle(fetched.size());
                    return Page { fetched, _room: Some(room) };
                }
            }
        }
    }
}

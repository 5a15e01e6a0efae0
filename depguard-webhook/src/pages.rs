//! Reads lists page by page: while one is searched, the next is on its way.

use std::sync::Arc;

use bytes::BytesMut;
use depguard_core::{Reading, Request};
use tokio::sync::oneshot;
use tokio_util::sync::{CancellationToken, DropGuard};

use crate::budget::{Room, Size};
use crate::port::{Fetched, Port};
use crate::source::{Page, Source};
use crate::tasks::Tasks;

/// About what the first page of a list brings, in bytes: 500 objects of 2 kB.
pub(crate) const FIRST_PAGE: usize = 1 << 20;
/// The least that is expected of any page.
const LEAST: usize = 64 << 10;

/// A list that is being read. At most two pages of it are held.
pub(crate) struct Pages<P> {
    source: Arc<Source<P>>,
    tasks: Tasks,
    size: Size,
    /// For the first page: whoever waits to begin has it before he begins.
    room: Option<Room>,
    /// What the next page is expected to bring.
    estimate: usize,
    /// What the last page but one was read into: memory that is used again costs less than fresh one.
    buffer: BytesMut,
}

/// A page that is asked for before the one before it was searched. Dropped, it is given up.
struct Ahead {
    request: Request,
    page: oneshot::Receiver<Page>,
    _given_up: DropGuard,
}

impl<P: Port> Pages<P> {
    /// Reads from `source`, the first page into `room`.
    pub(crate) fn new(source: Arc<Source<P>>, tasks: Tasks, size: Size, room: Room) -> Self {
        Self { source, tasks, size, estimate: room.size(), room: Some(room), buffer: BytesMut::new() }
    }

    /// Reads until the reading has ended; `look` is shown it before each answer that it takes.
    pub(crate) async fn read(&mut self, reading: &mut Reading, mut look: impl FnMut(&mut Reading)) {
        let mut ahead = None::<Ahead>;
        while let Some(request) = reading.next() {
            // One that is not wanted is dropped before anything is waited for, with the room that it takes up.
            let page = match ahead.take().filter(|ahead| ahead.request == request) {
                Some(ahead) => ahead.page.await.ok(),
                None => self.fetch(reading, &request).await,
            };
            let Some(page) = page else { return };
            look(reading);
            if let Fetched::Response { status: 200, body } = &page.fetched {
                self.estimate = (body.len() + body.len() / 8).max(LEAST);
                if let Some(next) = reading.ahead(body) {
                    ahead = Some(self.fetch_ahead(reading, next));
                    // Lets it be sent: searching takes this thread for itself.
                    tokio::task::yield_now().await;
                }
            }
            reading.answer(page.fetched.as_answer());
            self.buffer = page.into_buffer();
        }
    }

    async fn fetch(&mut self, reading: &Reading, request: &Request) -> Option<Page> {
        let room = match self.room.take() {
            Some(room) => room,
            None => self.source.enter(self.size, self.estimate).await?,
        };
        Some(self.source.fetch(&reading.query(request.clone()), room).await)
    }

    fn fetch_ahead(&mut self, reading: &Reading, request: Request) -> Ahead {
        let query = reading.query(request.clone());
        let (source, size, estimate) = (Arc::clone(&self.source), self.size, self.estimate);
        let buffer = std::mem::take(&mut self.buffer);
        let given_up = CancellationToken::new();
        let (done, page) = oneshot::channel();
        let fetch = given_up.clone().run_until_cancelled_owned(async move {
            if let Some(mut room) = source.enter(size, estimate).await {
                room.reuse(buffer);
                // Given up in the meantime, or else awaited.
                let _ = done.send(source.fetch(&query, room).await);
            }
        });
        self.tasks.spawn(async {
            fetch.await;
        });
        Ahead { request, page, _given_up: given_up.drop_guard() }
    }
}

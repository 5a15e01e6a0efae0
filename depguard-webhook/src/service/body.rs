//! Reads of requests' bodies, within bounds.

use std::collections::BTreeMap;
use std::error::Error;
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Buf;
use http_body_util::BodyExt;
use hyper::body::Body;
use tokio::sync::{self, Notify, OwnedSemaphorePermit};
use tokio::time::{Instant, sleep};

use crate::limits::gauged_semaphore::GaugedSemaphore;

/// Bytes of a body beyond its limit that are read and thrown away, as a multiple of the limit. A client that still writes
/// when the server closes the connection may never see the answer.
const DISCARDED_LIMITS: usize = 4;
/// Bytes that a body must bring to count as going on: whoever sends a byte from time to time stalls.
const STEP: usize = 64 << 10;
/// Time without such a step after which a body may have to give way.
const STALL: Duration = Duration::from_millis(500);
/// Time after which the next body must give way, if there is still no room.
const NEXT: Duration = Duration::from_millis(20);

/// Room for the bodies of reviews. While a body waits for room, the one that has stalled for longest gives way.
pub(crate) struct Bodies {
    room: GaugedSemaphore,
    /// Body that is the next to get room.
    first: sync::Mutex<()>,
    /// Bodies that are being read, each with the time of its last step.
    reading: Mutex<BTreeMap<u64, (Instant, Arc<Notify>)>>,
    begun: AtomicU64,
}

/// Bytes of one body, and the room that they take up.
///
/// The bytes stay readable after an error: the beginning of a review tells whom to answer.
pub(crate) struct ReviewBody<'b> {
    read: Vec<u8>,
    limit: usize,
    bodies: &'b Bodies,
    taken: Option<OwnedSemaphorePermit>,
}

/// Body that is being read, until this is dropped.
struct Reading<'b> {
    bodies: &'b Bodies,
    number: u64,
    gives_way: Arc<Notify>,
}

/// Reason why a body was not read to its end.
#[derive(Debug, thiserror::Error)]
pub(crate) enum BodyError {
    #[error("the review is larger than {} KiB", .0 >> 10)]
    TooLarge(usize),
    #[error("the connection broke while the webhook read the review: {0}")]
    Broken(String),
    #[error("the review stalled on its way while others waited for memory; retry later")]
    Stalled,
}

impl Bodies {
    /// Makes room for so many bytes.
    pub(crate) fn new(room: GaugedSemaphore) -> Self {
        Self { room, first: sync::Mutex::default(), reading: Mutex::default(), begun: AtomicU64::default() }
    }

    /// Takes room for so many bytes, after everybody who came before.
    async fn take(&self, bytes: u32) -> Option<OwnedSemaphorePermit> {
        let _first = self.first.lock().await;
        let mut taken = pin!(self.room.semaphore().acquire_many_owned(bytes));
        loop {
            tokio::select! {
                biased;
                taken = taken.as_mut() => return taken.ok(),
                () = sleep(NEXT) => self.end_stalled(),
            }
        }
    }

    /// Ends the body that has been without a step for longest, if that is long.
    fn end_stalled(&self) {
        let mut reading = self.reading.lock().unwrap_or_else(PoisonError::into_inner);
        let longest =
            reading.iter().min_by_key(|(_, (step, _))| *step).filter(|(_, (step, _))| step.elapsed() >= STALL);
        if let Some((_, gives_way)) = longest.map(|(number, _)| *number).and_then(|number| reading.remove(&number)) {
            gives_way.notify_one();
        }
    }

    fn begin(&self) -> Reading<'_> {
        let reading =
            Reading { bodies: self, number: self.begun.fetch_add(1, Ordering::Relaxed), gives_way: Arc::default() };
        reading.step();
        reading
    }
}

impl Reading<'_> {
    fn step(&self) {
        let mut reading = self.bodies.reading.lock().unwrap_or_else(PoisonError::into_inner);
        reading.insert(self.number, (Instant::now(), Arc::clone(&self.gives_way)));
    }
}

impl Drop for Reading<'_> {
    fn drop(&mut self) {
        self.bodies.reading.lock().unwrap_or_else(PoisonError::into_inner).remove(&self.number);
    }
}

impl<'b> ReviewBody<'b> {
    /// Makes an empty body for at most `limit` bytes, each of which takes up room for a byte.
    pub(crate) fn new(limit: usize, bodies: &'b Bodies) -> Self {
        Self { read: Vec::new(), limit, bodies, taken: None }
    }

    /// Returns the bytes that have been read.
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.read
    }

    /// Reads the body up to the limit, and waits for room if other bodies take it up. The wait comes before the first
    /// read, for all the room that the body may need: bodies that hold some room and wait for more would wait for each
    /// other.
    pub(crate) async fn fill<B>(&mut self, body: B) -> Result<(), BodyError>
    where
        B: Body<Error: Into<Box<dyn Error + Send + Sync>>>,
    {
        let announced = body.size_hint().upper().and_then(|bytes| usize::try_from(bytes).ok());
        let most = announced.map_or(self.limit, |announced| announced.min(self.limit));
        self.take_room(most).await?;
        let reading = self.bodies.begin();
        tokio::select! {
            read = self.read(body, most, &reading) => read?,
            () = reading.gives_way.notified() => return Err(BodyError::Stalled),
        }
        self.give_back();
        Ok(())
    }

    async fn read<B>(&mut self, body: B, most: usize, reading: &Reading<'_>) -> Result<(), BodyError>
    where
        B: Body<Error: Into<Box<dyn Error + Send + Sync>>>,
    {
        let mut body = pin!(body);
        let mut step = STEP;
        while let Some(frame) = body.frame().await {
            let frame = frame.map_err(|why| BodyError::Broken(why.into().to_string()))?;
            let Ok(mut data) = frame.into_data() else { continue };
            let fits = data.remaining().min(most.saturating_sub(self.read.len()));
            self.grow(fits, most);
            self.read.extend_from_slice(&data.copy_to_bytes(fits));
            if data.has_remaining() {
                discard(body, self.limit.saturating_mul(DISCARDED_LIMITS)).await;
                return Err(BodyError::TooLarge(self.limit));
            }
            if self.read.len() >= step {
                step = self.read.len().saturating_add(STEP);
                reading.step();
            }
        }
        Ok(())
    }

    async fn take_room(&mut self, bytes: usize) -> Result<(), BodyError> {
        let permits = u32::try_from(bytes).map_err(|_| BodyError::TooLarge(self.limit))?;
        let taken = self.bodies.take(permits).await;
        self.taken = Some(taken.ok_or_else(|| BodyError::Broken("the server is going away".to_owned()))?);
        Ok(())
    }

    /// Allocates for so many more bytes, as a vector grows, and never for more than there is room.
    fn grow(&mut self, bytes: usize, most: usize) {
        let (capacity, needed) = (self.read.capacity(), self.read.len().saturating_add(bytes));
        if needed > capacity {
            let target = capacity.saturating_mul(2).min(most).max(needed);
            self.read.reserve_exact(target.saturating_sub(self.read.len()));
        }
    }

    /// Gives back the room that the body did not need: only the allocated bytes count.
    fn give_back(&mut self) {
        if let Some(taken) = &mut self.taken {
            let spare = taken.num_permits().saturating_sub(self.read.capacity());
            drop(taken.split(spare));
        }
    }
}

/// Reads on until the end of the body, an error, or more than `most` bytes.
async fn discard<B: Body>(mut body: Pin<&mut B>, most: usize) {
    let mut discarded = 0_usize;
    while discarded <= most
        && let Some(Ok(frame)) = body.frame().await
    {
        discarded = discarded.saturating_add(frame.data_ref().map_or(0, Buf::remaining));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures::StreamExt;
    use http_body_util::{Full, StreamBody};
    use hyper::body::Frame;

    fn bodies(bytes: usize) -> Bodies {
        Bodies::new(GaugedSemaphore::new(bytes))
    }

    fn whole(bytes: &'static [u8]) -> Full<&'static [u8]> {
        Full::new(bytes)
    }

    #[tokio::test]
    async fn a_body_of_just_the_limit_is_read() {
        let bodies = bodies(10);
        let mut body = ReviewBody::new(4, &bodies);
        body.fill(whole(b"abcd")).await.unwrap();
        assert_eq!(body.bytes(), b"abcd");
    }

    #[tokio::test]
    async fn one_byte_more_is_too_large_and_the_beginning_is_kept() {
        let frames = [&b"abc"[..], b"de"].map(|part| Ok::<_, std::io::Error>(Frame::data(part)));
        let bodies = bodies(10);
        let mut body = ReviewBody::new(4, &bodies);
        let error = body.fill(StreamBody::new(futures::stream::iter(frames))).await;
        assert!(matches!(error, Err(BodyError::TooLarge(4))));
        assert_eq!(body.bytes(), b"abcd");
    }

    #[tokio::test]
    async fn the_rest_of_a_body_that_is_too_large_is_read_within_bounds() {
        // By a limit of 4 bytes, 16 more are thrown away, and the frame that shows that there are still more.
        for (frames, unread) in [(3, 0), (20, 12)] {
            let frame = || Ok::<_, std::io::Error>(Frame::data(&b"abc"[..]));
            let mut rest = futures::stream::iter(std::iter::repeat_with(frame).take(frames));
            let error = ReviewBody::new(4, &bodies(10)).fill(StreamBody::new(&mut rest)).await;
            assert!(matches!(error, Err(BodyError::TooLarge(4))));
            assert_eq!(rest.count().await, unread, "of {frames} frames");
        }
    }

    #[tokio::test]
    async fn a_body_that_breaks_off_is_an_error() {
        let frames = [Ok(Frame::data(&b"abc"[..])), Err(std::io::Error::other("cut"))];
        let bodies = bodies(10);
        let mut body = ReviewBody::new(4, &bodies);
        let error = body.fill(StreamBody::new(futures::stream::iter(frames))).await.unwrap_err();
        assert_eq!(error.to_string(), "the connection broke while the webhook read the review: cut");
    }

    /// Returns a body of unknown length, which comes in two parts.
    fn in_parts() -> impl Body<Data = &'static [u8], Error = std::io::Error> {
        StreamBody::new(futures::stream::iter([&b"abc"[..], b"d"]).then(async |part| {
            tokio::time::sleep(Duration::from_millis(100)).await;
            Ok(Frame::data(part))
        }))
    }

    #[tokio::test(start_paused = true)]
    async fn bodies_that_need_all_the_room_together_do_not_wait_for_each_other() {
        let bodies = bodies(6);
        let read = async || {
            let mut body = ReviewBody::new(4, &bodies);
            body.fill(in_parts()).await.map(|()| body.bytes().to_vec())
        };
        let both = tokio::time::timeout(Duration::from_secs(60), async { tokio::join!(read(), read()) }).await;
        let (first, second) = both.expect("one waits for the other, which waits for it");
        assert_eq!((first.unwrap(), second.unwrap()), (b"abcd".to_vec(), b"abcd".to_vec()));
        assert_eq!(bodies.room.taken(), 0);
    }

    #[tokio::test]
    async fn room_that_was_not_needed_is_given_back_once_the_body_is_read() {
        let bodies = bodies(100);
        let mut body = ReviewBody::new(100, &bodies);
        let parts = [Ok::<_, std::io::Error>(Frame::data(&b"ab"[..]))];
        body.fill(StreamBody::new(futures::stream::iter(parts))).await.unwrap();
        assert_eq!(bodies.room.taken(), body.read.capacity());
        assert!(body.read.capacity() < 100);
    }

    #[tokio::test(start_paused = true)]
    async fn a_body_waits_for_the_room_that_others_take_up() {
        let bodies = bodies(6);
        let mut first = ReviewBody::new(4, &bodies);
        first.fill(whole(b"abcd")).await.unwrap();
        let mut second = ReviewBody::new(4, &bodies);
        let waited = tokio::time::timeout(Duration::from_secs(1), second.fill(whole(b"efgh"))).await;
        assert!(waited.is_err(), "there were no permits");
        drop(first);
        second.fill(whole(b"efgh")).await.unwrap();
        drop(second);
        assert_eq!(bodies.room.taken(), 0);
    }

    /// Returns a body of unknown length that sends `beginning`, and then a byte each 100 ms.
    fn stalling(beginning: &'static [u8]) -> impl Body<Data = &'static [u8], Error = std::io::Error> {
        let drops = futures::stream::repeat(&b"x"[..]).then(async |drop| {
            tokio::time::sleep(Duration::from_millis(100)).await;
            drop
        });
        StreamBody::new(futures::stream::iter([beginning]).chain(drops).map(|part| Ok(Frame::data(part))).boxed())
    }

    #[tokio::test(start_paused = true)]
    async fn only_the_body_that_stalls_longest_gives_way() {
        let bodies = bodies(100_000);
        let stalled = async |after: u64| {
            tokio::time::sleep(Duration::from_millis(after)).await;
            let mut body = ReviewBody::new(40_000, &bodies);
            (body.fill(stalling(b"abc")).await, body.bytes().starts_with(b"abc"))
        };
        let whole = async {
            tokio::time::sleep(Duration::from_secs(1)).await;
            ReviewBody::new(40_000, &bodies).fill(whole(&[b' '; 40_000])).await
        };
        tokio::select! {
            (later, _) = stalled(100) => panic!("{later:?} while another has stalled for longer"),
            ((first, keeps_beginning), whole) = async { tokio::join!(stalled(0), whole) } => {
                assert!(matches!(first, Err(BodyError::Stalled)) && keeps_beginning, "{first:?}");
                whole.unwrap();
            }
        }
    }
}

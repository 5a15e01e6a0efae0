//! Reading a request's body within bounds.

use std::error::Error;
use std::pin::pin;
use std::sync::Arc;

use bytes::Buf;
use http_body_util::BodyExt;
use hyper::body::Body;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// The bytes of one body, and the room that they take up.
///
/// What was read stays readable after an error: the beginning of a review tells whom to answer.
pub(crate) struct Bytes {
    read: Vec<u8>,
    limit: usize,
    room: Arc<Semaphore>,
    taken: Vec<OwnedSemaphorePermit>,
}

/// Why a body was not read to its end.
#[derive(Debug, thiserror::Error)]
pub(crate) enum BodyError {
    #[error("the review is larger than {} KiB", .0 >> 10)]
    TooLarge(usize),
    #[error("the review broke off while it was read: {0}")]
    Broken(String),
}

impl Bytes {
    /// Will read at most `limit` bytes, each taking up one permit of `room`.
    pub(crate) fn new(limit: usize, room: Arc<Semaphore>) -> Self {
        Self { read: Vec::new(), limit, room, taken: Vec::new() }
    }

    /// What has been read.
    pub(crate) fn read(&self) -> &[u8] {
        &self.read
    }

    /// Reads the body as far as the limit, waiting for room where other bodies take it up.
    pub(crate) async fn fill<B>(&mut self, body: B) -> Result<(), BodyError>
    where
        B: Body<Error: Into<Box<dyn Error + Send + Sync>>>,
    {
        let mut body = pin!(body);
        while let Some(frame) = body.frame().await {
            let frame = frame.map_err(|why| BodyError::Broken(why.into().to_string()))?;
            let Ok(mut data) = frame.into_data() else { continue };
            let fits = data.remaining().min(self.limit.saturating_sub(self.read.len()));
            self.make_room(self.read.len().saturating_add(fits)).await?;
            self.read.extend_from_slice(&data.copy_to_bytes(fits));
            if data.has_remaining() {
                return Err(BodyError::TooLarge(self.limit));
            }
        }
        Ok(())
    }

    /// For so many bytes in all, or some more, as a vector grows: what counts is what is allocated.
    async fn make_room(&mut self, bytes: usize) -> Result<(), BodyError> {
        let capacity = self.read.capacity();
        if bytes <= capacity {
            return Ok(());
        }
        let target = capacity.saturating_mul(2).min(self.limit).max(bytes);
        let permits = u32::try_from(target.saturating_sub(capacity)).map_err(|_| BodyError::TooLarge(self.limit))?;
        let taken = self.room.clone().acquire_many_owned(permits).await;
        let taken = taken.map_err(|_| BodyError::Broken("the server is going away".to_owned()))?;
        match self.taken.last_mut() {
            Some(first) => first.merge(taken),
            None => self.taken.push(taken),
        }
        self.read.reserve_exact(target.saturating_sub(self.read.len()));
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use http_body_util::{Full, StreamBody};
    use hyper::body::Frame;
    use std::time::Duration;

    fn room(bytes: usize) -> Arc<Semaphore> {
        Arc::new(Semaphore::new(bytes))
    }

    fn whole(bytes: &'static [u8]) -> Full<&'static [u8]> {
        Full::new(bytes)
    }

    #[tokio::test]
    async fn a_body_of_just_the_limit_is_read() {
        let mut bytes = Bytes::new(4, room(10));
        bytes.fill(whole(b"abcd")).await.unwrap();
        assert_eq!(bytes.read(), b"abcd");
    }

    #[tokio::test]
    async fn one_byte_more_is_too_large_and_the_beginning_is_kept() {
        let frames = [&b"abc"[..], b"de"].map(|part| Ok::<_, std::io::Error>(Frame::data(part)));
        let mut bytes = Bytes::new(4, room(10));
        let error = bytes.fill(StreamBody::new(futures::stream::iter(frames))).await;
        assert!(matches!(error, Err(BodyError::TooLarge(4))));
        assert_eq!(bytes.read(), b"abcd");
    }

    #[tokio::test]
    async fn a_body_that_breaks_off_is_an_error() {
        let frames = [Ok(Frame::data(&b"abc"[..])), Err(std::io::Error::other("cut"))];
        let mut bytes = Bytes::new(4, room(10));
        let error = bytes.fill(StreamBody::new(futures::stream::iter(frames))).await.unwrap_err();
        assert_eq!(error.to_string(), "the review broke off while it was read: cut");
    }

    #[tokio::test(start_paused = true)]
    async fn a_body_waits_for_the_room_that_others_take_up() {
        let room = room(6);
        let mut first = Bytes::new(4, room.clone());
        first.fill(whole(b"abcd")).await.unwrap();
        let mut second = Bytes::new(4, room.clone());
        let waited = tokio::time::timeout(Duration::from_secs(1), second.fill(whole(b"efgh"))).await;
        assert!(waited.is_err(), "there was no room");
        drop(first);
        second.fill(whole(b"efgh")).await.unwrap();
        drop(second);
        assert_eq!(room.available_permits(), 6);
    }
}

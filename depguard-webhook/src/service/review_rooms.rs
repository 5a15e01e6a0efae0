//! Room for reviews: for what they are on their way, for what they become, and for long answers.

use bytes::Bytes;
use depguard_core::probe::LoadedRulesRequest;
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::{Instant, timeout_at};

use crate::limits::gauged_semaphore::GaugedSemaphore;
use crate::limits::review_limits::Limits;
use crate::service::body::Bodies;
use crate::service::rejection::Rejection;

/// Bytes that a review becomes while it is decided, for each of its own bytes and besides these:
/// `cargo test -p depguard-webhook becomes` measures it.
const BECOMES: usize = 16;
/// Maximum length of a review that doesn't wait for longer ones. Nearly all reviews are shorter.
const SHORT: usize = 64 << 10;

/// Room for all reviews of a service.
pub(crate) struct ReviewRooms {
    pub(crate) bodies: Bodies,
    /// Room for what short reviews become, and long ones.
    decisions: [GaugedSemaphore; 2],
    answers: GaugedSemaphore,
}

impl ReviewRooms {
    /// Makes the rooms, and those of the bodies of `reviews`. What finds no room even alone would wait in vain.
    pub(crate) fn new(limits: &Limits, reviews: GaugedSemaphore) -> Self {
        let long = limits.decisions.max(limits.review.saturating_mul(BECOMES));
        Self {
            bodies: Bodies::new(reviews),
            decisions: [(limits.decisions / 4).max(SHORT * BECOMES), long].map(GaugedSemaphore::new),
            answers: GaugedSemaphore::new(limits.answers.max(2 * LoadedRulesRequest::MAX_ANSWER)),
        }
    }

    /// Waits until the deadline for room for what a review of this length becomes.
    pub(crate) async fn decide(&self, length: usize, deadline: Instant) -> Result<OwnedSemaphorePermit, Rejection> {
        let [short, long] = &self.decisions;
        let room = if length <= SHORT { short } else { long };
        take(room, length.saturating_mul(BECOMES), deadline).await
    }

    /// Waits until the deadline for room for a long answer, which is made in two copies.
    pub(crate) async fn answer(&self, deadline: Instant) -> Result<OwnedSemaphorePermit, Rejection> {
        take(&self.answers, 2 * LoadedRulesRequest::MAX_ANSWER, deadline).await
    }
}

/// Returns an answer whose room is taken until the answer is sent, however slowly it is read.
pub(crate) fn keeping(room: OwnedSemaphorePermit, answer: Vec<u8>) -> Bytes {
    struct LongAnswer {
        answer: Vec<u8>,
        _room: OwnedSemaphorePermit,
    }
    impl AsRef<[u8]> for LongAnswer {
        fn as_ref(&self) -> &[u8] {
            &self.answer
        }
    }
    Bytes::from_owner(LongAnswer { answer, _room: room })
}

async fn take(room: &GaugedSemaphore, bytes: usize, deadline: Instant) -> Result<OwnedSemaphorePermit, Rejection> {
    let taken = room.semaphore().acquire_many_owned(u32::try_from(bytes).unwrap_or(u32::MAX));
    timeout_at(deadline, taken).await.ok().and_then(Result::ok).ok_or(Rejection::TooMany)
}

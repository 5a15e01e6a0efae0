//! Events about refusals: a refused deletion, or a refused reference, is told beside the object.
//!
//! Events are a courtesy: they are written in the background, a few at a time, once each, and no review waits for one
//! or fails with one.

mod allowance;
mod event;

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use depguard_core::decision::Verdict;
use depguard_core::protocol::{self, Ask};
use depguard_core::{Decision, Review};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;

use self::allowance::Allowance;
use self::event::Event;
use crate::limits::read_budget::Size;
use crate::metrics::denial_events::EventEnd;
use crate::ports::api_reader::{ApiReader, Fetched, Writer};
use crate::reads::bounded_reader::BoundedReader;
use crate::reads::driver::Reads;
use crate::service::limited_log::LimitedLog;

/// Maximum number of Events that are being written or wait for it; further ones are dropped.
const MAX_WAITING: usize = 256;
/// Maximum number of Events that are written at once.
const MAX_CONCURRENT: usize = 2;
/// Time limit of one write.
const MAX_WRITE: Duration = Duration::from_secs(5);
/// Estimated length of an answer, in bytes: it repeats the Event.
const ESTIMATE: usize = 4 << 10;

/// Writer of Events about refusals.
pub(crate) struct DenialEvents {
    writer: Arc<dyn Writer>,
    allowance: Mutex<Allowance>,
    waiting: Arc<Semaphore>,
    writing: Semaphore,
    log: LimitedLog,
}

impl DenialEvents {
    pub(crate) fn new(writer: impl Writer) -> Self {
        Self {
            writer: Arc::new(writer),
            allowance: Mutex::default(),
            waiting: Arc::new(Semaphore::new(MAX_WAITING)),
            writing: Semaphore::new(MAX_CONCURRENT),
            log: LimitedLog::default(),
        }
    }

    /// Has an Event written if the review, which `bytes` hold, was refused because objects refer to its object, or because
    /// targets of its references are missing. Returns at once.
    pub(crate) fn tell<P: ApiReader>(
        self: &Arc<Self>,
        reads: &Reads<P>,
        review: &Review<'_>,
        bytes: &[u8],
        decision: &Decision,
    ) {
        let Verdict::Denied(denial) = decision.verdict() else { return };
        let Some(event) = Event::new(review, bytes, denial) else { return };
        let source = Arc::clone(reads.gets.source());
        let counters = &source.metrics().denial_events;
        let Ok(place) = Arc::clone(&self.waiting).try_acquire_owned() else {
            return counters.ended(EventEnd::Dropped);
        };
        // Nothing under the lock can panic half-way.
        let taken = self
            .allowance
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take(event.namespace.as_str(), event.object());
        if let Err(end) = taken {
            return counters.ended(end);
        }
        let (events, tasks) = (Arc::clone(self), reads.tasks.clone());
        reads.tasks.try_spawn(async move {
            let end = tokio::select! {
                biased;
                () = tasks.stopping() => EventEnd::Dropped,
                end = events.write(&source, &event, place) => end,
            };
            source.metrics().denial_events.ended(end);
        });
    }

    async fn write<P: ApiReader>(
        &self,
        source: &BoundedReader<P>,
        event: &Event,
        _place: OwnedSemaphorePermit,
    ) -> EventEnd {
        // The semaphore is never closed.
        let Ok(_turn) = self.writing.acquire().await else { return EventEnd::Dropped };
        let ask = Ask::Send(protocol::Send::creation(event.collection(), event.body()));
        let sent = timeout(MAX_WRITE, async {
            let permit = source.enter(Size::Small, ESTIMATE).await?;
            Some(source.send(&*self.writer, &ask, permit).await)
        });
        let (end, why) = match sent.await {
            Ok(Some(page)) => match &page.fetched {
                Fetched::Response { status: 200..=299, .. } => return EventEnd::Written,
                Fetched::Response { status: 403, body } => (EventEnd::Forbidden, said(403, body)),
                Fetched::Response { status, body } => (EventEnd::Failed, said(*status, body)),
                // The answer to a write that was carried out may be of any length.
                Fetched::TooLarge => (EventEnd::Failed, "the answer is too large".to_owned()),
                Fetched::Failed(why) => (EventEnd::Failed, why.clone()),
            },
            Ok(None) => (EventEnd::Failed, "the webhook is stopping".to_owned()),
            Err(_) => (EventEnd::Failed, format!("no answer within {MAX_WRITE:?}")),
        };
        self.log.warn("an Event about a refusal was not written", end.label(), &why);
        end
    }
}

/// Returns the status of an answer, and the beginning of the server's own words.
fn said(status: u16, body: &[u8]) -> String {
    let body = String::from_utf8_lossy(body.get(..512).unwrap_or(body));
    format!("HTTP {status}: {body}")
}

//! Trace of one review, while the review is being decided.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

use depguard_core::Review;
use http::HeaderMap;
use ring::rand::{SecureRandom, SystemRandom};
use tokio::time::Instant;

use super::read_span::ReadStats;
use super::traceparent::Traceparent;
use crate::metrics::operation_label;

/// Maximum length of a kind's name, in characters: the longest that an API server allows.
const MAX_KIND: usize = 253;
/// Maximum number of reads of one review that have a span.
const MAX_READS: usize = 64;

tokio::task_local! {
    /// Trace of the review that this task decides.
    static CURRENT: Arc<ReviewTrace>;
}

/// Trace of a review.
#[derive(Debug)]
pub(super) struct ReviewTrace {
    pub(super) trace: u128,
    /// Span of the review. The spans of its reads have the numbers that follow.
    pub(super) span: u64,
    /// Span of the caller.
    pub(super) parent: Option<u64>,
    pub(super) begun_at: SystemTime,
    begun: Instant,
    pub(super) state: Mutex<State>,
}

/// Observations that a trace gathers.
#[derive(Debug, Default)]
pub(super) struct State {
    /// Time that the review took, once it is over.
    pub(super) took: Duration,
    pub(super) about: Option<About>,
    pub(super) reads: Vec<Read>,
    /// Number of further reads, which have no span.
    pub(super) dropped: u32,
}

/// Subject and end of a review.
#[derive(Debug, Clone)]
pub(crate) struct About {
    /// Operation, such as `DELETE`.
    pub(super) operation: &'static str,
    /// Kind of the object, such as `vpcs.network.example.com`.
    pub(super) resource: String,
    /// Word for the decision.
    pub(super) decision: &'static str,
    /// True if the request is a dry run.
    pub(super) dry_run: bool,
}

/// Read that is over, or was given up.
#[derive(Debug)]
pub(super) struct Read {
    pub(super) verb: &'static str,
    pub(super) resource: String,
    /// Time from the review's beginning to that of the read.
    pub(super) after: Duration,
    pub(super) took: Duration,
    /// `None` if the read was given up.
    pub(super) stats: Option<ReadStats>,
}

impl ReviewTrace {
    /// Begins a trace, or goes on with the caller's. `None` if the caller does not record its own, or the operating system
    /// gives no random numbers.
    pub(super) fn begin(headers: &HeaderMap) -> Option<Arc<Self>> {
        let parent = Traceparent::from_headers(headers);
        if parent.is_some_and(|parent| !parent.is_sampled) {
            return None;
        }
        let mut random = [0; 24];
        SystemRandom::new().fill(&mut random).ok()?;
        let (trace, span) = random.split_first_chunk::<16>()?;
        // An id is never zero.
        let own = u128::from_be_bytes(*trace) | 1;
        let span = u64::from_be_bytes(*span.first_chunk()?) | 1;
        Some(Arc::new(Self {
            trace: parent.map_or(own, |parent| parent.trace),
            span,
            parent: parent.map(|parent| parent.span),
            begun_at: SystemTime::now(),
            begun: Instant::now(),
            state: Mutex::default(),
        }))
    }

    pub(super) fn state(&self) -> MutexGuard<'_, State> {
        // Nothing under the lock can panic half-way.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a read that ends now.
    pub(super) fn add(&self, verb: &'static str, resource: String, begun: Instant, stats: Option<ReadStats>) {
        let (after, took) = (begun.saturating_duration_since(self.begun), begun.elapsed());
        let mut state = self.state();
        if state.reads.len() < MAX_READS {
            state.reads.push(Read { verb, resource, after, took, stats });
        } else {
            state.dropped = state.dropped.saturating_add(1);
        }
    }

    /// Returns the trace of the review that this task decides.
    pub(super) fn current() -> Option<Arc<Self>> {
        CURRENT.try_with(Arc::clone).ok()
    }

    /// Decides a review within its trace.
    pub(super) async fn around<R>(self: Arc<Self>, answer: impl Future<Output = R>) -> R {
        CURRENT.scope(self, answer).await
    }

    /// Ends the review's span.
    pub(super) fn end(&self) {
        self.state().took = self.begun.elapsed();
    }
}

impl About {
    /// Returns the subject of a review that was decided so.
    pub(crate) fn new(review: &Review<'_>, decision: &'static str) -> Self {
        let kind = format!("{}.{}", review.resource(), review.group());
        // A caller that is no API server may write anything.
        let resource = kind.trim_end_matches('.').chars().take(MAX_KIND).collect();
        Self { operation: operation_label(review.operation()), resource, decision, dry_run: review.dry_run() }
    }
}

/// Notes the subject and the end of the review that this task decides, if it has a trace.
pub(crate) fn note(about: impl FnOnce() -> About) {
    if let Some(trace) = ReviewTrace::current() {
        trace.state().about = Some(about());
    }
}

//! Span of a read that a review waits for.

use std::sync::Arc;

use depguard_core::Query;
use depguard_core::lookup::Dependents;
use tokio::time::Instant;

use super::resource_in;
use super::review_trace::ReviewTrace;
use crate::ports::api_reader::Fetched;

/// Span of a read: it begins when it is made, and ends when it is dropped at the latest. Without a trace it does nothing.
#[derive(Debug)]
pub(crate) struct ReadSpan(Option<Open>);

#[derive(Debug)]
struct Open {
    trace: Arc<ReviewTrace>,
    verb: &'static str,
    resource: String,
    begun: Instant,
    stats: Option<ReadStats>,
}

/// Counts of a read.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct ReadStats {
    /// HTTP status of the last answer; `None` if there was no answer that could be read.
    pub(crate) status: Option<u16>,
    /// Number of answers.
    pub(crate) pages: u32,
    /// Length of the answers, in bytes.
    pub(crate) bytes: u64,
}

impl ReadSpan {
    /// Begins the span of a GET.
    pub(crate) fn get(query: &Query) -> Self {
        Self::begin("GET", || resource_in(&query.path))
    }

    /// Begins the span of a lookup, which lists these dependents.
    pub(crate) fn list(dependents: &Dependents) -> Self {
        Self::begin("LIST", || {
            let kind = &dependents.gvr;
            format!("{}.{}", kind.resource, kind.group).trim_end_matches('.').to_owned()
        })
    }

    fn begin(verb: &'static str, resource: impl FnOnce() -> String) -> Self {
        let trace = ReviewTrace::current();
        Self(trace.map(|trace| Open { trace, verb, resource: resource(), begun: Instant::now(), stats: None }))
    }

    /// Ends the span.
    pub(crate) fn end(mut self, stats: ReadStats) {
        if let Some(open) = &mut self.0 {
            open.stats = Some(stats);
        }
    }
}

impl Drop for ReadSpan {
    fn drop(&mut self) {
        if let Some(Open { trace, verb, resource, begun, stats }) = self.0.take() {
            trace.add(verb, resource, begun, stats);
        }
    }
}

impl ReadStats {
    /// Counts one more answer.
    pub(crate) fn count(&mut self, fetched: &Fetched) {
        self.status = match fetched {
            Fetched::Response { status, .. } => Some(*status),
            Fetched::TooLarge | Fetched::Failed(_) => None,
        };
        self.pages = self.pages.saturating_add(1);
        self.bytes = self.bytes.saturating_add(u64::try_from(fetched.size()).unwrap_or(u64::MAX));
    }

    /// Adds the counts of a later read.
    pub(crate) fn add(&mut self, later: Self) {
        let Self { status, pages, bytes } = later;
        self.status = status.or(self.status);
        self.pages = self.pages.saturating_add(pages);
        self.bytes = self.bytes.saturating_add(bytes);
    }

    /// Returns the counts of one answer.
    pub(crate) fn one(fetched: &Fetched) -> Self {
        let mut stats = Self::default();
        stats.count(fetched);
        stats
    }

    /// Returns true if the read brought no usable answer. That an object is missing is an answer.
    pub(super) fn is_error(&self) -> bool {
        !matches!(self.status, Some(200..=299 | 404))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::traces::note;
    use crate::traces::tests::dependents;
    use allocation_counter::measure;

    /// Checks that reads cost nothing where traces are off.
    #[test]
    fn without_a_trace_a_span_allocates_nothing() {
        let dependents = dependents();
        let counted = measure(|| {
            for _ in 0..100 {
                ReadSpan::list(&dependents).end(ReadStats::default());
                note(|| unreachable!("there is no trace"));
            }
        });
        assert_eq!(counted.count_total, 0, "{counted:?}");
    }
}

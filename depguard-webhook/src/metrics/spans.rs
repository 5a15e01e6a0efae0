//! Metrics of the spans that traces of reviews have.

use prometheus_client::metrics::family::Family;
use prometheus_client::registry::Registry;

use super::{Counts, begin};

/// End of a span.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SpanEnd {
    /// The collector has taken the span.
    Exported,
    /// Too many spans were waiting to be sent.
    Dropped,
    /// The collector did not take the span.
    Failed,
}

/// Counters of spans.
#[derive(Debug)]
pub(crate) struct SpanCounters(Counts<1>);

impl Default for SpanCounters {
    fn default() -> Self {
        let counts: Counts<1> = Family::default();
        begin(&counts, "result", &[SpanEnd::Exported, SpanEnd::Dropped, SpanEnd::Failed].map(SpanEnd::label));
        Self(counts)
    }
}

impl SpanCounters {
    pub(super) fn register(&self, registry: &mut Registry) {
        registry.register("depguard_spans", "Spans of reviews, by what became of them", self.0.clone());
    }

    /// Counts spans that ended so.
    pub(crate) fn ended(&self, end: SpanEnd, spans: u64) {
        self.0.get_or_create(&[("result", end.label())]).inc_by(spans);
    }
}

impl SpanEnd {
    fn label(self) -> &'static str {
        match self {
            Self::Exported => "exported",
            Self::Dropped => "dropped",
            Self::Failed => "failed",
        }
    }
}

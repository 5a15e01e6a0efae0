//! Metrics of Events about refusals.

use prometheus_client::metrics::family::Family;
use prometheus_client::registry::Registry;

use super::{Counts, begin};

/// End of an Event that was due.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum EventEnd {
    /// The API server has stored the Event.
    Written,
    /// The object had an Event a short time ago.
    Repeated,
    /// The namespace had too many Events a short time ago.
    Limited,
    /// Too many Events were waiting to be written, or the webhook was stopping.
    Dropped,
    /// The webhook may not write Events there.
    Forbidden,
    /// The API server gave another error, or no answer.
    Failed,
}

/// Counters of Events about refusals.
#[derive(Debug)]
pub(crate) struct DenialEventCounters(Counts<1>);

impl Default for DenialEventCounters {
    fn default() -> Self {
        let counts: Counts<1> = Family::default();
        begin(&counts, "result", &EventEnd::ALL.map(EventEnd::label));
        Self(counts)
    }
}

impl DenialEventCounters {
    pub(super) fn register(&self, registry: &mut Registry) {
        let help = "Events about refusals that were due, by what became of them";
        registry.register("depguard_denial_events", help, self.0.clone());
    }

    /// Counts an Event that was due.
    pub(crate) fn ended(&self, end: EventEnd) {
        self.0.get_or_create(&[("result", end.label())]).inc();
    }
}

impl EventEnd {
    const ALL: [Self; 6] = [Self::Written, Self::Repeated, Self::Limited, Self::Dropped, Self::Forbidden, Self::Failed];

    /// Returns one word of a closed set.
    pub(crate) fn label(self) -> &'static str {
        match self {
            Self::Written => "written",
            Self::Repeated => "repeated",
            Self::Limited => "limited",
            Self::Dropped => "dropped",
            Self::Forbidden => "forbidden",
            Self::Failed => "failed",
        }
    }
}

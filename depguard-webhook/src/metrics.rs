//! Metrics of a service, for a monitoring system.
//!
//! Labels are words of closed sets, so that no text of a tenant can make a series. Counting during a review costs one
//! look-up in a small map and one atomic add. [Gauges](crate::metrics::gauges) are computed when they are read.

use std::time::Duration;

use depguard_core::Decision;
use depguard_core::api::Strategy;
use depguard_core::decision::{AllowReason, Causes, Diagnostics, Verdict};
use depguard_core::protocol::{Cause, Operation};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;

use crate::limits::read_budget::Size;
use crate::ports::api_reader::Fetched;

pub(crate) mod denial_events;
pub(crate) mod gauges;
pub(crate) mod guards;
pub(crate) mod interlock;
pub(crate) mod spans;

use self::denial_events::DenialEventCounters;
use self::guards::Guards;
use self::interlock::InterlockCounters;
use self::spans::SpanCounters;

/// Names and values of a series' labels.
type Labels<const N: usize> = [(&'static str, &'static str); N];
type Counts<const N: usize> = Family<Labels<N>, Counter>;

/// Makes series from the start. A monitoring system sees an increase only if it has seen the series before, and zero
/// differs from a missing series.
fn begin(counts: &Counts<1>, label: &'static str, values: &[&'static str]) {
    for value in values {
        counts.get_or_create(&[(label, *value)]).inc_by(0);
    }
}

/// Buckets from a decision in memory to the longest time that an API server waits.
const DURATIONS: [f64; 14] = [0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0, 30.0];

/// Causes for which requests are rejected.
const REJECTIONS: [&str; 9] =
    ["path", "unsigned-path", "method", "content-type", "too-slow", "too-many", "too-large", "broken-off", "no-review"];
/// Classes of API servers' answers.
const ANSWERS: [&str; 9] = ["2xx", "403", "404", "410", "429", "4xx", "5xx", "too-large", "failed"];

/// Counters of one service.
#[derive(Debug)]
pub(crate) struct Metrics {
    reviews: Counts<2>,
    durations: Family<Labels<1>, Histogram>,
    refusals: Counts<1>,
    rejections: Counts<1>,
    overrides: Counter,
    diagnostics: Counts<1>,
    misfits: Counter,
    lookups: Counts<1>,
    lists: Counts<1>,
    pages: Counts<1>,
    bytes: Counts<1>,
    answers: Counts<1>,
    coalesced: Counts<1>,
    /// Counters of locks and owners.
    pub(crate) guards: Guards,
    /// Counters of the interlock.
    pub(crate) interlock: InterlockCounters,
    /// Counters of Events about refusals.
    pub(crate) denial_events: DenialEventCounters,
    /// Counters of spans.
    pub(crate) spans: SpanCounters,
}

/// Way in which a review was decided.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum DecidedBy {
    /// From memory alone.
    Memory,
    /// With reads from API servers.
    Reads,
}

/// Kind of a list that is begun.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum List {
    /// List of those objects alone that refer to one target.
    Selection,
    /// List of the printed columns of all objects.
    Table,
    /// List of all objects.
    Scan,
}

impl Default for Metrics {
    fn default() -> Self {
        let metrics = Self {
            reviews: Family::default(),
            durations: Family::new_with_constructor(|| Histogram::new(DURATIONS)),
            refusals: Family::default(),
            rejections: Family::default(),
            overrides: Counter::default(),
            diagnostics: Family::default(),
            misfits: Counter::default(),
            lookups: Family::default(),
            lists: Family::default(),
            pages: Family::default(),
            bytes: Family::default(),
            answers: Family::default(),
            coalesced: Family::default(),
            guards: Guards::default(),
            interlock: InterlockCounters::default(),
            denial_events: DenialEventCounters::default(),
            spans: SpanCounters::default(),
        };
        metrics.begin();
        metrics
    }
}

impl Metrics {
    /// Adds all counters to a registry.
    pub(crate) fn register(&self, registry: &mut Registry) {
        let Self { reviews, durations, refusals, rejections, overrides, diagnostics, misfits, .. } = self;
        registry.register("depguard_reviews", "Decided reviews", reviews.clone());
        let help = "Time from a review's arrival to its decision";
        registry.register("depguard_review_duration_seconds", help, durations.clone());
        registry.register("depguard_refusals", "Refused reviews", refusals.clone());
        let help = "Requests that got a 4xx instead of an answered review";
        registry.register("depguard_rejections", help, rejections.clone());
        registry.register("depguard_overrides", "Deletions that an override allowed", overrides.clone());
        let help = "Answers with a warning or an audit annotation";
        registry.register("depguard_diagnostics", help, diagnostics.clone());
        let help = "Values that were no names, at paths that lead to names";
        registry.register("depguard_misfits", help, misfits.clone());

        let Self { lookups, lists, pages, bytes, answers, coalesced, .. } = self;
        registry.register("depguard_lookups", "Searches for the dependents of one target", lookups.clone());
        registry.register("depguard_lists", "Lists that the webhook began", lists.clone());
        registry.register("depguard_reads", "Answers of API servers that the webhook read", pages.clone());
        registry.register(
            "depguard_read_bytes",
            "Length of the answers that the webhook read, in bytes",
            bytes.clone(),
        );
        registry.register("depguard_read_answers", "Answers of API servers, by status", answers.clone());
        let help = "Reads that the webhook did not send, because the read of another review answered them as well";
        registry.register("depguard_coalesced", help, coalesced.clone());
        self.guards.register(registry);
        self.interlock.register(registry);
        self.denial_events.register(registry);
        self.spans.register(registry);
    }

    /// Makes all series from the start, except those of reviewed operations.
    fn begin(&self) {
        for decision in ["no-rule", "unreferenced", "referenced"] {
            self.reviews.get_or_create(&[("operation", "DELETE"), ("decision", decision)]).inc_by(0);
        }
        for decided_by in [DecidedBy::Memory, DecidedBy::Reads] {
            drop(self.durations.get_or_create(&[("decided_by", decided_by.label())]));
        }
        let causes: Vec<_> = Cause::ALL.iter().map(|cause| cause.word()).collect();
        begin(&self.refusals, "cause", &causes);
        begin(&self.rejections, "cause", &REJECTIONS);
        begin(&self.diagnostics, "kind", &["warning", "audit", "not-found-out"]);
        let strategies = [Strategy::FieldSelector, Strategy::Table, Strategy::Metadata];
        let strategies = strategies.into_iter().chain([Strategy::NamespaceScan, Strategy::ClusterScan]);
        strategies.for_each(|strategy| begin(&self.lookups, "strategy", &[strategy.as_str()]));
        begin(&self.lists, "kind", &[List::Selection, List::Table, List::Scan].map(List::label));
        let sizes = Size::ALL.map(Size::label);
        [&self.pages, &self.bytes, &self.coalesced].into_iter().for_each(|counts| begin(counts, "size", &sizes));
        begin(&self.answers, "answer", &ANSWERS);
    }

    /// Counts a review that was decided.
    pub(crate) fn decided(&self, operation: Operation, decision: &Decision, decided_by: DecidedBy, took: Duration) {
        let labels = [("operation", operation_label(operation)), ("decision", decision.label())];
        self.reviews.get_or_create(&labels).inc();
        self.took(decided_by, took);
        match decision.verdict() {
            Verdict::Denied(denial) => self.refused(&denial.causes()),
            Verdict::Allowed(AllowReason::Overridden) => _ = self.overrides.inc(),
            Verdict::Allowed(_) => {}
        }
        self.noted(decision.diagnostics());
    }

    /// Notes the time that a decision took.
    pub(crate) fn took(&self, decided_by: DecidedBy, took: Duration) {
        self.durations.get_or_create(&[("decided_by", decided_by.label())]).observe(took.as_secs_f64());
    }

    fn noted(&self, diagnostics: &Diagnostics) {
        let said = [
            ("warning", diagnostics.warned.is_some() || diagnostics.missing_warned.is_some()),
            ("audit", diagnostics.audited.is_some() || diagnostics.missing_audited.is_some()),
            ("not-found-out", !diagnostics.problems.is_empty() || !diagnostics.audited_problems.is_empty()),
        ];
        for (kind, _) in said.into_iter().filter(|(_, said)| *said) {
            self.diagnostics.get_or_create(&[("kind", kind)]).inc();
        }
        self.misfits.inc_by(u64::try_from(diagnostics.misfits).unwrap_or(u64::MAX));
        for planned in &diagnostics.lookups {
            self.lookups.get_or_create(&[("strategy", planned.strategy.as_str())]).inc();
        }
    }

    /// Counts a review that was refused, by its first cause; nothing if there is none.
    pub(crate) fn refused(&self, causes: &Causes) {
        if let Some(cause) = causes.first() {
            self.refusals.get_or_create(&[("cause", cause.word())]).inc();
        }
    }

    /// Counts a request that got no answered review.
    pub(crate) fn rejected(&self, cause: &'static str) {
        self.rejections.get_or_create(&[("cause", cause)]).inc();
    }

    /// Counts a list that was begun.
    pub(crate) fn listed(&self, list: List) {
        self.lists.get_or_create(&[("kind", list.label())]).inc();
    }

    /// Counts an answer of an API server.
    pub(crate) fn fetched(&self, size: Size, fetched: &Fetched) {
        let size = [("size", size.label())];
        self.pages.get_or_create(&size).inc();
        self.bytes.get_or_create(&size).inc_by(u64::try_from(fetched.size()).unwrap_or(u64::MAX));
        self.answers.get_or_create(&[("answer", answer_label(fetched))]).inc();
    }

    /// Counts the readers beyond the first that one read of this size answered.
    pub(crate) fn shared(&self, size: Size, members: usize) {
        let others = u64::try_from(members.saturating_sub(1)).unwrap_or(u64::MAX);
        self.coalesced.get_or_create(&[("size", size.label())]).inc_by(others);
    }
}

impl DecidedBy {
    fn label(self) -> &'static str {
        match self {
            Self::Memory => "memory",
            Self::Reads => "reads",
        }
    }
}

impl List {
    fn label(self) -> &'static str {
        match self {
            Self::Selection => "selection",
            Self::Table => "table",
            Self::Scan => "scan",
        }
    }
}

/// Returns one word of a closed set.
pub(crate) fn operation_label(operation: Operation) -> &'static str {
    match operation {
        Operation::Create => "CREATE",
        Operation::Update => "UPDATE",
        Operation::Delete => "DELETE",
        Operation::Connect => "CONNECT",
    }
}

fn answer_label(fetched: &Fetched) -> &'static str {
    match fetched {
        Fetched::Response { status, .. } => match status {
            200..=299 => "2xx",
            403 => "403",
            404 => "404",
            410 => "410",
            429 => "429",
            500.. => "5xx",
            _ => "4xx",
        },
        Fetched::TooLarge => "too-large",
        Fetched::Failed(_) => "failed",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use allocation_counter::measure;
    use depguard_core::{Context, ControlPlane, Review, RuleSet};

    /// Checks that counting costs next to nothing: most reviews are of kinds that no rule names.
    #[test]
    fn counting_a_review_allocates_nothing() {
        let review = br#"{"request": {"uid": "1", "operation": "DELETE", "oldObject": {"metadata": {"name": "a"}},
            "resource": {"group": "", "version": "v1", "resource": "pods"}}}"#;
        let review = Review::parse(review).unwrap();
        let decision = RuleSet::load(ControlPlane::Kubernetes, []).evaluate(&review, &Context::default()).decide();
        let metrics = Metrics::default();
        let counted = measure(|| {
            for _ in 0..100 {
                metrics.decided(review.operation(), &decision, DecidedBy::Memory, Duration::from_micros(20));
            }
        });
        assert_eq!(counted.count_total, 0, "{counted:?}");
        assert_eq!(metrics.reviews.get_or_create(&[("operation", "DELETE"), ("decision", "no-rule")]).get(), 100);
    }
}

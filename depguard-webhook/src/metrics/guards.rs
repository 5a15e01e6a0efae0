//! Metrics of reviews about locks, owners, and specs.

use depguard_core::locks::LockDecision;
use depguard_core::protocol::Operation;
use depguard_core::spec_admission::SpecDecision;
use prometheus_client::metrics::family::Family;
use prometheus_client::registry::Registry;

use super::{Counts, begin, operation_label};

/// Decisions about reviews of owners.
const OWNER_DECISIONS: [&str; 8] =
    ["not-a-deletion", "no-owner", "in-order", "lets-go", "owns-nothing", "foreground", "still-owns", "undecided"];

/// Counters of reviews about locks, owners, and specs.
#[derive(Debug)]
pub(crate) struct Guards {
    locks: Counts<2>,
    owners: Counts<1>,
    specs: Counts<1>,
}

impl Default for Guards {
    fn default() -> Self {
        let guards = Self { locks: Family::default(), owners: Family::default(), specs: Family::default() };
        for decision in LockDecision::LABELS {
            for operation in [Operation::Update, Operation::Delete].map(operation_label) {
                guards.locks.get_or_create(&[("operation", operation), ("decision", decision)]).inc_by(0);
            }
        }
        begin(&guards.owners, "decision", &OWNER_DECISIONS);
        begin(&guards.specs, "decision", &SpecDecision::LABELS);
        guards
    }
}

impl Guards {
    pub(super) fn register(&self, registry: &mut Registry) {
        let help = "Decided reviews about locks";
        registry.register("depguard_lock_reviews", help, self.locks.clone());
        let help = "Decided reviews of GlobalOwners and GroupOwners";
        registry.register("depguard_owner_reviews", help, self.owners.clone());
        registry.register("depguard_rule_reviews", "Decided reviews of specs", self.specs.clone());
    }

    /// Counts a review about locks that was decided.
    pub(crate) fn lock_reviewed(&self, operation: Operation, decision: &LockDecision) {
        let labels = [("operation", operation_label(operation)), ("decision", decision.label())];
        self.locks.get_or_create(&labels).inc();
    }

    /// Counts a review of an owner that was decided.
    pub(crate) fn owner_reviewed(&self, decision: &'static str) {
        self.owners.get_or_create(&[("decision", decision)]).inc();
    }

    /// Counts a review of a spec that was decided.
    pub(crate) fn spec_reviewed(&self, decision: &'static str) {
        self.specs.get_or_create(&[("decision", decision)]).inc();
    }
}

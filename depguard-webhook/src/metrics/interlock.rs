//! Metrics of the interlock.

use depguard_core::interlock::Refusal;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::registry::Registry;

use super::{ANSWERS, Counts, answer_label, begin};
use crate::ports::api_reader::Fetched;

/// Side of a review in the interlock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Side {
    /// A creation or an update that makes a reference.
    Reference,
    /// The deletion of a target.
    Deletion,
}

/// Counters of the interlock.
#[derive(Debug)]
pub(crate) struct InterlockCounters {
    notes: Counter,
    writes: Counts<1>,
    bytes: Counter,
    refusals: Counts<2>,
    checks: Counts<1>,
    abandoned: Counter,
}

impl Default for InterlockCounters {
    fn default() -> Self {
        let counters = Self {
            notes: Counter::default(),
            writes: Family::default(),
            bytes: Counter::default(),
            refusals: Family::default(),
            checks: Family::default(),
            abandoned: Counter::default(),
        };
        begin(&counters.writes, "answer", &ANSWERS);
        let sides = [Side::Reference, Side::Deletion].map(Side::label);
        begin(&counters.checks, "side", &sides);
        for side in sides {
            for reason in REASONS {
                counters.refusals.get_or_create(&[("side", side), ("reason", reason)]).inc_by(0);
            }
        }
        counters
    }
}

/// Reasons of refusals that the interlock alone gives.
const REASONS: [&str; 2] = ["again-soon", "unknown"];

impl InterlockCounters {
    pub(super) fn register(&self, registry: &mut Registry) {
        let Self { notes, writes, bytes, refusals, checks, abandoned } = self;
        let help = "Notes that reviews had for reference registers; one write records all that wait";
        registry.register("depguard_register_notes", help, notes.clone());
        let help = "Writes of reference registers, by the status of their answer";
        registry.register("depguard_register_writes", help, writes.clone());
        let help = "Length of the reference registers that the webhook wrote, in bytes";
        registry.register("depguard_register_written_bytes", help, bytes.clone());
        let help = "Reviews that only the interlock refused, by the side of the reference";
        registry.register("depguard_interlock_refusals", help, refusals.clone());
        let help =
            "Objects that reviews read to find out if marks of the other side are void, by the side of the review";
        registry.register("depguard_register_mark_checks", help, checks.clone());
        let help = "Reviews that were given up with a mark, which the webhook then takes down";
        registry.register("depguard_register_abandoned_marks", help, abandoned.clone());
    }

    /// Counts the notes of one write.
    pub(crate) fn noted(&self, notes: usize) {
        self.notes.inc_by(u64::try_from(notes).unwrap_or(u64::MAX));
    }

    /// Counts a write.
    pub(crate) fn written(&self, length: usize, fetched: &Fetched) {
        self.writes.get_or_create(&[("answer", answer_label(fetched))]).inc();
        self.bytes.inc_by(u64::try_from(length).unwrap_or(u64::MAX));
    }

    /// Counts a review that the interlock refused. Refusals by what the reads found are counted as all others are.
    pub(crate) fn refused(&self, side: Side, refusal: &Refusal) {
        let reason = match refusal {
            Refusal::Unknown(_) => "unknown",
            Refusal::AgainSoon
            | Refusal::Missing(_)
            | Refusal::Terminating(_)
            | Refusal::Referenced
            | Refusal::NameTaken
            | Refusal::Failed => "again-soon",
        };
        self.refusals.get_or_create(&[("side", side.label()), ("reason", reason)]).inc();
    }

    /// Counts an object that a review of this side read to find out if marks are void.
    pub(crate) fn checked(&self, side: Side) {
        self.checks.get_or_create(&[("side", side.label())]).inc();
    }

    /// Counts a review that was given up with a mark.
    pub(crate) fn abandoned(&self) {
        self.abandoned.inc();
    }
}

impl Side {
    fn label(self) -> &'static str {
        match self {
            Self::Reference => "reference",
            Self::Deletion => "deletion",
        }
    }
}

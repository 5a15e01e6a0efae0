//! Result of a run in one line.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use crate::plan::Fault;

/// Result of a run. Its `Display` is one line.
#[derive(Debug, Clone, Default)]
pub struct Summary {
    /// Seed of the plan.
    pub seed: u64,
    /// Objects that were deleted, or should have been.
    pub deletes: usize,
    /// Objects with a deletion that had to be refused.
    pub referenced: usize,
    /// Objects whose dependents had changed less than 100 ms before a deletion.
    pub just: usize,
    /// Number of DELETE requests.
    pub requests: usize,
    /// Number of refused requests.
    pub refused: usize,
    /// Number of requests without an answer.
    pub unanswered: usize,
    /// Faults of the run: the requests and watches that each of their rounds hit. Some faults hit none of them.
    pub faults: BTreeMap<Fault, Vec<u64>>,
    /// Violations that the checker found.
    pub violations: Vec<String>,
    /// Duration of the run.
    pub took: Duration,
}

impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { seed, deletes, referenced, just, requests, refused, unanswered, .. } = self;
        write!(
            f,
            "seed {seed}: {deletes} deletes ({referenced} of referenced objects, {just} within 100 ms of a change of \
             their dependents) in {requests} requests, {refused} refused, {unanswered} unanswered; faults:"
        )?;
        for (fault, hits) in &self.faults {
            write!(f, " {} {}", fault.name(), hits.len())?;
            if fault.hits_requests() {
                write!(f, " ({} hits)", hits.iter().sum::<u64>())?;
            }
            write!(f, ",")?;
        }
        write!(f, " {} s; {} violations", self.took.as_secs(), self.violations.len())
    }
}

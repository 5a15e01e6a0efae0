//! What a run comes to, in one line.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use crate::plan::Fault;

/// What a run comes to. Its `Display` is one line.
#[derive(Debug, Clone, Default)]
pub struct Summary {
    /// What drew the plan.
    pub seed: u64,
    /// Objects that were deleted, or tried to.
    pub deletes: usize,
    /// Those of which some deletion had to be refused.
    pub referenced: usize,
    /// Those whose dependents had changed less than 100 ms before some deletion.
    pub just: usize,
    /// DELETE requests.
    pub requests: usize,
    /// Those that were refused.
    pub refused: usize,
    /// Those that had no answer.
    pub unanswered: usize,
    /// What went wrong: of each of its rounds, the requests and watches that it hit. Some faults hit none, but what they
    /// go through.
    pub faults: BTreeMap<Fault, Vec<u64>>,
    /// What should not have been.
    pub violations: Vec<String>,
    /// How long it took.
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

//! Counts of scenarios that passed, failed or were not run, for rings that run side by side.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::outcome::{Outcome, Stop};
use crate::selection::RingKind;
use crate::tally::print_sum;

/// Results of all scenarios. Each result is printed when it is counted; scenarios that the command line leaves out are
/// only counted.
pub(super) struct Tally {
    begun: Instant,
    counts: Mutex<Counts>,
}

#[derive(Default)]
struct Counts {
    passed: usize,
    skipped: usize,
    filtered: usize,
    failures: Vec<String>,
}

impl Tally {
    /// Creates an empty tally, whose time begins now.
    pub(super) fn begin() -> Tally {
        Tally { begun: Instant::now(), counts: Mutex::default() }
    }

    /// Counts one run of a scenario.
    pub(super) fn record(&self, kind: RingKind, name: &str, outcome: &Outcome, took: Duration) {
        let (kind, took) = (kind.name(), took.as_secs_f32());
        match outcome {
            Ok(()) => {
                self.counts().passed += 1;
                println!("ring {kind}: ok   {name} ({took:.1} s)");
            }
            Err(Stop::Skipped(reason)) => self.skip(&format!("ring {kind}: skipped {name}: {reason}")),
            Err(stop) => self.fail(format!("ring {kind}: FAIL {name} ({took:.1} s): {stop}")),
        }
    }

    /// Counts a failure; its line is printed once more at the end.
    pub(super) fn fail(&self, line: String) {
        println!("{line}");
        self.counts().failures.push(line);
    }

    /// Counts a ring or scenario that can't run here, for the reason in its line.
    pub(super) fn skip(&self, line: &str) {
        println!("{line}");
        self.counts().skipped += 1;
    }

    /// Counts scenarios that the command line leaves out.
    pub(super) fn filter_out(&self, scenarios: usize) {
        self.counts().filtered += scenarios;
    }

    /// Prints the sum. Returns true if nothing failed.
    pub(super) fn conclude(&self) -> bool {
        let Counts { passed, skipped, filtered, failures } = &*self.counts();
        println!();
        for failure in failures {
            println!("{failure}");
        }
        let failed = failures.len();
        println!("scenarios: {passed} passed, {failed} failed, {skipped} skipped");
        print_sum(self.begun, *passed, failed, *skipped, *filtered);
        failed == 0
    }

    fn counts(&self) -> MutexGuard<'_, Counts> {
        self.counts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

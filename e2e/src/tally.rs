//! Results of checks other than scenarios: a line for each check as it ends, and the sum.

use std::time::Instant;

use crate::outcome::{Outcome, Stop};

/// Results of all checks of one test.
pub struct Tally {
    what: &'static str,
    begun: Instant,
    passed: usize,
    failed: usize,
    skipped: usize,
}

impl Tally {
    /// Creates an empty tally of the test with this name; the test's time begins now.
    pub fn new(what: &'static str) -> Tally {
        Tally { what, begun: Instant::now(), passed: 0, failed: 0, skipped: 0 }
    }

    /// Counts a check and prints its line.
    pub fn record(&mut self, check: &str, outcome: Outcome) {
        let what = self.what;
        match outcome {
            Ok(()) => {
                self.passed += 1;
                println!("{what}: ok   {check}");
            }
            Err(Stop::Skipped(why)) => {
                self.skipped += 1;
                println!("{what}: skipped {check}: {why}");
            }
            Err(stop) => {
                self.failed += 1;
                println!("{what}: FAIL {check}: {stop}");
            }
        }
    }

    /// Prints the sum. Ends the process with exit code 1 if a check failed.
    pub fn conclude(self) {
        let Tally { begun, passed, failed, skipped, .. } = self;
        println!();
        print_sum(begun, passed, failed, skipped, 0);
        if failed > 0 {
            std::process::exit(1);
        }
    }
}

/// Prints the sum of a test like the standard test harness, for programs that read the output.
pub(crate) fn print_sum(begun: Instant, passed: usize, failed: usize, skipped: usize, filtered: usize) {
    println!(
        "test result: {}. {passed} passed; {failed} failed; {skipped} ignored; 0 measured; {filtered} filtered out; finished in {:.2}s",
        if failed == 0 { "ok" } else { "FAILED" },
        begun.elapsed().as_secs_f32(),
    );
}

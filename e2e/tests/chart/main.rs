//! The chart: what it renders, and that it does on a real kube-apiserver what docs/operations.md says.

mod chart;
mod rendered;
mod values;

use std::time::Instant;

use depguard_e2e::tools::Tools;
use depguard_e2e::{Outcome, Stop};

use crate::chart::Chart;

fn main() {
    let start = Instant::now();
    let mut tally = Tally::default();
    match Tools::find() {
        Ok(tools) => all(&Chart::new(tools), &mut tally),
        Err(reason) if Tools::are_a_must() => tally.record("helm is there", Err(Stop::Failed(reason))),
        Err(reason) => tally.record("what the chart renders", Err(Stop::Skipped(reason))),
    }
    let Tally { passed, failed, skipped } = tally;
    // As the standard test harness ends, for what reads its output.
    println!(
        "\ntest result: {}. {passed} passed; {failed} failed; {skipped} ignored; 0 measured; 0 filtered out; finished in {:.2}s",
        if failed == 0 { "ok" } else { "FAILED" },
        start.elapsed().as_secs_f32(),
    );
    if failed > 0 {
        std::process::exit(1);
    }
}

fn all(chart: &Chart, tally: &mut Tally) {
    tally.record("helm finds nothing to complain about", rendered::lint(chart));
    for case in values::RENDERED {
        tally.record(&format!("rendered: {}", case.name), rendered::check(chart, case));
    }
    for (values, setting, said) in values::REJECTED {
        tally.record(&format!("rejected: {setting}"), rendered::is_rejected(chart, values, setting, said));
    }
    tally.record("the rights and the CRD are those that the controller prints", rendered::as_printed(chart));
    tally.record("in another namespace everything is of that one", rendered::elsewhere(chart));
}

/// What became of all checks.
#[derive(Default)]
struct Tally {
    passed: usize,
    failed: usize,
    skipped: usize,
}

impl Tally {
    fn record(&mut self, what: &str, outcome: Outcome) {
        match outcome {
            Ok(()) => {
                self.passed += 1;
                println!("chart: ok   {what}");
            }
            Err(Stop::Skipped(why)) => {
                self.skipped += 1;
                println!("chart: skipped {what}: {why}");
            }
            Err(stop) => {
                self.failed += 1;
                println!("chart: FAIL {what}: {stop}");
            }
        }
    }
}

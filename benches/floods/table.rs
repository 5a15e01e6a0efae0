//! Floods, one after the other, and what each did to the process and to honest requests.

use std::time::{Duration, Instant};

use tokio::time::sleep;

use crate::Result;
use crate::process::{LIMIT, Process};

/// Part of the limit that a peak may take.
const MAX_PEAK: u64 = LIMIT / 10 * 8;
/// Memory that a process may keep beyond what it had before all floods: what it watches, and the allocator's reserves.
const MAX_KEPT: u64 = LIMIT / 4;
/// Time to wait until the memory has come back.
const BACK: Duration = Duration::from_secs(30);

/// Results of all floods so far.
pub(crate) struct Table {
    pub(crate) time: Duration,
    only: String,
    is_good: bool,
}

/// Counts of honest requests.
#[derive(Debug, Default)]
pub(crate) struct Honest {
    pub(crate) right: u32,
    /// Wrong answers, or none.
    pub(crate) wrong: Vec<String>,
}

impl Table {
    pub(crate) fn new(half: bool, only: String) -> Self {
        let time = Duration::from_secs(if half { 3 } else { 15 });
        println!("| flood | before | peak | honest | wrong | after | |\n|---|---:|---:|---:|---:|---:|---|");
        Self { time, only, is_good: true }
    }

    pub(crate) fn plays(&self, name: &str) -> bool {
        name.contains(&self.only)
    }

    pub(crate) fn is_good(&self) -> bool {
        self.is_good
    }

    /// Plays a flood beside honest requests, and prints its row. `idle` is the memory before all floods. An error means
    /// that the process has died, so that a new one is needed.
    pub(crate) async fn row(
        &mut self,
        name: &str,
        process: &mut Process,
        idle: u64,
        both: impl Future<Output = Honest>,
    ) -> Result {
        let usage = process.usage();
        let before = usage.memory().unwrap_or_default();
        let _ = usage.reset_peak();
        // A dead process answers nobody, so the honest requests end as well.
        let Honest { right, wrong } = both.await;
        let dead = process.lives().err();
        let peak = usage.peak().unwrap_or_default();
        let begun = Instant::now();
        let kept = || usage.memory().unwrap_or_default();
        while dead.is_none() && kept() > idle + MAX_KEPT && begun.elapsed() < BACK {
            sleep(Duration::from_millis(100)).await;
        }
        let after = kept();
        let mut bad = Vec::new();
        bad.extend(dead.as_ref().map(ToString::to_string));
        bad.extend((peak > MAX_PEAK).then(|| "peak".to_owned()));
        bad.extend((after > idle + MAX_KEPT).then(|| "kept".to_owned()));
        let refused = wrong.len() as u32;
        bad.extend(
            (right < 19 * refused || right == 0).then(|| format!("honest: {}", wrong.first().map_or("", |why| why))),
        );
        let mib = |bytes: u64| bytes >> 20;
        let verdict = if bad.is_empty() { "good".to_owned() } else { bad.join(", ") };
        println!("| {name} | {} | {} | {right} | {refused} | {} | {verdict} |", mib(before), mib(peak), mib(after));
        self.is_good &= bad.is_empty();
        dead.map_or(Ok(()), Err)
    }
}

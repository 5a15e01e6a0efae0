//! Verdict: checks that the webhook's resources stay constant.

use std::fmt;
use std::time::Duration;

use crate::load::Counts;
use crate::watch::ProcessUsage;

/// Memory by which the end may exceed the beginning, in bytes, or else a twentieth. An allocator keeps returned memory,
/// and not always the same amount.
const SLACK: u64 = 4 << 20;
/// Number of descriptors or tasks by which the end may exceed the beginning at rest, because a watch may just be
/// beginning anew.
const FEW: u64 = 4;

/// Data of a run.
#[derive(Debug, Clone)]
pub(crate) struct Soak {
    pub(crate) took: Duration,
    pub(crate) counts: Counts,
    /// Samples under load, one a second.
    pub(crate) samples: Vec<ProcessUsage>,
    /// State at rest.
    pub(crate) before: ProcessUsage,
    pub(crate) after: ProcessUsage,
}

impl Soak {
    /// Returns everything that is wrong.
    pub(crate) fn wrong(&self) -> Vec<String> {
        let mut wrong = Vec::new();
        let Counts { allowed, denied, unrelated, .. } = self.counts;
        if [allowed, denied, unrelated].contains(&0) {
            wrong.push("one sort of deletions (allowed, denied, unrelated) did not occur".to_owned());
        }
        if self.counts.wrong > 0 {
            wrong.push(format!("{} answers were wrong: {}", self.counts.wrong, self.counts.errors.join("; ")));
        }
        let (first, last) = (self.first(), self.last());
        if last > first + SLACK.max(first / 20) {
            wrong.push(format!("memory has grown from {} to {}", mib(first), mib(last)));
        }
        for (what, before, after) in [
            ("tasks", self.before.tasks, self.after.tasks),
            ("descriptors", self.before.descriptors, self.after.descriptors),
        ] {
            if after > before + FEW {
                wrong.push(format!("{what} at rest have grown from {before} to {after}"));
            }
        }
        wrong
    }

    /// Returns the median of memory in the first quarter.
    fn first(&self) -> u64 {
        median(self.samples.iter().take(self.quarter()))
    }

    fn last(&self) -> u64 {
        median(self.samples.iter().rev().take(self.quarter()))
    }

    fn quarter(&self) -> usize {
        self.samples.len().div_ceil(4)
    }
}

fn median<'a>(samples: impl Iterator<Item = &'a ProcessUsage>) -> u64 {
    let mut all: Vec<_> = samples.map(|sample| sample.memory).collect();
    all.sort_unstable();
    all.get(all.len() / 2).copied().unwrap_or_default()
}

fn mib(bytes: u64) -> String {
    format!("{:.1} MiB", bytes as f64 / f64::from(1 << 20))
}

impl fmt::Display for Soak {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Counts { allowed, denied, unrelated, wrong, cpu, peak, .. } = &self.counts;
        let all = allowed + denied + unrelated + wrong;
        let seconds = self.took.as_secs_f64();
        let each = cpu.as_secs_f64() * 1e6 / (all.max(1) as f64);
        writeln!(f, "| | |\n|---|---|")?;
        writeln!(f, "| deletions in {seconds:.0} s | {all}, {:.0} a second |", all as f64 / seconds)?;
        writeln!(f, "| allowed, denied, of no rule's kinds | {allowed}, {denied}, {unrelated} |")?;
        writeln!(f, "| wrong answers | {wrong} |")?;
        writeln!(f, "| CPU of the webhook | {each:.0} µs a deletion |")?;
        writeln!(
            f,
            "| memory, first quarter, last, most | {}, {}, {} |",
            mib(self.first()),
            mib(self.last()),
            mib(*peak)
        )?;
        writeln!(f, "| tasks at rest, before and after | {}, {} |", self.before.tasks, self.after.tasks)?;
        write!(f, "| descriptors at rest, before and after | {}, {} |", self.before.descriptors, self.after.descriptors)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const REST: ProcessUsage = ProcessUsage { memory: 0, tasks: 10, descriptors: 20 };

    fn soak(memory: impl Fn(u64) -> u64) -> Soak {
        let samples = (0..100).map(|second| ProcessUsage { memory: memory(second) << 20, ..REST }).collect();
        let counts = Counts { allowed: 1, denied: 1, unrelated: 1, ..Counts::default() };
        Soak { took: Duration::from_secs(100), counts, samples, before: REST, after: REST }
    }

    #[test]
    fn what_stays_the_same_or_swings_is_well() {
        assert_eq!(soak(|_| 30).wrong(), [""; 0]);
        assert_eq!(soak(|second| 30 + 20 * (second % 5 / 4)).wrong(), [""; 0]);
    }

    #[test]
    fn what_grows_is_told() {
        let [wrong] = &soak(|second| 30 + second / 8).wrong()[..] else { panic!() };
        assert!(wrong.starts_with("memory has grown from 31.0 MiB to 4"), "{wrong}");
        let after = ProcessUsage { tasks: 15, ..REST };
        assert_eq!(Soak { after, ..soak(|_| 30) }.wrong(), ["tasks at rest have grown from 10 to 15"]);
        let after = ProcessUsage { descriptors: 25, ..REST };
        assert_eq!(Soak { after, ..soak(|_| 30) }.wrong(), ["descriptors at rest have grown from 20 to 25"]);
    }

    #[test]
    fn wrong_answers_and_none_at_all_are_told() {
        let mut wrong = soak(|_| 30);
        wrong.counts.wrong = 1;
        wrong.counts.errors = vec!["why".to_owned()];
        assert_eq!(wrong.wrong(), ["1 answers were wrong: why"]);
        wrong.counts = Counts::default();
        assert_eq!(wrong.wrong(), ["one sort of deletions (allowed, denied, unrelated) did not occur"]);
    }
}

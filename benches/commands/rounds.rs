//! Ways to do the same work, which take turns, so that other load of the machine hits all of them.

use std::fs;
use std::time::{Duration, Instant};

use crate::{Result, Size};

/// One way to do the work.
pub(crate) struct Way<'w> {
    pub(crate) name: &'static str,
    pub(crate) run: Box<dyn FnMut() -> Result + 'w>,
}

#[derive(Debug, Clone, Copy)]
struct Cost {
    elapsed: Duration,
    cpu: Duration,
}

/// Clock ticks a second in `/proc`, which are the same on each Linux.
const TICKS: u64 = 100;

/// Measures the ways, and prints their medians and the ratios to the first way.
pub(crate) fn compare(title: &str, size: Size, mut ways: Vec<Way<'_>>) -> Result {
    let mut costs = vec![Vec::new(); ways.len()];
    for _ in 0..size.rounds {
        for (way, costs) in ways.iter_mut().zip(&mut costs) {
            let (begin, before) = (Instant::now(), cpu()?);
            (way.run)()?;
            costs.push(Cost { elapsed: begin.elapsed(), cpu: cpu()?.saturating_sub(before) });
        }
    }
    println!("\n{title}\n{:<44}{:>10}{:>10}{:>10}{:>10}", "", "elapsed", "ratio", "CPU", "ratio");
    let costs: Vec<_> = costs.iter().map(|costs| median(costs)).collect();
    for (way, own) in ways.iter().zip(&costs) {
        let ratio = |of: fn(&Cost) -> Duration| match of(&costs[0]).as_secs_f64() {
            0.0 => "–".to_owned(),
            first => format!("{:.2}×", of(own).as_secs_f64() / first),
        };
        let seconds = |time: Duration| format!("{:.2} s", time.as_secs_f64());
        let (elapsed, cpu) = (ratio(|cost| cost.elapsed), ratio(|cost| cost.cpu));
        println!("{:<44}{:>10}{elapsed:>10}{:>10}{cpu:>10}", way.name, seconds(own.elapsed), seconds(own.cpu));
    }
    Ok(())
}

/// Returns the medians of both times, each by itself.
fn median(costs: &[Cost]) -> Cost {
    let middle = |of: fn(&Cost) -> Duration| {
        let mut times: Vec<_> = costs.iter().map(of).collect();
        times.sort_unstable();
        times[times.len() / 2]
    };
    Cost { elapsed: middle(|cost| cost.elapsed), cpu: middle(|cost| cost.cpu) }
}

/// Returns the processor time of this process so far, with the processes that it waited for.
fn cpu() -> Result<Duration> {
    let stat = fs::read_to_string("/proc/self/stat")?;
    // The name of the program stands in parentheses, and may contain anything.
    let (_, fields) = stat.rsplit_once(')').ok_or("/proc/self/stat names no program")?;
    let times = fields.split_whitespace().skip(11).take(4);
    let ticks = times.map(str::parse::<u64>).sum::<std::result::Result<u64, _>>()?;
    Ok(Duration::from_millis(ticks * 1000 / TICKS))
}

//! General description of the machine, and its load.

use std::fs;

/// Returns a description such as `2 cores, 23 GiB`.
pub(crate) fn describe() -> String {
    let cores = std::thread::available_parallelism().map_or(0, std::num::NonZero::get);
    let memory = fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let total = memory.lines().find_map(|line| line.strip_prefix("MemTotal:"));
    let kilobytes: u64 = total.and_then(|text| text.trim().trim_end_matches("kB").trim().parse().ok()).unwrap_or(0);
    format!("{cores} cores, {} GiB", kilobytes >> 20)
}

/// Returns the load of the last minute.
pub(crate) fn load() -> f64 {
    let text = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    text.split_whitespace().next().and_then(|load| load.parse().ok()).unwrap_or(0.0)
}

/// Returns the commit of the checkout, marked where a file was changed since.
pub(crate) fn commit() -> String {
    let git = std::process::Command::new("git").args(["describe", "--always", "--dirty"]).output();
    let said = git.ok().filter(|git| git.status.success()).and_then(|git| String::from_utf8(git.stdout).ok());
    said.map_or_else(|| "a checkout without git".to_owned(), |said| said.trim().to_owned())
}

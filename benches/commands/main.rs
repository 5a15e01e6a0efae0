//! Cost of `kubectl depguard` beside the bare work, as ratios from one run:
//! `cargo bench -p depguard-benches --bench commands`.
//!
//! Without `--bench`, as under `cargo test`, each way runs once, with few objects.

use std::ffi::OsString;

use kubectl_depguard::{ExitStatus, Terminal};

#[path = "../compare/drain.rs"]
mod drain;
mod files;
mod live;
mod rounds;

type Result<T = (), E = Box<dyn std::error::Error>> = std::result::Result<T, E>;

/// Size of a run.
#[derive(Debug, Clone, Copy)]
struct Size {
    objects: usize,
    /// Rounds, in each of which every way takes its turn. Times are medians.
    rounds: usize,
}

fn main() -> Result {
    let is_measured = std::env::args().any(|argument| argument == "--bench");
    let size = if is_measured { Size { objects: 100_000, rounds: 5 } } else { Size { objects: 500, rounds: 1 } };
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    files::compare(size, &runtime)?;
    live::compare(size, &runtime)
}

/// Runs a command that must succeed, and returns its output.
async fn depguard(args: &[&str]) -> Result<String> {
    let (mut terminal, captured) = Terminal::captured("");
    let args = ["kubectl-depguard"].iter().chain(args).map(OsString::from);
    match kubectl_depguard::run(args, &mut terminal).await {
        ExitStatus::Well => Ok(captured.out()),
        _ => Err(captured.err().into()),
    }
}

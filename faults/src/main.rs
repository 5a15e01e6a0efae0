//! Command line of the fault run.

use std::process::ExitCode;

use clap::Parser;
use depguard_faults::{Fault, Options, ReadThrough};

/// Deletes objects while everything around depguard fails, and checks the answers. Prints one line at the end. Exit
/// code 1 means that a referenced object was deleted, or a deletion was refused for too long.
#[derive(Debug, Parser)]
struct Arguments {
    /// Seed of the random faults and deletions: the same seed gives the same sequence
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Number of objects to delete
    #[arg(long, default_value_t = 10_000)]
    deletes: usize,
    /// Faults to inject, by their names in the last line (comma-separated) [default: all usual faults]
    #[arg(long, value_delimiter = ',', value_parser = fault)]
    only: Vec<Fault>,
    /// Read dependents through their own exports
    #[arg(long)]
    export: bool,
    /// Stop at the first violation
    #[arg(long)]
    until_violation: bool,
}

fn main() -> ExitCode {
    let Arguments { seed, deletes, only, export, until_violation } = Arguments::parse();
    let read_through = if export { ReadThrough::Export } else { ReadThrough::FrontProxy };
    let options = Options { seed, deletes, only, read_through, until_violation, tell: true };
    let done = tokio::runtime::Runtime::new().map_err(Into::into);
    match done.and_then(|runtime| runtime.block_on(depguard_faults::run(&options))) {
        Ok(summary) => {
            for violation in &summary.violations {
                println!("violation: {violation}");
            }
            println!("{summary}");
            if summary.violations.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
        }
        Err(error) => {
            eprintln!("faults: {error}");
            ExitCode::from(2)
        }
    }
}

fn fault(name: &str) -> Result<Fault, String> {
    let mut all = Fault::USUAL.into_iter().chain([Fault::RulesChangedUnheard]);
    all.find(|fault| fault.name() == name).ok_or_else(|| "unknown fault".to_owned())
}

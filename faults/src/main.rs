//! The fault run's command line.

use std::process::ExitCode;

use clap::Parser;
use depguard_faults::{Fault, Options, ReadThrough};

/// Deletes objects while everything around depguard fails, and judges what came of it. Ends with one line, and with
/// exit code 1 where something was deleted that was referenced, or refused for too long.
#[derive(Debug, Parser)]
struct Arguments {
    /// Draws which faults come when, and what is deleted in them: the same number, the same sequence
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// How many objects are deleted
    #[arg(long, default_value_t = 10_000)]
    deletes: usize,
    /// Only these faults, by their names in the last line (comma-separated)
    #[arg(long, value_delimiter = ',', value_parser = fault)]
    only: Vec<Fault>,
    /// Read dependents through their own exports
    #[arg(long)]
    export: bool,
    /// End with the first violation
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
    all.find(|fault| fault.name() == name).ok_or_else(|| "there is no such fault".to_owned())
}

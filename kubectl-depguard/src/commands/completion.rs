//! `completion`: what a shell needs to complete commands and flags.

use clap_complete::{Shell, generate};

use crate::outcome::{Failure, Outcome};
use crate::terminal::Terminal;

/// Print a script that completes commands and flags in a shell
///
/// For bash: `source <(kubectl depguard completion bash)`
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Which shell
    #[arg(value_enum)]
    shell: Shell,
}

pub(crate) fn run(args: &Args, terminal: &mut Terminal) -> Result<Outcome, Failure> {
    let mut script = Vec::new();
    generate(args.shell, &mut crate::command(), "kubectl-depguard", &mut script);
    terminal.out().write_all(&script)?;
    Ok(Outcome::Well)
}

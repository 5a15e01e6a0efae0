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

/// What is completed.
const PROGRAM: &str = "kubectl-depguard";
/// Its name within bash's script, which tells subcommands apart by two spellings of it: they differ where it has a hyphen.
const WORD: &str = "depguard";

pub(crate) fn run(args: &Args, terminal: &mut Terminal) -> Result<Outcome, Failure> {
    let (name, mut script) = (if args.shell == Shell::Bash { WORD } else { PROGRAM }, Vec::new());
    generate(args.shell, &mut crate::command().name(name).bin_name(name), name, &mut script);
    if args.shell == Shell::Bash {
        let registered = String::from_utf8_lossy(&script);
        script = registered.replace(&format!(" default {WORD}\n"), &format!(" default {PROGRAM}\n")).into_bytes();
    }
    terminal.out().write_all(&script)?;
    Ok(Outcome::Well)
}

//! `completion`: prints the script by which a shell completes commands and flags.

pub(crate) mod kubectl;

use clap_complete::{Shell, generate};

use crate::io::exit::{Failure, Outcome};
use crate::io::terminal::Terminal;

/// Print a script that completes commands and flags in a shell
///
/// For bash: `source <(kubectl depguard completion bash)`. The script completes the words after `kubectl-depguard`.
///
/// For the words after `kubectl depguard`, kubectl 1.26 and later run a program `kubectl_complete-depguard`. Create it
/// as a link to this program, for example by `ln -s "$(command -v kubectl-depguard)"
/// ~/.local/bin/kubectl_complete-depguard`, in any folder of the PATH.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Shell to write the script for
    #[arg(value_enum)]
    shell: Shell,
}

/// Name of the completed command.
const PROGRAM: &str = "kubectl-depguard";
/// Name of the command within bash's script. The script tells subcommands apart by two spellings of the name, which
/// differ if the name has a hyphen.
const WORD: &str = "depguard";

/// Prints the script for `command`, the whole command line.
pub(crate) fn run(args: &Args, command: clap::Command, terminal: &mut Terminal) -> Result<Outcome, Failure> {
    let (name, mut script) = (if args.shell == Shell::Bash { WORD } else { PROGRAM }, Vec::new());
    generate(args.shell, &mut command.name(name).bin_name(name), name, &mut script);
    if args.shell == Shell::Bash {
        let registered = String::from_utf8_lossy(&script);
        script = registered.replace(&format!(" default {WORD}\n"), &format!(" default {PROGRAM}\n")).into_bytes();
    }
    terminal.out().write_all(&script)?;
    Ok(Outcome::Well)
}

//! `completion`: lets shells complete commands, flags, kinds, objects and namespaces.

mod candidates;
mod dynamic;
mod install;
pub(crate) mod protocol;
mod scripts;

use clap_complete::Shell;

use crate::io::exit::{Failure, Outcome};
use crate::io::terminal::Terminal;

/// Complete commands, flags, kinds, objects and namespaces in a shell
///
/// With --install, the command sets everything up. It writes a program kubectl_complete-depguard into a folder of the
/// PATH, which kubectl 1.26 and later run to complete the words after `kubectl depguard`, and for each shell that is
/// installed a script that completes the words after `kubectl-depguard`. It replaces only files of its own.
///
/// Without --install, the command prints the script for one shell. Kinds, objects and namespaces come from the API
/// server, or from the files after -f, and contexts from the kubeconfig.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Shell to write the script for; with --install, the only shell to set up
    #[arg(value_enum, required_unless_present = "install")]
    shell: Option<Shell>,

    /// Set up the completion of kubectl and of the shells that are installed
    #[arg(long)]
    install: bool,
}

/// Prints or installs the scripts for `command`, the whole command line.
pub(crate) fn run(args: &Args, command: clap::Command, terminal: &mut Terminal) -> Result<Outcome, Failure> {
    match (args.install, args.shell) {
        (true, shell) => install::run(shell, terminal)?,
        (false, Some(shell)) => terminal.out().write_all(&scripts::script(shell, command))?,
        (false, None) => return Err(Failure::new("no shell is named").hint("name one, or add --install")),
    }
    Ok(Outcome::Well)
}

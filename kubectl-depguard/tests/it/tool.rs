//! Command line, run in this process.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use kubectl_depguard::{ExitStatus, Terminal, run};

/// Exit status and output of a command.
#[derive(Debug)]
pub(crate) struct Ran {
    pub(crate) status: ExitStatus,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl Ran {
    /// Returns the output of a command that succeeded.
    pub(crate) fn well(self) -> String {
        assert_eq!(self.status, ExitStatus::Well, "{}{}", self.out, self.err);
        self.out
    }
}

/// Runs a command that reads nothing.
pub(crate) async fn depguard(args: &[&str]) -> Ran {
    let (status, out, err) = depguard_reading(args, "").await;
    Ran { status, out, err }
}

/// Runs a command with this standard input, and returns its exit status, output and messages.
pub(crate) async fn depguard_reading(args: &[&str], stdin: impl Into<Vec<u8>>) -> (ExitStatus, String, String) {
    let (mut terminal, captured) = Terminal::captured(stdin);
    let args = ["kubectl-depguard"].iter().chain(args).map(OsString::from);
    let status = run(args, &mut terminal).await;
    (status, captured.out(), captured.err())
}

pub(crate) fn write(folder: &Path, name: &str, content: &str) -> PathBuf {
    let file = folder.join(name);
    std::fs::write(&file, content).unwrap();
    file
}

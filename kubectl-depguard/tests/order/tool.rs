//! The command line, run in this process.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use kubectl_depguard::{ExitStatus, Terminal, run};

/// What a command ended with and wrote.
#[derive(Debug)]
pub(crate) struct Ran {
    pub(crate) status: ExitStatus,
    pub(crate) out: String,
    pub(crate) err: String,
}

pub(crate) async fn depguard(args: &[&str]) -> Ran {
    let (mut terminal, captured) = Terminal::captured("");
    let args = ["kubectl-depguard"].iter().chain(args).map(OsString::from);
    let status = run(args, &mut terminal).await;
    Ran { status, out: captured.out(), err: captured.err() }
}

pub(crate) fn write(folder: &Path, name: &str, content: &str) -> PathBuf {
    let file = folder.join(name);
    std::fs::write(&file, content).unwrap();
    file
}

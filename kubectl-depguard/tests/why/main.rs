//! `why`: who blocks a deletion.

mod files;
mod live;

use std::ffi::OsString;

use kubectl_depguard::{ExitStatus, Terminal, run};

/// A command, and what it ended with, printed and complained of.
async fn depguard(args: &[&str], stdin: &str) -> (ExitStatus, String, String) {
    let (mut terminal, captured) = Terminal::captured(stdin);
    let args = ["kubectl-depguard"].iter().chain(args).map(OsString::from);
    let status = run(args, &mut terminal).await;
    (status, captured.out(), captured.err())
}

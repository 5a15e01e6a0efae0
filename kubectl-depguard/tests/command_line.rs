//! The command line as a person meets it.

use std::ffi::OsString;

use kubectl_depguard::{ExitStatus, Terminal, run};

async fn depguard(args: &[&str]) -> (ExitStatus, String, String) {
    let (mut terminal, captured) = Terminal::captured("");
    let args = ["kubectl-depguard"].iter().chain(args).map(OsString::from);
    let status = run(args, &mut terminal).await;
    (status, captured.out(), captured.err())
}

#[tokio::test]
async fn help_is_no_error_and_a_wrong_flag_is() {
    let (status, out, err) = depguard(&["--help"]).await;
    assert_eq!((status, err.as_str()), (ExitStatus::Well, ""));
    assert!(out.contains("Usage: kubectl depguard"), "{out}");
    let (status, out, err) = depguard(&["--no-such-flag"]).await;
    assert_eq!((status, out.as_str()), (ExitStatus::Failure, ""));
    assert!(err.contains("--no-such-flag"), "{err}");
}

#[tokio::test]
async fn a_shell_gets_its_completions() {
    let (status, out, _) = depguard(&["completion", "bash"]).await;
    assert_eq!(status, ExitStatus::Well);
    assert!(out.contains("kubectl-depguard"), "{out}");
}

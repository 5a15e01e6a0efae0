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

/// In a real bash, by the function that the script registers.
#[tokio::test]
async fn bash_completes_the_flags_of_a_command_and_their_values() {
    let (status, script, _) = depguard(&["completion", "bash"]).await;
    assert_eq!(status, ExitStatus::Well);
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("completion.bash");
    std::fs::write(&file, script).unwrap();
    for (typed, completed) in [
        ("why -o ''", "json"),
        ("why --a", "--all"),
        ("order --dry-run ''", "server"),
        ("uninstall --y", "--yes"),
        ("wh", "why"),
    ] {
        let line = format!(
            "source {file} && COMP_WORDS=(kubectl-depguard {typed}) && COMP_CWORD=$((${{#COMP_WORDS[@]}} - 1)) && \
             name=$(complete -p kubectl-depguard | sed 's/.*-F \\([^ ]*\\).*/\\1/') && \
             $name kubectl-depguard \"${{COMP_WORDS[COMP_CWORD]}}\" \"${{COMP_WORDS[COMP_CWORD-1]}}\" && echo \"${{COMPREPLY[*]}}\"",
            file = file.display(),
        );
        let Ok(ran) = std::process::Command::new("bash").args(["--norc", "-c", &line]).output() else {
            println!("skipped: there is no bash");
            return;
        };
        let (out, err) = (String::from_utf8_lossy(&ran.stdout), String::from_utf8_lossy(&ran.stderr));
        assert!(out.split_whitespace().any(|word| word == completed), "{typed}: {out}{err}");
    }
}

/// Nobody reads what is printed, as behind `| head`: kubectl ends in silence, and does not say that all is well.
#[test]
fn a_pipe_that_is_closed_ends_it_in_silence() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("rules.yaml");
    std::fs::write(&file, include_str!("../../examples/guide/rules.yaml")).unwrap();
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let ran = std::process::Command::new(env!("CARGO_BIN_EXE_kubectl-depguard"))
        .args(["graph", "-f", file.to_str().unwrap()])
        .stdout(writer)
        .output()
        .unwrap();
    assert_eq!((ran.status.code(), String::from_utf8_lossy(&ran.stderr).as_ref()), (Some(141), ""));
}

#[tokio::test]
async fn flags_that_say_nothing_about_files_are_told() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("rules.yaml");
    std::fs::write(&file, include_str!("../../examples/guide/rules.yaml")).unwrap();
    let files = ["graph", "-f", file.to_str().unwrap()];
    for (flags, said) in [
        (["--kubeconfig", "/nope"], "--kubeconfig is passed over"),
        (["--context", "x"], "--context is passed over"),
        (["-n", "x"], "-n and -A are passed over"),
    ] {
        let (status, _, err) = depguard(&[&files[..], &flags].concat()).await;
        assert!(status == ExitStatus::Well && err.contains(said), "{err}");
    }
}

//! Command line as users meet it.

use std::ffi::OsString;

use kubectl_depguard::{ExitStatus, Terminal, run};

use crate::tool::depguard_reading;

#[tokio::test]
async fn help_is_no_error_and_a_wrong_flag_is() {
    let (status, out, err) = depguard_reading(&["--help"], "").await;
    assert_eq!((status, err.as_str()), (ExitStatus::Well, ""));
    assert!(out.contains("Usage: kubectl depguard"), "{out}");
    let (status, out, err) = depguard_reading(&["--no-such-flag"], "").await;
    assert_eq!((status, out.as_str()), (ExitStatus::Failure, ""));
    assert!(err.contains("--no-such-flag"), "{err}");
}

/// Runs a real bash with the function that the script registers.
#[tokio::test]
async fn bash_completes_the_flags_of_a_command_and_their_values() {
    let (status, script, _) = depguard_reading(&["completion", "bash"], "").await;
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

/// Nobody reads the output, as behind `| head`: kubectl ends silently, and doesn't report success.
#[test]
fn a_pipe_that_is_closed_ends_it_in_silence() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("rules.yaml");
    std::fs::write(&file, include_str!("../../../examples/guide/rules.yaml")).unwrap();
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
    std::fs::write(&file, include_str!("../../../examples/guide/rules.yaml")).unwrap();
    let files = ["graph", "-f", file.to_str().unwrap()];
    for (flags, said) in [
        (["--kubeconfig", "/nope"], "ignored --kubeconfig"),
        (["--context", "x"], "ignored --context"),
        (["-n", "x"], "ignored -n and -A"),
    ] {
        let (status, _, err) = depguard_reading(&[&files[..], &flags].concat(), "").await;
        assert!(status == ExitStatus::Well && err.contains(said), "{err}");
    }
}

/// Each case: the words that kubectl passes on, the candidates, and the directive. If kubectl is installed, it is
/// tested, too.
#[tokio::test]
async fn kubectl_completes_what_stands_behind_its_own_name() {
    for (typed, completed, last) in [
        (&["wh"][..], &["why\tShow what blocks"][..], ":4"),
        (&["why", "vpc", "-o", ""], &["json\tJSON", "name\t"], ":4"),
        (&["why", "--a"], &["--all\t", "--all-namespaces\t"], ":4"),
        (&["order", "--dry-run=s"], &["--dry-run=server\t"], ":4"),
        (&["completion", "b"], &["bash\t"], ":4"),
        (&["-n", "why", "dang"], &["dangling\t"], ":4"),
        (&["why", "-f", ""], &[], ":0"),
        (&["why", "--nope="], &[], ":4"),
        (&[], &["completion\t", "why\t"], ":4"),
    ] {
        let (mut terminal, captured) = Terminal::captured("");
        let args = ["/bin/kubectl_complete-depguard"].iter().chain(typed).map(OsString::from);
        assert_eq!(run(args, &mut terminal).await, ExitStatus::Well);
        let out = captured.out();
        assert!(out.ends_with(&format!("{last}\n")), "{typed:?}: {out}");
        for word in completed {
            assert!(out.lines().any(|line| line.starts_with(word)), "{typed:?}: {word} in {out}");
        }
        let begun = typed.last().copied().unwrap_or_default();
        assert!(out.lines().all(|line| line.starts_with(begun) || line == last), "{typed:?}: {out}");
    }

    let folder = tempfile::tempdir().unwrap();
    for name in ["kubectl-depguard", "kubectl_complete-depguard"] {
        std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_kubectl-depguard"), folder.path().join(name)).unwrap();
    }
    let path = format!("{}:{}", folder.path().display(), std::env::var("PATH").unwrap());
    let asked = ["__complete", "depguard", "order", "--dry-run", ""];
    let Ok(ran) = std::process::Command::new("kubectl").args(asked).env("PATH", path).output() else {
        println!("skipped: there is no kubectl");
        return;
    };
    let out = String::from_utf8_lossy(&ran.stdout);
    assert!(out.contains("client\t") && out.contains("server\t") && out.ends_with(":4\n"), "{out}");
}

//! Command line as users meet it.

use kubectl_depguard::ExitStatus;

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
async fn a_table_has_headings_unless_they_are_left_out() {
    let (_, table, _) = depguard_reading(&["rules", "list"], "").await;
    let (status, rows, _) = depguard_reading(&["rules", "list", "--no-headers"], "").await;
    assert_eq!(status, ExitStatus::Well);
    let (heading, rest) = table.split_once('\n').unwrap();
    assert!(heading.starts_with("NAME ") && !rows.contains("RULES"), "{table}");
    assert_eq!(rows.lines().count(), rest.lines().count());
}

#[tokio::test]
async fn kinds_have_no_namespace() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("rules.yaml");
    std::fs::write(&file, include_str!("../../../examples/guide/rules.yaml")).unwrap();
    let files = ["graph", "-f", file.to_str().unwrap()];
    for (flags, said) in [(&["-n", "x"][..], "ignored -n and -A"), (&["-A"], "ignored -n and -A")] {
        let (status, _, err) = depguard_reading(&[&files[..], flags].concat(), "").await;
        assert!(status == ExitStatus::Well && err.contains(said), "{err}");
    }
}

//! Flags about the API server and the caller.

use std::path::Path;
use std::process::Command;

use kubectl_depguard::ExitStatus;

use crate::bed::Bed;
use crate::tool::{depguard, depguard_reading, write};

const RULES: &str = include_str!("../../../examples/guide/rules.yaml");
const UNREADABLE: &str = "could not read the CustomResourceDefinitions (no right to read)";

#[tokio::test]
async fn a_command_asks_as_the_user_and_the_groups_that_are_named() {
    let bed = Bed::kubernetes_with_rights().await;
    let own = bed.depguard(&["suggest"]).await;
    assert!(!own.err.contains(UNREADABLE), "{}", own.err);
    let ann = bed.depguard(&["suggest", "--as", "ann"]).await;
    assert_eq!(ann.status, ExitStatus::Failure, "{}", ann.out);
    assert!(ann.err.contains(UNREADABLE), "{}", ann.err);
    let master = bed.depguard(&["suggest", "--as=ann", "--as-group=dev", "--as-group=system:masters"]).await;
    assert!(!master.err.contains(UNREADABLE), "{}", master.err);

    let nobody = bed.depguard(&["suggest", "--as-group", "dev"]).await;
    assert_eq!(nobody.status, ExitStatus::Failure, "{}", nobody.out);
    assert!(nobody.err.contains("there is none") && nobody.err.contains("add --as USER"), "{}", nobody.err);
}

#[tokio::test]
async fn the_level_decides_which_requests_are_printed() {
    let bed = Bed::kubernetes_with_rights().await;
    let printed = async |args: &[&str]| {
        let ran = bed.depguard(&[&["suggest", "--as", "ann"], args].concat()).await;
        assert!(!ran.err.contains("Bearer") && !ran.out.contains("GET "), "{}", ran.err);
        let is_request = |line: &&str| line.starts_with("GET ") || line.starts_with("    ");
        ran.err.lines().filter(is_request).map(str::to_owned).collect::<Vec<_>>()
    };
    let crds = format!("GET {}/apis/apiextensions.k8s.io/v1/customresourcedefinitions?", bed.testbed.url());
    let refused = |line: &String| line.starts_with(&crds) && line.contains(" 403 Forbidden in ");

    assert_eq!(printed(&[]).await, [""; 0]);
    let failed = printed(&["-v", "1"]).await;
    assert!(failed.len() == 1 && failed.iter().all(refused), "{failed:?}");
    let master = "--as-group=system:masters";
    assert_eq!(printed(&["-v=1", master]).await, [""; 0]);
    let all = printed(&["-v=6", master]).await;
    assert!(all.len() == 1 && all[0].starts_with(&crds) && all[0].contains(" 200 OK in "), "{all:?}");
    let headers = printed(&["--v=8"]).await;
    for header in ["    > accept: \"application/json\"", "    < content-type: \"application/json\""] {
        assert!(headers.iter().any(|line| line == header), "{headers:?}");
    }
}

/// Runs the program itself, in an environment without any kubeconfig.
#[tokio::test(flavor = "multi_thread")]
async fn a_server_and_a_token_need_no_kubeconfig() {
    let bed = Bed::kubernetes().await;
    let folder = tempfile::tempdir().unwrap();
    let run = |flags: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_kubectl-depguard"));
        command.env_clear().env("HOME", folder.path()).args(["status", "--server", bed.testbed.url()]).args(flags);
        let ran = command.output().unwrap();
        format!("{}{}", String::from_utf8_lossy(&ran.stdout), String::from_utf8_lossy(&ran.stderr))
    };
    let verified = run(&["--token", "admin"]);
    assert!(verified.contains("certificate"), "{verified}");
    let unknown = run(&["--insecure-skip-tls-verify"]);
    assert!(unknown.contains("401"), "{unknown}");
    let told = run(&["--insecure-skip-tls-verify", "--token", "admin"]);
    assert!(told.contains("depguard is not installed here"), "{told}");
}

#[tokio::test]
async fn an_api_server_that_does_not_answer_in_time_is_a_failure() {
    let bed = Bed::kubernetes().await;
    let told = bed.depguard(&["suggest", "--request-timeout=1ns"]).await;
    assert_eq!(told.status, ExitStatus::Failure, "{}", told.out);
    assert!(told.err.contains("had no answer within"), "{}", told.err);
}

#[tokio::test]
async fn flags_about_an_api_server_are_refused_where_none_is_asked() {
    let folder = tempfile::tempdir().unwrap();
    let rules = write(folder.path(), "rules.yaml", RULES);
    for flag in [
        &["--kubeconfig", "/nope"][..],
        &["--context", "x"],
        &["--as", "x"],
        &["--as-group", "x"],
        &["--as-uid", "x"],
        &["--cluster", "x"],
        &["--user", "x"],
        &["--server", "x"],
        &["--token", "x"],
        &["--insecure-skip-tls-verify"],
        &["--request-timeout", "1s"],
    ] {
        refused(&[&["graph", "-f", text(&rules)], flag].concat(), flag[0]).await;
    }
    for command in [
        &["why", "vpc", "a", "-f", text(&rules)][..],
        &["impact", "vpc", "a", "-f", text(&rules)],
        &["dangling", "-f", text(&rules)],
        &["order", "-f", text(&rules)],
        &["lint", "-f", text(&rules)],
        &["suggest", "-f", text(&rules)],
        &["import", "published-resource", "-f", text(&rules)],
        &["test", "-f", text(&rules)],
        &["install", "--control-plane=kubernetes", "--dry-run=client"],
    ] {
        refused(&[command, &["--as", "x"]].concat(), "--as").await;
    }
    let (status, _, _) = depguard_reading(&["graph", "-f", "-"], RULES).await;
    assert_eq!(status, ExitStatus::Well);
}

async fn refused(args: &[&str], flag: &str) {
    let told = depguard(args).await;
    assert_eq!((told.status, told.out.as_str()), (ExitStatus::Failure, ""), "{args:?}");
    assert!(told.err.contains(&format!("{flag} would have no effect")), "{args:?}: {}", told.err);
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

//! Tests that the workflows run nothing but what was looked at, with no more rights than they need.

use std::fs;
use std::path::Path;

/// Returns the names and texts of all workflows.
fn workflows() -> Vec<(String, String)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../.github/workflows");
    let files = fs::read_dir(folder).unwrap().map(|file| file.unwrap().path());
    files.map(|file| (file.display().to_string(), fs::read_to_string(&file).unwrap())).collect()
}

/// Returns what is wrong with a workflow: an action that may change, a right for all jobs, a job without a limit.
fn faults(workflow: &str) -> Vec<String> {
    let mut faults = Vec::new();
    let is_digest = |text: &str| text.len() == 40 && text.chars().all(|c| c.is_ascii_hexdigit());
    for action in workflow.lines().filter_map(|line| line.trim_start_matches([' ', '-']).strip_prefix("uses: ")) {
        let (name, version) = action.split_once(" # v").unwrap_or((action, ""));
        let is_pinned = name.rsplit_once('@').is_some_and(|(_, digest)| is_digest(digest)) && !version.is_empty();
        if !(is_pinned || name.starts_with("./")) {
            faults.push(format!("{action}: no digest with its version"));
        }
    }
    if !workflow.lines().any(|line| line == "permissions: {}") {
        faults.push("no `permissions: {}` for all jobs".to_owned());
    }
    let count = |part: &str| workflow.lines().filter(|line| line.starts_with(part)).count();
    for part in ["    timeout-minutes: ", "    permissions:"] {
        if count(part) != count("    runs-on: ") {
            faults.push(format!("not each job has {}", part.trim()));
        }
    }
    if workflow.matches("actions/checkout@").count() != workflow.matches("persist-credentials: false").count() {
        faults.push("a checkout keeps the token".to_owned());
    }
    faults
}

#[test]
fn workflows_run_pinned_actions_with_few_rights_and_a_limit() {
    let workflows = workflows();
    assert!(workflows.len() >= 3);
    for (name, workflow) in &workflows {
        assert_eq!(faults(workflow), [""; 0], "{name}");
        // Each of these is seen.
        for (from, to) in [
            ("permissions: {}", "permissions: write-all"),
            ("    timeout-minutes: ", "    # "),
            ("persist-credentials: false", "fetch-depth: 1"),
            (" # v", " "),
        ] {
            if workflow.contains(from) {
                assert_eq!(faults(&workflow.replacen(from, to, 1)).len(), 1, "{name}: {from}");
            }
        }
    }
}

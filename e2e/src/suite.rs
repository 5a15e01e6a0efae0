//! Kubernetes' own end-to-end tests, unchanged, run against a cluster of this test.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::path::PathBuf;
use std::process::Stdio;

use futures::future::try_join_all;
use serde_json::Value;
use tempfile::TempDir;
use tokio::process::Command;

use crate::outcome::{Outcome, Stop, ensure};
use crate::selection;

/// Processes that share the tests. Tests mostly wait.
const PROCESSES: usize = 8;

/// Program that `e2e/conformance/build` builds.
pub struct Suite {
    program: PathBuf,
    /// Folder with the kubeconfig, the reports and the output.
    folder: TempDir,
}

/// Results of a run, by the names of the tests: the state of each and, for a failure, the message.
pub struct Report(BTreeMap<String, (String, String)>);

impl Suite {
    /// Prepares runs by the user of this kubeconfig.
    pub fn new(kubeconfig: &str) -> Outcome<Suite> {
        let program = selection::kubernetes_tests().map_err(Stop::Skipped)?.join("e2e.test");
        let folder = tempfile::tempdir()?;
        fs::write(folder.path().join("kubeconfig"), kubeconfig)?;
        Ok(Suite { program, folder })
    }

    /// Runs the tests with these names.
    pub async fn run(&self, tests: &[&str]) -> Outcome<Report> {
        let mut shares = vec![Vec::new(); PROCESSES.min(tests.len())];
        let count = shares.len();
        tests.iter().enumerate().for_each(|(index, test)| shares[index % count].push(*test));
        let runs = shares.iter().enumerate().map(|(index, share)| self.run_share(index, share));
        Ok(Report(try_join_all(runs).await?.into_iter().flatten().collect()))
    }

    async fn run_share(&self, index: usize, tests: &[&str]) -> Outcome<Vec<(String, (String, String))>> {
        let [report, output] = ["json", "log"].map(|end| self.folder.path().join(format!("{index}.{end}")));
        let log = File::create(&output)?;
        let focus: Vec<_> = tests.iter().map(|test| escaped(test)).collect();
        let status = Command::new(&self.program)
            .arg(format!("--kubeconfig={}", self.folder.path().join("kubeconfig").display()))
            .arg(format!("--ginkgo.focus=({})$", focus.join("|")))
            .arg(format!("--ginkgo.json-report={}", report.display()))
            .args(["--provider=skeleton", "--num-nodes=1", "--dump-logs-on-failure=false", "--ginkgo.timeout=4m"])
            .current_dir(self.folder.path())
            .stdin(Stdio::null())
            .stdout(log.try_clone()?)
            .stderr(log)
            .kill_on_drop(true)
            .status()
            .await?;
        let read = fs::read(&report).map_err(|why| {
            let output = fs::read_to_string(&output).unwrap_or_default();
            Stop::Failed(format!("Kubernetes' tests ended with {status} and no report: {why}: {output}"))
        })?;
        fs::remove_file(&report)?;
        let states = states(&serde_json::from_slice(&read)?);
        Ok(states.into_iter().filter(|(name, _)| tests.contains(&name.as_str())).collect())
    }
}

impl Report {
    /// Fails unless each of `tests` ran, those in `refused` failed by a refusal of depguard, and all others passed.
    pub fn check(&self, tests: &[&str], refused: &[&str]) -> Outcome {
        let wrong: Vec<_> = tests.iter().filter_map(|test| self.wrong(test, refused.contains(test))).collect();
        ensure(wrong.is_empty() && !tests.is_empty(), || {
            format!("{} of {} tests: {}", wrong.len(), tests.len(), wrong.join("; "))
        })
    }

    fn wrong(&self, test: &str, is_refused: bool) -> Option<String> {
        let Some((state, message)) = self.0.get(test) else { return Some(format!("there is no `{test}`")) };
        let is_right = match is_refused {
            true => state == "failed" && message.contains("still referenced by"),
            false => state == "passed",
        };
        (!is_right).then(|| format!("`{test}` is {state}: {message}"))
    }
}

/// Returns how each test of a report of Ginkgo ended.
fn states(report: &Value) -> Vec<(String, (String, String))> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let specs = report.as_array().into_iter().flatten().flat_map(|suite| suite["SpecReports"].as_array());
    let is_test = |spec: &&Value| spec["LeafNodeType"] == "It";
    let ended = specs.flatten().filter(is_test).map(|spec| {
        let above = spec["ContainerHierarchyTexts"].as_array().into_iter().flatten();
        let name: Vec<_> = above.chain([&spec["LeafNodeText"]]).map(text).collect();
        (name.join(" "), (text(&spec["State"]), text(&spec["Failure"]["Message"])))
    });
    ended.collect()
}

/// Returns a pattern that only this text matches.
fn escaped(text: &str) -> String {
    let is_plain = |one: char| one.is_alphanumeric() || " -_/'".contains(one);
    text.chars().flat_map(|one| (!is_plain(one)).then_some('\\').into_iter().chain([one])).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn report() -> Report {
        let spec = |name: &str, state: &str, message: &str| {
            json!({
                "ContainerHierarchyTexts": ["[sig-apps] Job"], "LeafNodeText": name, "LeafNodeType": "It",
                "State": state, "Failure": {"Message": message},
            })
        };
        let mut whole_suite = spec("", "passed", "");
        whole_suite["LeafNodeType"] = json!("BeforeSuite");
        let specs =
            [whole_suite, spec("runs", "passed", ""), spec("hangs", "timedout", ""), spec("waits", "skipped", "")];
        let failed = [
            spec("breaks", "failed", "no such file"),
            spec("is refused", "failed", "denied the request: still referenced by Pod/web"),
        ];
        Report(states(&json!([{"SpecReports": specs}, {"SpecReports": failed}])).into_iter().collect())
    }

    #[test]
    fn only_what_ran_and_passed_is_well() {
        report().check(&["[sig-apps] Job runs"], &[]).unwrap();
        for (name, said) in [
            ("breaks", "is failed: no such file"),
            ("is refused", "denied the request"),
            ("hangs", "is timedout"),
            ("waits", "is skipped"),
            ("was renamed", "there is no"),
        ] {
            let name = format!("[sig-apps] Job {name}");
            let wrong = report().check(&["[sig-apps] Job runs", &name], &[]).unwrap_err().to_string();
            assert!(wrong.starts_with("1 of 2 tests: ") && wrong.contains(said), "{wrong}");
        }
        report().check(&[], &[]).unwrap_err();
    }

    #[test]
    fn what_is_to_be_refused_fails_by_a_refusal() {
        let (runs, refused) = ("[sig-apps] Job runs", "[sig-apps] Job is refused");
        report().check(&[runs, refused], &[refused]).unwrap();
        for other in [runs, "[sig-apps] Job breaks", "[sig-apps] Job waits"] {
            report().check(&[other, refused], &[other, refused]).unwrap_err();
        }
    }

    #[test]
    fn a_name_is_its_own_pattern() {
        assert_eq!(escaped("[sig-apps] a/b (1.0)"), r"\[sig-apps\] a/b \(1\.0\)");
    }
}

//! Checks of the packed chart, as a release has it.

use std::process::Command;

use depguard_e2e::tools::run;
use depguard_e2e::{Outcome, Stop, ensure};
use serde_json::Value;

use crate::chart::{Chart, NAMESPACE};
use crate::values::KUBERNETES;

const CHANGELOG: &str = include_str!("../../../CHANGELOG.md");

/// Packs the chart with the changes under a heading, and returns the metadata in the package.
fn packed(chart: &Chart, heading: &[&str]) -> Outcome<Value> {
    let out = tempfile::tempdir()?;
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../.ci/chart");
    run(Command::new(script).arg(out.path()).args(heading).env("DEPGUARD_HELM", chart.tools.folder()))?;
    let package = out.path().join(concat!("depguard-", env!("CARGO_PKG_VERSION"), ".tgz"));
    let shown = chart.tools.helm(&["show", "chart", &package.to_string_lossy()])?;
    serde_saphyr::from_str(&shown).map_err(|why| Stop::Failed(format!("{why}: {shown}")))
}

/// Checks that the package lists each change of its version, and that a version without a heading is not packed.
pub(crate) fn has_the_changes(chart: &Chart) -> Outcome {
    let released = CHANGELOG.contains(concat!("## [", env!("CARGO_PKG_VERSION"), "]"));
    let heading = if released { env!("CARGO_PKG_VERSION") } else { "Unreleased" };
    let chart_yaml = packed(chart, &[heading])?;
    let text = chart_yaml["annotations"]["artifacthub.io/changes"].as_str().unwrap_or_default();
    let changes: Vec<Value> = serde_saphyr::from_str(text).map_err(|why| Stop::Failed(format!("{why}: {text}")))?;
    let kinds = ["added", "changed", "deprecated", "removed", "fixed", "security"];
    for change in &changes {
        let (kind, text) = (change["kind"].as_str(), change["description"].as_str().unwrap_or_default());
        let plain =
            kind.is_some_and(|kind| kinds.contains(&kind)) && !text.contains(['`', '⚖']) && !text.contains("**");
        ensure(plain && !text.contains("](") && text.len() > 10, || format!("not as Artifact Hub has it: {change}"))?;
    }
    let (_, section) = CHANGELOG.split_once(&format!("## [{heading}]")).unwrap_or_default();
    let section = section.split("\n## ").next().unwrap_or_default();
    let all = section.lines().filter(|line| line.starts_with("- ")).count();
    ensure(changes.len() == all && all > 0, || format!("{} of {all} changes", changes.len()))?;
    ensure(chart_yaml["annotations"]["artifacthub.io/license"].is_string(), || {
        "the other annotations are gone".to_owned()
    })?;
    match packed(chart, &["0.0.0"]) {
        Ok(_) => Err(Stop::failed("a version was packed that CHANGELOG.md doesn't have")),
        Err(why) => ensure(why.to_string().contains("no heading [0.0.0]"), || why.to_string()),
    }
}

/// Checks that helm refuses an older Kubernetes than `kubeVersion` names.
pub(crate) fn is_for_new_clusters(chart: &Chart) -> Outcome {
    chart.helm(&["template", "depguard", "--kube-version", "1.30.0"], NAMESPACE, KUBERNETES, &[])?;
    match chart.helm(&["template", "depguard", "--kube-version", "1.29.9"], NAMESPACE, KUBERNETES, &[]) {
        Ok(_) => Err(Stop::failed("it was rendered for 1.29")),
        Err(why) => ensure(why.to_string().contains("kubeVersion"), || why.to_string()),
    }
}

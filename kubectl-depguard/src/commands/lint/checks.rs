//! Findings as the checks that CI systems show: one check for each rule.

use std::collections::BTreeMap;

use super::code::Severity;
use super::finding::{Finding, Report};
use super::print::Options;
use crate::cluster::documents::Origin;
use crate::io::ci_formats::{Check, CheckList, Level, Place, Problem};

const SUITE: &str = "lint";

/// Returns a check for each rule, and for each other object with a finding.
pub(super) fn list(report: &Report, options: &Options) -> CheckList {
    let mut found: BTreeMap<&str, Vec<Problem>> = BTreeMap::new();
    for finding in &report.findings {
        found.entry(&finding.object).or_default().push(problem(finding, options.fail_on));
    }
    let check = |name: &str, place, problems| Check { suite: SUITE.to_owned(), name: name.to_owned(), place, problems };
    let rules = report.rules.iter().map(|rule| {
        let place = rule.origin.as_ref().map(|Origin { file, line }| Place { file: file.to_string(), line: *line });
        check(&rule.object, place, found.remove(rule.object.as_str()).unwrap_or_default())
    });
    let mut checks: Vec<_> = rules.collect();
    checks.extend(found.into_iter().map(|(object, problems)| check(object, None, problems)));
    let more = (report.more > 0).then(|| format!("{} more findings are not listed", report.more));
    CheckList { command: "lint", checks, gaps: options.gaps.iter().cloned().chain(more).collect() }
}

fn problem(finding: &Finding, fail_on: Severity) -> Problem {
    let Finding { code, severity, file, line, object, message, .. } = finding;
    let place = file.clone().zip(*line).map(|(file, line)| Place { file, line });
    let level = match severity {
        Severity::Error => Level::Error,
        Severity::Warning => Level::Warning,
        Severity::Info => Level::Note,
    };
    Problem {
        code: code.as_str(),
        about: code.title(),
        level,
        fails: *severity <= fail_on,
        place,
        subject: object.clone(),
        title: format!("{} {}", code.as_str(), code.title()),
        message: message.clone(),
    }
}

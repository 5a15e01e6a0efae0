//! Dangling references as the checks that CI systems show: one check for each rule.

use std::collections::BTreeMap;

use depguard_core::api::{OnDelete, OnMissing};

use super::{DanglingReference, Report};
use crate::engine::reference_scan::Scan;
use crate::io::ci_formats::{Check, CheckList, Level, Place, Problem};

const SUITE: &str = "dangling";

/// Returns a check for each rule that applies.
pub(super) fn list(report: &Report, scan: &Scan) -> CheckList {
    let mut rules: BTreeMap<_, Vec<_>> =
        scan.edges.iter().map(|edge| (edge.rule().name.as_str(), Vec::new())).collect();
    for dangling in &report.dangling {
        rules.entry(&dangling.rule).or_default().push(problem(dangling));
    }
    for path in report.coverage.iter().flatten() {
        if let Some(message) = path.unmatched() {
            rules.entry(&path.rule).or_default().push(Problem {
                code: "unmatched-path",
                about: "path of a rule that matched nothing",
                level: Level::Note,
                fails: false,
                place: None,
                subject: format!("dependencyrule/{}", path.rule),
                title: "path matched nothing".to_owned(),
                message,
            });
        }
    }
    let checks = rules.into_iter().map(|(rule, problems)| Check {
        suite: SUITE.to_owned(),
        name: format!("dependencyrule/{rule}"),
        place: None,
        problems,
    });
    let is_incomplete = report.not_looked_at > 0 || !report.unread.is_empty();
    let gaps = is_incomplete.then(|| report.gap(scan));
    let unread = report.unread.iter().map(|unread| format!("could not read {unread}"));
    CheckList { command: "dangling", checks: checks.collect(), gaps: gaps.into_iter().chain(unread).collect() }
}

fn problem(dangling: &DanglingReference) -> Problem {
    let DanglingReference { rule, dependent, field, target, on_delete, on_missing, file, line } = dangling;
    // The more severe of the two counts: under `onMissing: Deny` the object is refused.
    let level = match (on_delete, on_missing) {
        (OnDelete::Deny, _) | (_, OnMissing::Deny) => Level::Error,
        (OnDelete::Warn, _) | (_, OnMissing::Warn) => Level::Warning,
        (OnDelete::Audit, OnMissing::Audit | OnMissing::Ignore) => Level::Note,
    };
    Problem {
        code: "dangling-reference",
        about: "reference to an object that does not exist",
        level,
        fails: true,
        place: file.clone().zip(*line).map(|(file, line)| Place { file, line }),
        subject: dependent.to_string(),
        title: "dangling reference".to_owned(),
        message: format!("{dependent}: {field} refers to {}, which does not exist (rule {rule})", target.shown),
    }
}

//! Test results as the checks that CI systems show.

use super::case::{Difference, SuiteResult, TestResult};
use super::coverage::ReferenceCoverage;
use crate::io::ci_formats::{Check, CheckList, Level, Place, Problem};

/// Returns a check for each test, and one for each reference that no test covers.
pub(super) fn list(results: &[SuiteResult], coverage: Option<&[ReferenceCoverage]>) -> CheckList {
    let tests = results.iter().flat_map(|suite| suite.tests.iter().map(|test| check(suite, test)));
    let untested = coverage.unwrap_or_default().iter().filter(|reference| reference.is_untested());
    CheckList { command: "test", checks: tests.chain(untested.map(uncovered)).collect(), gaps: Vec::new() }
}

fn check(suite: &SuiteResult, test: &TestResult) -> Check {
    let place = Place { file: suite.file.clone(), line: test.line };
    let what: Vec<_> = test.differences.iter().map(|difference| difference.what).collect();
    let messages: Vec<_> = test.differences.iter().map(Difference::to_string).collect();
    let problem = (!test.passed()).then(|| Problem {
        code: "failed-test",
        about: "decision that differs from the expectation of a test",
        level: Level::Error,
        fails: true,
        place: Some(place.clone()),
        subject: test.name.clone(),
        title: format!("not as expected: {}", what.join(", ")),
        message: messages.join("\n"),
    });
    Check {
        suite: suite.name.clone(),
        name: test.name.clone(),
        place: Some(place),
        problems: problem.into_iter().collect(),
    }
}

fn uncovered(reference: &ReferenceCoverage) -> Check {
    let ReferenceCoverage { rule, field, target, .. } = reference;
    let subject = format!("dependencyrule/{rule}");
    let message = match reference.tests {
        0 => format!("rule {rule}: the reference `{field}` to {target} counts in no test"),
        _ => format!("rule {rule}: no test creates or updates an object with the reference `{field}` to {target}"),
    };
    let problem = Problem {
        code: "untested-reference",
        about: "reference of a rule that counts in no test",
        level: Level::Note,
        fails: false,
        place: None,
        subject: subject.clone(),
        title: "reference without a test".to_owned(),
        message,
    };
    Check {
        suite: "coverage".to_owned(),
        name: format!("{subject} {field} {target}"),
        place: None,
        problems: vec![problem],
    }
}

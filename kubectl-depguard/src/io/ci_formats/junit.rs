//! JUnit XML.

use std::fmt::Write;

use super::{Check, CheckList, Place, Problem};
use crate::io::xml::escaped;

/// Returns the report. A reason why problems may be missing is an error, so that a report without failures is not green.
pub(super) fn print(list: &CheckList) -> String {
    let failures = list.checks.iter().filter(|check| check.failures().next().is_some()).count();
    let (tests, errors) = (list.checks.len().saturating_add(list.gaps.len()), list.gaps.len());
    let mut xml = String::from("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n");
    // Writing to a string can't fail.
    let _ = writeln!(xml, "<testsuites tests=\"{tests}\" failures=\"{failures}\" errors=\"{errors}\">");
    for checks in list.checks.chunk_by(|a, b| a.suite == b.suite) {
        let suite = checks.first().map(|check| check.suite.as_str()).unwrap_or_default();
        suite_begin(&mut xml, suite, checks, 0);
        checks.iter().for_each(|check| case(&mut xml, check));
        xml.push_str("  </testsuite>\n");
    }
    if !list.gaps.is_empty() {
        suite_begin(&mut xml, &format!("{}: incomplete", list.command), &[], errors);
        for gap in &list.gaps {
            let (name, command) = (escaped(gap), escaped(list.command));
            let _ = writeln!(xml, "    <testcase name=\"{name}\" classname=\"{command}\">");
            let _ = writeln!(xml, "      <error message=\"{name}\"/>\n    </testcase>");
        }
        xml.push_str("  </testsuite>\n");
    }
    xml.push_str("</testsuites>\n");
    xml
}

fn suite_begin(xml: &mut String, name: &str, checks: &[Check], errors: usize) {
    let failures = checks.iter().filter(|check| check.failures().next().is_some()).count();
    let tests = checks.len().saturating_add(errors);
    let _ = writeln!(
        xml,
        "  <testsuite name=\"{}\" tests=\"{tests}\" failures=\"{failures}\" errors=\"{errors}\" skipped=\"0\">",
        escaped(name)
    );
}

fn case(xml: &mut String, check: &Check) {
    let _ = write!(xml, "    <testcase name=\"{}\" classname=\"{}\"", escaped(&check.name), escaped(&check.suite));
    if let Some(Place { file, line }) = &check.place {
        let _ = write!(xml, " file=\"{}\" line=\"{line}\"", escaped(file));
    }
    if check.problems.is_empty() {
        xml.push_str("/>\n");
        return;
    }
    xml.push_str(">\n");
    let (failing, others): (Vec<_>, Vec<_>) = check.problems.iter().partition(|problem| problem.fails);
    if !failing.is_empty() {
        let mut titles: Vec<_> = failing.iter().map(|problem| problem.title.as_str()).collect();
        titles.dedup();
        let _ = writeln!(xml, "      <failure message=\"{}\">", escaped(&titles.join(", ")));
        failing.iter().for_each(|problem| lines(xml, problem, check));
        xml.push_str("</failure>\n");
    }
    if !others.is_empty() {
        xml.push_str("      <system-out>\n");
        others.iter().for_each(|problem| lines(xml, problem, check));
        xml.push_str("</system-out>\n");
    }
    xml.push_str("    </testcase>\n");
}

/// Writes the message of a problem, after its place if that is not the place of the check.
fn lines(xml: &mut String, problem: &Problem, check: &Check) {
    let place = problem.place.as_ref().filter(|place| check.place.as_ref() != Some(place));
    let place = place.map(|place| format!("{}:{}: ", place.file, place.line)).unwrap_or_default();
    for line in problem.message.lines() {
        let _ = writeln!(xml, "{}", escaped(&format!("{place}{line}")));
    }
}

//! Results of the tests, for people and for programs.

use schemars::JsonSchema;
use serde::Serialize;

use super::case::SuiteResult;
use super::checks;
use super::coverage::{self, ReferenceCoverage};
use crate::io::ci_formats;
use crate::io::exit::Failure;
use crate::io::output::{CheckFormat, one_line};
use crate::io::report::{CommandReport, print_json, print_yaml};
use crate::io::table::Table;
use crate::io::terminal::{Terminal, Tone};

const MAX_CHARACTERS: usize = 80;

/// All suites, with the number of failed tests.
#[derive(Serialize, JsonSchema)]
pub(crate) struct Summary<'a> {
    tests: usize,
    failed: usize,
    suites: &'a [SuiteResult],
    /// References of the rules, if the user asked for them.
    #[serde(skip_serializing_if = "Option::is_none")]
    coverage: Option<&'a [ReferenceCoverage]>,
}

impl CommandReport for Summary<'_> {
    const KIND: &'static str = "TestReport";
}

fn summary<'a>(results: &'a [SuiteResult], coverage: Option<&'a [ReferenceCoverage]>) -> Summary<'a> {
    let tests = || results.iter().flat_map(|suite| &suite.tests);
    Summary { tests: tests().count(), failed: tests().filter(|test| !test.passed()).count(), suites: results, coverage }
}

/// Prints the results.
pub(super) fn print(
    results: &[SuiteResult],
    coverage: Option<&[ReferenceCoverage]>,
    format: Option<CheckFormat>,
    terminal: &mut Terminal,
) -> Result<(), Failure> {
    if let Some(format) = format.and_then(CheckFormat::ci) {
        return ci_formats::print(format, &checks::list(results, coverage), terminal);
    }
    match format {
        Some(CheckFormat::Json) => print_json(&summary(results, coverage), terminal),
        Some(CheckFormat::Yaml) => print_yaml(&summary(results, coverage), terminal),
        Some(CheckFormat::Name) => {
            let failed = results.iter().flat_map(|suite| &suite.tests).filter(|test| !test.passed());
            let names: String = failed.map(|test| one_line(&test.name) + "\n").collect();
            Ok(terminal.out().write_all(names.as_bytes())?)
        }
        _ => for_people(results, coverage, format.is_some(), terminal),
    }
}

/// Prints a table, below it the expected and actual values of each failed test, and the coverage.
fn for_people(
    results: &[SuiteResult],
    coverage: Option<&[ReferenceCoverage]>,
    wide: bool,
    terminal: &mut Terminal,
) -> Result<(), Failure> {
    let several = wide || results.len() > 1;
    let headings = several.then_some("SUITE").into_iter().chain(["NAME", "RESULT", "WHY"]);
    let mut table = Table::new(headings.chain(wide.then_some("PLACE"))).painted(&["RESULT"], tone_of_result);
    let mut failures = String::new();
    for suite in results {
        for test in &suite.tests {
            let place = format!("{}:{}", suite.file, test.line);
            let why = test.differences.first().map_or_else(|| "-".to_owned(), |first| clipped(&first.to_string()));
            let result = if test.passed() { "pass" } else { "fail" };
            let cells = several.then(|| suite.name.clone()).into_iter();
            let cells = cells.chain([test.name.clone(), result.to_owned(), why]);
            table.push(cells.chain(wide.then_some(place.clone())));
            if !test.passed() {
                let failed = terminal.paint(Tone::Bad, "failed:");
                failures.push_str(&format!("\n{failed} {} ({place})\n", one_line(&test.name)));
                for difference in &test.differences {
                    failures.push_str(&format!(
                        "  {}\n    expected: {}\n    got:      {}\n",
                        difference.what,
                        one_line(&difference.expected),
                        one_line(&difference.got)
                    ));
                }
            }
        }
    }
    let Summary { tests, failed, .. } = summary(results, None);
    let tone = if failed == 0 { Tone::Good } else { Tone::Bad };
    let total = match failed {
        0 => format!("{tests} passed"),
        failed => format!("{} passed, {failed} failed", tests.saturating_sub(failed)),
    };
    let references = coverage.map(coverage::table).filter(|table| !table.is_empty());
    let references = references.map(|table| format!("\n{}", table.render(terminal))).unwrap_or_default();
    let text = format!("{}{failures}{references}\n{}\n", table.render(terminal), terminal.paint(tone, &total));
    Ok(terminal.out().write_all(text.as_bytes())?)
}

/// Shortens a text to the width of a cell; the full text is printed below the table.
fn clipped(text: &str) -> String {
    match text.char_indices().nth(MAX_CHARACTERS) {
        Some((end, _)) => format!("{}…", text.get(..end).unwrap_or_default()),
        None => text.to_owned(),
    }
}

fn tone_of_result(result: &str) -> Option<Tone> {
    match result {
        "pass" => Some(Tone::Good),
        "fail" => Some(Tone::Bad),
        _ => None,
    }
}

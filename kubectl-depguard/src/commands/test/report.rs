//! Results of the tests, for people and for programs.

use schemars::JsonSchema;
use serde::Serialize;

use super::case::SuiteResult;
use crate::io::exit::Failure;
use crate::io::output::{Table, one_line};
use crate::io::report::CommandReport;
use crate::io::terminal::{Terminal, Tone};

const MAX_CHARACTERS: usize = 80;

/// All suites, with the number of failed tests.
#[derive(Serialize, JsonSchema)]
pub(crate) struct Summary<'a> {
    tests: usize,
    failed: usize,
    suites: &'a [SuiteResult],
}

impl CommandReport for Summary<'_> {
    const KIND: &'static str = "TestReport";
}

pub(crate) fn summary(results: &[SuiteResult]) -> Summary<'_> {
    let tests = || results.iter().flat_map(|suite| &suite.tests);
    Summary { tests: tests().count(), failed: tests().filter(|test| !test.passed()).count(), suites: results }
}

/// Prints a table, and below it the expected and actual values of each failed test.
pub(crate) fn for_people(results: &[SuiteResult], wide: bool, terminal: &mut Terminal) -> Result<(), Failure> {
    let several = wide || results.len() > 1;
    let headings = several.then_some("SUITE").into_iter().chain(["NAME", "RESULT", "WHY"]);
    let mut table = Table::new(headings.chain(wide.then_some("PLACE")));
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
    let Summary { tests, failed, .. } = summary(results);
    let tone = if failed == 0 { Tone::Good } else { Tone::Bad };
    let total = match failed {
        0 => format!("{tests} passed"),
        failed => format!("{} passed, {failed} failed", tests.saturating_sub(failed)),
    };
    let text = format!("{}{failures}\n{}\n", table.render(), terminal.paint(tone, &total));
    Ok(terminal.out().write_all(text.as_bytes())?)
}

/// Shortens a text to the width of a cell; the full text is printed below the table.
fn clipped(text: &str) -> String {
    match text.char_indices().nth(MAX_CHARACTERS) {
        Some((end, _)) => format!("{}…", text.get(..end).unwrap_or_default()),
        None => text.to_owned(),
    }
}

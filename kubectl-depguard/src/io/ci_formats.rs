//! Results of checks in the formats of CI systems: GitHub, GitLab, JUnit and SARIF.
//!
//! Names and messages may come from anybody's files. Each format writes them as data, so that no name ends a line or an
//! element, or begins a command.

use crate::io::exit::Failure;
use crate::io::terminal::Terminal;

mod github;
mod gitlab;
mod junit;
mod sarif;

/// Format of a CI system.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CiFormat {
    Github,
    Gitlab,
    Junit,
    Sarif,
}

/// Checks that a command made.
#[derive(Debug, Default)]
pub(crate) struct CheckList {
    /// Name of the command, as `lint`.
    pub(crate) command: &'static str,
    /// Checks, those of a suite one after the other.
    pub(crate) checks: Vec<Check>,
    /// Reasons why problems may be missing.
    pub(crate) gaps: Vec<String>,
}

/// Check of one rule, or one test.
#[derive(Debug)]
pub(crate) struct Check {
    pub(crate) suite: String,
    pub(crate) name: String,
    pub(crate) place: Option<Place>,
    pub(crate) problems: Vec<Problem>,
}

/// Problem that a check found.
#[derive(Debug)]
pub(crate) struct Problem {
    /// Identifier of this sort of problem.
    pub(crate) code: &'static str,
    /// Description of this sort of problem.
    pub(crate) about: &'static str,
    pub(crate) level: Level,
    /// True if the problem makes the command end with exit code 1.
    pub(crate) fails: bool,
    pub(crate) place: Option<Place>,
    /// Object that has the problem.
    pub(crate) subject: String,
    pub(crate) title: String,
    pub(crate) message: String,
}

/// Place in a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) file: String,
    /// Line, from 1.
    pub(crate) line: usize,
}

/// Severity of a problem.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Level {
    Error,
    Warning,
    Note,
}

/// Prints the checks in this format.
pub(crate) fn print(format: CiFormat, list: &CheckList, terminal: &mut Terminal) -> Result<(), Failure> {
    let text = match format {
        CiFormat::Github => github::print(list),
        CiFormat::Gitlab => gitlab::print(list)?,
        CiFormat::Junit => junit::print(list),
        CiFormat::Sarif => sarif::print(list)?,
    };
    Ok(terminal.out().write_all(text.as_bytes())?)
}

impl CheckList {
    fn problems(&self) -> impl Iterator<Item = &Problem> {
        self.checks.iter().flat_map(|check| &check.problems)
    }
}

impl Check {
    fn failures(&self) -> impl Iterator<Item = &Problem> {
        self.problems.iter().filter(|problem| problem.fails)
    }
}

impl Place {
    /// Returns the file as CI systems name it: without `./` before it.
    fn path(&self) -> &str {
        self.file.strip_prefix("./").unwrap_or(&self.file)
    }
}

/// Returns a value as JSON, with a line feed at its end.
fn json(value: &serde_json::Value) -> Result<String, Failure> {
    let text = serde_json::to_string_pretty(value);
    let text = text.map_err(|why| Failure::new(format!("could not write the result as JSON: {why}")))?;
    Ok(text + "\n")
}

#[cfg(test)]
mod tests;

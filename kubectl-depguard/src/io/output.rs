//! Output formats of results, JSON and YAML among them.

use std::io::{self, BufWriter, Write};

use clap::ValueEnum;
use serde::Serialize;

use crate::io::ci_formats::CiFormat;
use crate::io::exit::Failure;
use crate::io::terminal::Terminal;
pub(crate) use crate::io::terminal::one_line;

/// Limit on the names that a line has.
pub(crate) const MAX_NAMED: usize = 5;

/// The flag of commands that print objects.
#[derive(Debug, Clone, Copy, Default, clap::Args)]
pub(crate) struct OutputArgs {
    /// Output format [default: text for people]
    #[arg(short, long, value_enum, value_name = "FORMAT")]
    pub(crate) output: Option<Format>,
}

/// The formats that kubectl has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// Text for people, with more columns
    Wide,
    /// JSON
    Json,
    /// YAML
    Yaml,
    /// Names only, one per line; like kubectl's, they leave out the namespace
    Name,
}

/// The flag of commands that check something.
#[derive(Debug, Clone, Copy, Default, clap::Args)]
pub(crate) struct CheckOutputArgs {
    /// Output format [default: text for people]
    #[arg(short, long, value_enum, value_name = "FORMAT")]
    pub(crate) output: Option<CheckFormat>,
}

/// The formats of commands that check something: kubectl's, and those of CI systems.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum CheckFormat {
    /// Text for people, with more columns
    Wide,
    /// JSON
    Json,
    /// YAML
    Yaml,
    /// Names of what has a problem, one per line; like kubectl's, they leave out the namespace
    Name,
    /// Workflow commands of GitHub Actions: each problem at its line of the change
    Github,
    /// Code quality report of GitLab
    Gitlab,
    /// JUnit XML
    Junit,
    /// SARIF, for code scanning
    Sarif,
}

impl CheckFormat {
    /// Returns the format of a CI system; `None` for the others.
    pub(crate) fn ci(self) -> Option<CiFormat> {
        match self {
            Self::Wide | Self::Json | Self::Yaml | Self::Name => None,
            Self::Github => Some(CiFormat::Github),
            Self::Gitlab => Some(CiFormat::Gitlab),
            Self::Junit => Some(CiFormat::Junit),
            Self::Sarif => Some(CiFormat::Sarif),
        }
    }
}

/// The formats of commands that write rules.
#[derive(Debug, Clone, Copy, Default, ValueEnum)]
pub(crate) enum RulesFormat {
    /// Rules to review and apply
    #[default]
    Yaml,
    /// Rules, with all remarks about them
    Json,
    /// Table with one row per reference
    Table,
}

/// Joins the first few words, and counts the rest: `a, b, c, d, e, and 7 more (all by -o json)`.
pub(crate) fn some_of(words: impl IntoIterator<Item = String>, separator: &str) -> String {
    first_of(words, MAX_NAMED, separator)
}

/// Joins the first `max` words, and counts the rest.
pub(crate) fn first_of(words: impl IntoIterator<Item = String>, max: usize, separator: &str) -> String {
    let mut words = words.into_iter();
    let mut text = words.by_ref().take(max).collect::<Vec<_>>().join(separator);
    if let more @ 1.. = words.count() {
        text.push_str(&format!("{separator}and {more} more (all by -o json)"));
    }
    text
}

/// Prints a value as JSON, indented like kubectl's, with a line feed at its end. Writes while it serializes, as a report
/// may be long.
pub(crate) fn print_json(value: &impl Serialize, terminal: &mut Terminal) -> Result<(), Failure> {
    let mut out = BufWriter::new(terminal.out());
    let mut serializer =
        serde_json::Serializer::with_formatter(&mut out, serde_json::ser::PrettyFormatter::with_indent(b"    "));
    value.serialize(&mut serializer).map_err(|why| match why.io_error_kind() {
        Some(_) => io::Error::from(why).into(),
        None => Failure::new(format!("could not write the result as JSON: {why}")),
    })?;
    out.write_all(b"\n")?;
    Ok(out.flush()?)
}

/// Prints a value as YAML, as [`print_json`] does as JSON.
pub(crate) fn print_yaml(value: &impl Serialize, terminal: &mut Terminal) -> Result<(), Failure> {
    let mut out = BufWriter::new(terminal.out());
    serde_saphyr::to_io_writer(&mut out, value).map_err(|why| match why {
        serde_saphyr::ser_error::Error::IO { error } => error.into(),
        why => no_yaml(&why),
    })?;
    Ok(out.flush()?)
}

/// Returns a value as YAML text.
pub(crate) fn yaml(value: &impl Serialize) -> Result<String, Failure> {
    serde_saphyr::to_string(value).map_err(|why| no_yaml(&why))
}

fn no_yaml(why: &serde_saphyr::ser_error::Error) -> Failure {
    Failure::new(format!("could not write the result as YAML: {why}"))
}

//! Output of results: tables for people, JSON and YAML for programs.

use std::fmt::Write as _;

use clap::ValueEnum;
use serde::Serialize;

use crate::io::ci_formats::CiFormat;
use crate::io::exit::Failure;
use crate::io::terminal::Terminal;
pub(crate) use crate::io::terminal::one_line;

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
    /// Names only, one per line
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
    /// Names of what has a problem, one per line
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

/// Table with headings, its columns aligned as in kubectl's tables.
#[derive(Debug, Default)]
pub(crate) struct Table {
    headings: Vec<&'static str>,
    rows: Vec<Vec<String>>,
}

impl Table {
    /// Builds a table with these headings, in capital letters.
    pub(crate) fn new(headings: impl IntoIterator<Item = &'static str>) -> Self {
        Self { headings: headings.into_iter().collect(), rows: Vec::new() }
    }

    /// Adds a row, with a cell for each heading.
    pub(crate) fn push(&mut self, cells: impl IntoIterator<Item = String>) {
        self.rows.push(cells.into_iter().map(|cell| one_line(&cell)).collect());
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// Returns the table as text, with a line feed at its end. The last cell of a row is not padded.
    pub(crate) fn render(&self) -> String {
        let headings: Vec<_> = self.headings.iter().map(|heading| (*heading).to_owned()).collect();
        let widths: Vec<_> = (0..headings.len())
            .map(|column| {
                let cells = [&headings].into_iter().chain(&self.rows).filter_map(|row| row.get(column));
                cells.map(|cell| cell.chars().count()).max().unwrap_or_default()
            })
            .collect();
        let mut text = String::new();
        for row in [&headings].into_iter().chain(&self.rows) {
            let mut line = String::new();
            for (cell, width) in row.iter().zip(&widths) {
                // Writing to a string can't fail.
                let _ = write!(line, "{cell:width$}   ");
            }
            text.push_str(line.trim_end());
            text.push('\n');
        }
        text
    }
}

/// Prints a value as JSON, indented like kubectl's, with a line feed at its end.
pub(crate) fn print_json(value: &impl Serialize, terminal: &mut Terminal) -> Result<(), Failure> {
    let mut bytes = Vec::new();
    let mut serializer =
        serde_json::Serializer::with_formatter(&mut bytes, serde_json::ser::PrettyFormatter::with_indent(b"    "));
    value
        .serialize(&mut serializer)
        .map_err(|why| Failure::new(format!("could not write the result as JSON: {why}")))?;
    bytes.push(b'\n');
    Ok(terminal.out().write_all(&bytes)?)
}

/// Prints a value as YAML.
pub(crate) fn print_yaml(value: &impl Serialize, terminal: &mut Terminal) -> Result<(), Failure> {
    Ok(terminal.out().write_all(yaml(value)?.as_bytes())?)
}

/// Returns a value as YAML text.
pub(crate) fn yaml(value: &impl Serialize) -> Result<String, Failure> {
    serde_saphyr::to_string(value).map_err(|why| Failure::new(format!("could not write the result as YAML: {why}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_as_wide_as_their_widest_cell() {
        let mut table = Table::new(["RULE", "FIELD"]);
        table.push(["virtualmachines".to_owned(), "spec\u{1b}[31m.a".to_owned()]);
        table.push(["v".to_owned(), String::new()]);
        assert_eq!(table.render(), "RULE              FIELD\nvirtualmachines   spec [31m.a\nv\n");
    }
}

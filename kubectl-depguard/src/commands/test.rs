//! `test`: runs the unit tests of a rule's author.

use std::path::PathBuf;

use clap::ValueEnum;

use crate::io::exit::{Failure, Outcome};
use crate::io::terminal::Terminal;

mod case;
mod junit;
mod report;
mod suite;

use self::suite::Suite;

/// Run unit tests of rules
///
/// A suite has rules, objects, and deletions with their expected decisions. The webhook's own engine decides them,
/// without any API server.
///
/// Exit code: 0 if all tests pass, 1 if one fails, 2 if a suite can't be read.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Suite, or folder with suites; - is standard input; may be repeated
    #[arg(short, long = "filename", value_name = "FILE", required = true)]
    filename: Vec<PathBuf>,

    /// Read subfolders, too
    #[arg(short = 'R', long)]
    recursive: bool,

    /// Output format [default: text for people]
    #[arg(short, long, value_enum, value_name = "FORMAT")]
    output: Option<Format>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Format {
    /// Text for people, with the place of each test
    Wide,
    /// JSON
    Json,
    /// YAML
    Yaml,
    /// JUnit XML, for CI
    Junit,
}

pub(crate) async fn run(args: Args, terminal: &mut Terminal) -> Result<Outcome, Failure> {
    let suites = Suite::read(&args.filename, args.recursive, terminal)?;
    let mut results = Vec::new();
    for suite in suites {
        results.push(case::run(suite, terminal).await?);
    }
    match args.output {
        None => report::for_people(&results, false, terminal)?,
        Some(Format::Wide) => report::for_people(&results, true, terminal)?,
        Some(Format::Json) => crate::io::report::print_json(&report::summary(&results), terminal)?,
        Some(Format::Yaml) => crate::io::report::print_yaml(&report::summary(&results), terminal)?,
        Some(Format::Junit) => terminal.out().write_all(junit::print(&results).as_bytes())?,
    }
    let passed = results.iter().flat_map(|suite| &suite.tests).all(case::TestResult::passed);
    Ok(if passed { Outcome::Well } else { Outcome::Finding })
}

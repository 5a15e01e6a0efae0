//! `test`: a rule author's unit tests.

use std::path::PathBuf;

use clap::ValueEnum;

use crate::outcome::{Failure, Outcome};
use crate::terminal::Terminal;

mod case;
mod junit;
mod report;
mod suite;

use self::suite::Suite;

/// Run unit tests of rules
///
/// A suite holds rules, objects, and deletions with what must be decided of them. They are decided by the engine that the
/// webhook runs, and nothing is asked of any API server.
///
/// Exit code: 0 all tests pass, 1 one fails, 2 a suite can't be read.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Suite, or folder with suites; - is standard input; may be given several times
    #[arg(short, long = "filename", value_name = "FILE", required = true)]
    filename: Vec<PathBuf>,

    /// Look in folders within folders too
    #[arg(short = 'R', long)]
    recursive: bool,

    /// How to print it [default: for people]
    #[arg(short, long, value_enum, value_name = "FORMAT")]
    output: Option<Format>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Format {
    /// For people, with the place of each test
    Wide,
    /// JSON
    Json,
    /// YAML
    Yaml,
    /// JUnit's XML, as CI reads it
    Junit,
}

pub(crate) async fn run(args: Args, terminal: &mut Terminal) -> Result<Outcome, Failure> {
    let suites = Suite::read(&args.filename, args.recursive, terminal)?;
    let mut ran = Vec::new();
    for suite in suites {
        ran.push(case::run(suite, terminal).await?);
    }
    match args.output {
        None => report::for_people(&ran, false, terminal)?,
        Some(Format::Wide) => report::for_people(&ran, true, terminal)?,
        Some(Format::Json) => crate::output::print_json(&report::summed_up(&ran), terminal)?,
        Some(Format::Yaml) => crate::output::print_yaml(&report::summed_up(&ran), terminal)?,
        Some(Format::Junit) => terminal.out().write_all(junit::print(&ran).as_bytes())?,
    }
    let passed = ran.iter().flat_map(|suite| &suite.tests).all(case::Tested::passed);
    Ok(if passed { Outcome::Well } else { Outcome::Finding })
}

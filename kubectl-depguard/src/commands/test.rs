//! `test`: runs the unit tests of a rule's author.

use std::path::PathBuf;

use crate::cluster::source::READS_FILES;
use crate::io::exit::{Failure, Outcome};
use crate::io::output::CheckOutputArgs;
use crate::io::terminal::Terminal;
use crate::options::Global;

mod case;
mod checks;
mod coverage;
mod definitions;
mod differences;
mod report;
mod suite;

use self::coverage::Coverage;
pub(crate) use self::report::Summary;
use self::suite::Suite;

/// Run unit tests of rules
///
/// A suite has rules, objects, and deletions, creations and updates with their expected decisions. The webhook's own
/// engine decides them, without any API server.
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

    #[command(flatten)]
    output: CheckOutputArgs,

    /// Also list each reference of the rules, with the numbers of tests in which it counts
    #[arg(long)]
    coverage: bool,
}

pub(crate) async fn run(args: Args, global: &Global, terminal: &mut Terminal) -> Result<Outcome, Failure> {
    global.refuse_server_flags(READS_FILES)?;
    let suites = Suite::read(&args.filename, args.recursive, terminal)?;
    let mut results = Vec::new();
    let mut coverage = args.coverage.then(Coverage::default);
    for suite in suites {
        results.push(case::run(suite, coverage.as_mut(), terminal).await?);
    }
    let coverage = coverage.map(Coverage::finish);
    report::print(&results, coverage.as_deref(), args.output.output, terminal)?;
    let passed = results.iter().flat_map(|suite| &suite.tests).all(case::TestResult::passed);
    Ok(if passed { Outcome::Well } else { Outcome::Finding })
}

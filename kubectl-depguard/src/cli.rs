//! Command line: the list of commands, and the execution of one.

mod examples;

use std::ffi::OsString;

use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};

use crate::commands::{
    completion, dangling, graph, impact, import, install, lint, order, rules, status, suggest, test, trace, ui,
    uninstall, unused, version, why,
};
use crate::io::exit::{ExitStatus, Failure, Outcome};
use crate::io::terminal::{Terminal, Tone};
use crate::options::Global;

/// See, explain, test and plan references between objects
///
/// A DependencyRule says that one kind refers to another through a field, and depguard refuses to delete an object
/// while others refer to it. These commands explain a refusal, show which objects depend on another, and check rules.
///
/// Exit code: 0 if there is no problem; 1 if the command found one, such as a blocker, a dangling reference or a failed
/// test; 2 if the command line is wrong, or the command failed or could not find out everything.
#[derive(Debug, Parser)]
#[command(name = "kubectl-depguard", bin_name = "kubectl depguard", version, max_term_width = 100)]
struct Cli {
    #[command(flatten)]
    global: Global,
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Completion(completion::Args),
    Dangling(dangling::Args),
    Graph(graph::Args),
    Impact(impact::Args),
    Import(import::Args),
    Install(Box<install::Args>),
    Order(order::Args),
    Rules(rules::Args),
    Status(status::Args),
    Suggest(suggest::Args),
    Test(test::Args),
    Trace(trace::Args),
    Ui(ui::Args),
    Uninstall(uninstall::Args),
    Unused(unused::Args),
    Version(version::Args),
    Why(why::Args),
    Lint(lint::Args),
}

/// Returns the command line for the generator of its documentation.
pub fn command() -> clap::Command {
    examples::add(Cli::command())
}

/// Runs one command; the first of `args` is the program's name.
pub async fn run(args: impl IntoIterator<Item = OsString>, terminal: &mut Terminal) -> ExitStatus {
    let args: Vec<_> = args.into_iter().collect();
    if let Some(words) = completion::protocol::typed_words(&args) {
        let completed = completion::protocol::complete(command(), words, terminal).await;
        return completed.map_or(ExitStatus::Failure, ExitStatus::from);
    }
    let matches = command().try_get_matches_from(args);
    let mut cli = match matches.and_then(|matches| Cli::from_arg_matches(&matches)) {
        Ok(cli) => cli,
        Err(error) => {
            let (text, wrong) = (error.render(), error.use_stderr());
            let text = if terminal.is_terminal() { text.ansi().to_string() } else { text.to_string() };
            // If this write fails, too, the exit code still reports the result.
            let stream = if wrong { terminal.err() } else { terminal.out() };
            let _ = stream.write_all(text.as_bytes());
            return if wrong { ExitStatus::Failure } else { ExitStatus::Well };
        }
    };
    terminal.set_colour(cli.global.colour());
    terminal.set_headings(cli.global.has_headings());
    cli.global.log_requests(terminal.err_handle());
    match execute(cli, terminal).await {
        Ok(outcome) => outcome.into(),
        Err(failure) if failure.is_cut() => ExitStatus::Cut,
        Err(failure) => {
            let error = terminal.paint(Tone::Bad, "error:");
            let hint = failure.what_to_do().map(|hint| format!("{hint}\n")).unwrap_or_default();
            let _ = terminal.err().write_all(format!("{error} {}\n{hint}", failure.message()).as_bytes());
            ExitStatus::Failure
        }
    }
}

async fn execute(cli: Cli, terminal: &mut Terminal) -> Result<Outcome, Failure> {
    let Cli { global, command } = cli;
    match command {
        Command::Completion(args) => completion::run(&args, self::command(), terminal),
        Command::Dangling(args) => dangling::run(&args, &global, terminal).await,
        Command::Graph(args) => graph::run(args, &global, terminal).await,
        Command::Impact(args) => impact::run(&args, &global, terminal).await,
        Command::Import(args) => import::run(args, &global, terminal).await,
        Command::Install(args) => install::run(*args, &global, terminal).await,
        Command::Order(args) => order::run(args, &global, terminal).await,
        Command::Rules(args) => rules::run(args, &global, terminal).await,
        Command::Status(args) => status::run(args, &global, terminal).await,
        Command::Suggest(args) => suggest::run(&args, &global, terminal).await,
        Command::Test(args) => test::run(args, &global, terminal).await,
        Command::Trace(args) => trace::run(&args, &global, terminal).await,
        Command::Ui(args) => ui::run(args, &global, terminal).await,
        Command::Uninstall(args) => uninstall::run(args, &global, terminal).await,
        Command::Unused(args) => unused::run(&args, &global, terminal).await,
        Command::Version(args) => version::run(args, &global, terminal).await,
        Command::Why(args) => why::run(args, &global, terminal).await,
        Command::Lint(args) => lint::run(args, &global, terminal).await,
    }
}

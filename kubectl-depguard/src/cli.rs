//! The command line: what every command shares, and which there are.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Args, CommandFactory, Parser, Subcommand, ValueEnum};
use depguard_core::{Home, Namespace};
use depguard_kcp::cli::HomeArg;

use crate::commands::{
    completion, dangling, graph, impact, import, install, lint, order, status, suggest, test, uninstall, why,
};
use crate::outcome::{ExitStatus, Failure, Outcome};
use crate::terminal::{Terminal, Tone};

/// See, explain, test and plan references between objects
///
/// A DependencyRule says that one kind refers to another through a field, and depguard refuses to delete what is still
/// referred to. These commands say why, what else would break, and whether a rule is right.
///
/// Exit code: 0 where all is well; 1 where something was found (a blocker, a dangling reference, a test that fails);
/// 2 where the command line is wrong, or it could not be told.
#[derive(Debug, Parser)]
#[command(name = "kubectl-depguard", bin_name = "kubectl depguard", version, max_term_width = 100)]
struct Cli {
    #[command(flatten)]
    global: Global,
    #[command(subcommand)]
    command: Command,
}

/// What every command shares.
#[derive(Debug, Args)]
pub(crate) struct Global {
    /// Namespace to look in [default: that of the kubeconfig's context]
    #[arg(short, long, global = true, value_name = "NAMESPACE", help_heading = "Global options")]
    pub(crate) namespace: Option<Namespace>,

    /// Look in all namespaces
    #[arg(short = 'A', long, global = true, conflicts_with = "namespace", help_heading = "Global options")]
    pub(crate) all_namespaces: bool,

    /// Kubeconfig [default: KUBECONFIG, or ~/.kube/config]
    #[arg(long, global = true, value_name = "FILE", help_heading = "Global options")]
    pub(crate) kubeconfig: Option<PathBuf>,

    /// Context of the kubeconfig [default: its current one]
    #[arg(long, global = true, value_name = "NAME", help_heading = "Global options")]
    pub(crate) context: Option<String>,

    /// What the API server is [default: kcp where its URL names a workspace]
    #[arg(long, global = true, value_enum, value_name = "HOME", help_heading = "Global options")]
    home: Option<HomeArg>,

    /// When to use colours; NO_COLOR turns them off as well
    #[arg(long, global = true, value_enum, value_name = "WHEN", default_value_t, help_heading = "Global options")]
    color: Colour,
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
    Status(status::Args),
    Suggest(suggest::Args),
    Test(test::Args),
    Uninstall(uninstall::Args),
    Why(why::Args),
    Lint(lint::Args),
}

/// The value of `--dry-run`: nothing is changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum DryRun {
    /// Only say what would be done
    Client,
    /// Let the API server check it
    Server,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
enum Colour {
    #[default]
    Auto,
    Always,
    Never,
}

impl Global {
    /// What the API server is said to be.
    pub(crate) fn home(&self) -> Option<Home> {
        self.home.map(Home::from)
    }
}

/// The command line as its documentation is generated from it.
pub fn command() -> clap::Command {
    Cli::command()
}

/// Carries out one command; the first of `args` is the program's name.
pub async fn run(args: impl IntoIterator<Item = OsString>, terminal: &mut Terminal) -> ExitStatus {
    let cli = match Cli::try_parse_from(args) {
        Ok(cli) => cli,
        Err(said) => {
            let (text, wrong) = (said.render(), said.use_stderr());
            let text = if terminal.is_terminal() { text.ansi().to_string() } else { text.to_string() };
            // Where even that can't be written, the exit code says it.
            let stream = if wrong { terminal.err() } else { terminal.out() };
            let _ = stream.write_all(text.as_bytes());
            return if wrong { ExitStatus::Failure } else { ExitStatus::Well };
        }
    };
    terminal.set_colour(match cli.global.color {
        Colour::Auto => None,
        Colour::Always => Some(true),
        Colour::Never => Some(false),
    });
    match carry_out(cli, terminal).await {
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

async fn carry_out(cli: Cli, terminal: &mut Terminal) -> Result<Outcome, Failure> {
    let Cli { global, command } = cli;
    match command {
        Command::Completion(args) => completion::run(&args, terminal),
        Command::Dangling(args) => dangling::run(&args, &global, terminal).await,
        Command::Graph(args) => graph::run(args, &global, terminal).await,
        Command::Impact(args) => impact::run(&args, &global, terminal).await,
        Command::Import(args) => import::run(args, &global, terminal).await,
        Command::Install(args) => install::run(*args, &global, terminal).await,
        Command::Order(args) => order::run(args, &global, terminal).await,
        Command::Status(args) => status::run(args, &global, terminal).await,
        Command::Suggest(args) => suggest::run(&args, &global, terminal).await,
        Command::Test(args) => test::run(args, terminal).await,
        Command::Uninstall(args) => uninstall::run(args, &global, terminal).await,
        Command::Why(args) => why::run(args, &global, terminal).await,
        Command::Lint(args) => lint::run(args, &global, terminal).await,
    }
}

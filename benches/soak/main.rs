//! Soak test: deletions for as long as one likes, to see if the webhook holds more and more of anything.
//!
//! `cargo run --release -p depguard-benches --bin soak -- --seconds 300` runs the stock webhook in a process of its own
//! (this program again, with a role). All the while the testbed asks it about deletions, and the program samples its
//! memory, tasks and descriptors. The program ends with a table, and with exit code 1 if something grows or an answer
//! was wrong.

#[path = "../compare/child.rs"]
mod child;
mod guard;
mod load;
#[path = "../compare/program.rs"]
mod program;
#[path = "../compare/stock.rs"]
mod stock;
#[path = "../compare/usage.rs"]
mod usage;
mod verdict;
mod watch;

use std::process::ExitCode;
use std::time::Duration;

use clap::{Parser, Subcommand};

/// Sends deletions to the webhook for a while, and checks that its memory, tasks and descriptors do not grow.
#[derive(Debug, Parser)]
struct Arguments {
    #[command(subcommand)]
    command: Option<Command>,
    #[command(flatten)]
    options: Options,
}

#[derive(Debug, Clone, clap::Args)]
struct Options {
    /// Duration of the run, in seconds
    #[arg(long, default_value_t = 300)]
    seconds: u64,
    /// Number of deletions at once
    #[arg(long, default_value_t = 8)]
    at_once: usize,
    /// Number of objects of each kind of dependents
    #[arg(long, default_value_t = 2000)]
    dependents: usize,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Run the webhook in its own process.
    #[command(hide = true, subcommand)]
    Role(guard::Role),
}

type Result<T = ()> = std::result::Result<T, Box<dyn std::error::Error + Send + Sync>>;

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    program::run("soak", async {
        match arguments.command {
            Some(Command::Role(role)) => guard::play(role).await.map(|()| true),
            None => run(&arguments.options).await,
        }
    })
}

/// Returns true if all was well.
async fn run(options: &Options) -> Result<bool> {
    let whole = Duration::from_secs(options.seconds.max(1));
    let mut scene = load::Scene::start(options.dependents).await?;
    // The warm-up creates things that are created once, such as connections and buffers, before anything is measured.
    let warm_up = scene.delete_for(whole / 5, options.at_once, &mut Vec::new()).await?;
    let before = scene.idle().await?;
    let mut samples = Vec::new();
    let counts = scene.delete_for(whole, options.at_once, &mut samples).await?;
    let after = scene.idle().await?;
    scene.stop().await?;
    let soak = verdict::Soak { took: whole, counts, samples, before, after };
    println!("{soak}");
    let mut wrong = soak.wrong();
    wrong.extend(warm_up.errors.into_iter().map(|error| format!("during the warm-up: {error}")));
    for what in &wrong {
        println!("wrong: {what}");
    }
    Ok(wrong.is_empty())
}

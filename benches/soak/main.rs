//! Deletions for as long as one likes: does the webhook hold more and more of anything?
//!
//! `cargo run --release -p depguard-benches --bin soak -- --seconds 300` runs the stock webhook in a process of its own
//! (this program again, with a role), has the testbed ask it about deletions all the while, and looks at its memory, tasks
//! and descriptors. It ends with a table, and with exit code 1 where something grows or an answer was wrong.

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

/// Has the webhook review deletions for a while, and looks whether it holds more and more of anything.
#[derive(Debug, Parser)]
struct Arguments {
    #[command(subcommand)]
    command: Option<Command>,
    #[command(flatten)]
    options: Options,
}

#[derive(Debug, Clone, clap::Args)]
struct Options {
    /// How long
    #[arg(long, default_value_t = 300)]
    seconds: u64,
    /// Deletions at once
    #[arg(long, default_value_t = 8)]
    at_once: usize,
    /// Objects of each kind of dependents
    #[arg(long, default_value_t = 2000)]
    dependents: usize,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// The webhook, in a process of its own.
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

/// Whether all was well.
async fn run(options: &Options) -> Result<bool> {
    let whole = Duration::from_secs(options.seconds.max(1));
    let mut scene = load::Scene::start(options.dependents).await?;
    // What is set up once, such as connections and buffers, is set up before anything is looked at.
    let warm_up = scene.delete_for(whole / 5, options.at_once, &mut Vec::new()).await?;
    let before = scene.idle().await?;
    let mut samples = Vec::new();
    let counts = scene.delete_for(whole, options.at_once, &mut samples).await?;
    let after = scene.idle().await?;
    scene.stop().await?;
    let soak = verdict::Soak { took: whole, counts, samples, before, after };
    println!("{soak}");
    let mut wrong = soak.wrong();
    wrong.extend(warm_up.errors.into_iter().map(|error| format!("while it warmed up: {error}")));
    for what in &wrong {
        println!("not as it should be: {what}");
    }
    Ok(wrong.is_empty())
}

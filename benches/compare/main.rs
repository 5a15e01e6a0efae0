//! Cost of a DELETE: with a bare LIST, with a webhook that lists and decodes all, and with depguard with and without
//! push-down.
//!
//! `cargo run --release -p depguard-benches --bin compare` measures and writes `docs/performance.md`. `-- check` runs
//! in seconds and fails if a property is lost, whatever the time. The API server and each webhook run in processes of
//! their own (this program again, with a role), so that each one's CPU and memory are measured separately.

mod check;
mod child;
mod client;
mod drain;
mod floods;
mod machine;
mod measure;
mod objects;
mod plan;
mod plot;
mod program;
mod report;
mod roles;
mod rounds;
mod scene;
mod server;
mod setup;
mod stock;
mod transport;
mod usage;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// Measures what a DELETE costs with and without depguard.
#[derive(Debug, Parser)]
struct Arguments {
    #[command(subcommand)]
    command: Option<Command>,
    #[command(flatten)]
    options: plan::Options,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Run for a few seconds without measuring times; fail if depguard asks, fetches or holds more than it should.
    Check,
    /// Read one list from a kcp over HTTP/1.1 and HTTP/2, plain and compressed.
    Transport,
    /// Run a part of a measurement in its own process.
    #[command(hide = true)]
    Role(roles::Arguments),
}

type Result<T = ()> = std::result::Result<T, Box<dyn std::error::Error + Send + Sync>>;

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    program::run("compare", async {
        match arguments.command {
            Some(Command::Role(role)) => roles::play(role).await,
            Some(Command::Check) => check::run().await,
            Some(Command::Transport) => measure::transport().await,
            None => measure::run(&arguments.options).await,
        }
        .map(|()| true)
    })
}

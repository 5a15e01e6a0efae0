//! What a DELETE costs: a bare LIST, a webhook that lists and decodes all, and depguard with and without push-down.
//!
//! `cargo run --release -p depguard-benches --bin compare` measures and writes `docs/performance.md`; `-- check` runs in
//! seconds and fails where a property is lost, whatever the time. The API server and each webhook are processes of
//! their own (this program again, with a role), so that CPU and memory are each one's own.

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
    /// A few seconds, no times: fails where more is asked, fetched or held than there should be.
    Check,
    /// The same list over HTTP/1.1 and HTTP/2, as it is and compressed, from a kcp.
    Transport,
    /// A part of a measurement, in a process of its own.
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
            Some(Command::Transport) => measure::transport(&arguments.options).await,
            None => measure::run(&arguments.options).await,
        }
        .map(|()| true)
    })
}

//! Table of floods: what a tenant, or anybody who reaches the port, can send, against the programs as the chart limits
//! them.
//!
//! `cargo run --release -p depguard-benches --bin floods` plays each flood against the stock webhook and the stock
//! controller, each in a process of its own (this program again, with a role), in a cgroup with the chart's memory limit
//! where one can be made. Honest requests go on beside each flood. The program prints a row for each flood: the peak of
//! memory, the honest requests that got the right answer, and the memory afterwards. It ends with exit code 1 if a process
//! died, peaked above 80 % of the limit, kept what it took, or left more than 5 % of the honest requests without the right
//! answer.

mod cgroup;
mod client;
mod controller;
mod process;
#[path = "../compare/program.rs"]
mod program;
mod table;
#[expect(dead_code, reason = "only the comparison measures CPU")]
#[path = "../compare/usage.rs"]
mod usage;
mod webhook;

use std::process::ExitCode;

use clap::Parser;

use self::process::RoleCommand;
use self::table::Table;

/// Plays floods against the webhook and the controller within the chart's memory limit.
#[derive(Debug, Parser)]
struct Arguments {
    #[command(subcommand)]
    command: Option<RoleCommand>,
    /// Play each flood for 3 seconds instead of 15.
    #[arg(long)]
    half: bool,
    /// Play only the floods whose names contain this text.
    #[arg(long, default_value = "")]
    only: String,
}

type Result<T = ()> = std::result::Result<T, Box<dyn std::error::Error + Send + Sync>>;

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    program::run("floods", async {
        if let Some(RoleCommand::Role { program, flags }) = arguments.command {
            return process::play(&program, &flags).await.map(|()| true);
        }
        let mut table = Table::new(arguments.half, arguments.only);
        webhook::play(&mut table).await?;
        controller::play(&mut table).await?;
        Ok(table.is_good())
    })
}

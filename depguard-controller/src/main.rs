//! The stock controller.

use std::process::ExitCode;

use clap::Parser;
use depguard_controller::cli::Cli;

/// An allocator that gives memory back soon, so that a flood leaves room for the next one.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

#[tokio::main]
async fn main() -> ExitCode {
    match Cli::parse().run().await {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("depguard-controller: {why}");
            ExitCode::FAILURE
        }
    }
}

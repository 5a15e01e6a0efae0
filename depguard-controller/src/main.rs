//! The stock controller.

use std::process::ExitCode;

use clap::Parser;
use depguard_controller::cli::Cli;

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

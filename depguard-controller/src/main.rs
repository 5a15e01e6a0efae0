//! The stock binary; all it does is in the library.

use std::process::ExitCode;

use clap::Parser;
use depguard_controller::cli::Cli;

#[tokio::main]
async fn main() -> ExitCode {
    match Cli::parse().run().await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("depguard-controller: {error}");
            ExitCode::FAILURE
        }
    }
}

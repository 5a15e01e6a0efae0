//! Program of the provider.

use std::process::ExitCode;

use clap::Parser;
use cluster_provider_example::cli::Cli;

#[tokio::main]
async fn main() -> ExitCode {
    match Cli::parse().run().await {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("cluster-provider-example: {}", why.in_full());
            ExitCode::FAILURE
        }
    }
}

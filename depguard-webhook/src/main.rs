//! The stock webhook.

use std::process::ExitCode;

use clap::Parser;
use depguard_kcp::cli::asked_to_stop;
use depguard_webhook::Webhook;
use depguard_webhook::cli::Cli;

/// An allocator that gives memory back soon, so that a flood leaves room for the next one.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

#[tokio::main]
async fn main() -> ExitCode {
    let cli = Cli::parse();
    cli.log();
    let webhook = match Webhook::start(cli.into_config()).await {
        Ok(webhook) => webhook,
        Err(why) => {
            eprintln!("depguard-webhook: {why}");
            return ExitCode::FAILURE;
        }
    };
    tracing::info!(reviews = %webhook.review_addr(), probes = ?webhook.probe_addr(), "started");
    asked_to_stop().await;
    tracing::info!("stopping: answering the remaining reviews");
    webhook.stop().await;
    ExitCode::SUCCESS
}

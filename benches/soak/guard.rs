//! depguard's webhook as the stock binary starts it, which says what it holds when it is asked.

use std::path::PathBuf;
use std::time::Duration;

use clap::Subcommand;
use depguard_webhook::{Config, Webhook};
use serde_json::json;
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::runtime::Handle;

use crate::Result;

#[derive(Debug, Subcommand)]
pub(crate) enum Role {
    /// Reviews deletions.
    Guard {
        #[arg(long)]
        kubeconfig: PathBuf,
        #[arg(long)]
        certificates: PathBuf,
        #[arg(long)]
        port: u16,
    },
}

/// Says a line of JSON once it is ready, and one for each line that it reads.
pub(crate) async fn play(Role::Guard { kubeconfig, certificates, port }: Role) -> Result {
    let config = Config {
        kubeconfig: Some(kubeconfig),
        review_addr: ([127, 0, 0, 1], port).into(),
        probe_addr: None,
        metrics_addr: None,
        tls_cert_dir: certificates,
        shutdown_delay: Duration::ZERO,
        ..Config::default()
    };
    let webhook = Webhook::start(config).await?;
    println!("{}", json!({"address": webhook.review_addr()}));
    let mut questions = BufReader::new(tokio::io::stdin()).lines();
    while questions.next_line().await?.is_some() {
        let tasks = Handle::current().metrics().num_alive_tasks();
        let descriptors = std::fs::read_dir("/proc/self/fd")?.count();
        println!("{}", json!({"tasks": tasks, "descriptors": descriptors}));
    }
    webhook.stop().await;
    Ok(())
}

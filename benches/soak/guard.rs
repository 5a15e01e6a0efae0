//! depguard's webhook in a process of its own, which reports its tasks and descriptors on request.

use clap::Subcommand;
use serde_json::json;
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::runtime::Handle;

use crate::Result;
use crate::stock::{self, Arguments};

#[derive(Debug, Subcommand)]
pub(crate) enum Role {
    /// Reviews deletions.
    Guard(Arguments),
}

/// Says a line of JSON once it is ready, and one for each line that it reads.
pub(crate) async fn play(Role::Guard(arguments): Role) -> Result {
    let webhook = stock::start(arguments).await?;
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

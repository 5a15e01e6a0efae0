//! Roles of child processes.

mod apiserver;
mod guard;
mod standin;

use clap::Subcommand;
use serde_json::Value;
use tokio::io::{AsyncBufReadExt, BufReader, Lines, Stdin};

use crate::{Result, stock};

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    role: Role,
}

#[derive(Debug, Subcommand)]
enum Role {
    /// The testbed as a kcp.
    Testbed,
    /// depguard's webhook.
    Depguard(stock::Arguments),
    /// A webhook that lists and decodes all.
    StandIn(stock::Arguments),
}

/// Plays until the parent goes away.
pub(crate) async fn play(arguments: Arguments) -> Result {
    match arguments.role {
        Role::Testbed => apiserver::play().await,
        Role::Depguard(webhook) => guard::play(webhook).await,
        Role::StandIn(webhook) => standin::play(webhook).await,
    }
}

/// The parent's questions.
struct Parent(Lines<BufReader<Stdin>>);

impl Parent {
    /// Says something, which also says that this child is ready.
    fn new(said: &Value) -> Self {
        println!("{said}");
        Self(BufReader::new(tokio::io::stdin()).lines())
    }

    async fn question(&mut self) -> Result<Option<Value>> {
        let line = self.0.next_line().await?;
        Ok(line.map(|line| serde_json::from_str(&line)).transpose()?)
    }
}

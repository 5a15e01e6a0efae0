//! depguard's webhook in a process of its own.

use serde_json::json;

use super::Parent;
use crate::Result;
use crate::stock::{self, Arguments};

pub(super) async fn play(arguments: Arguments) -> Result {
    let running = stock::start(arguments).await?;
    let mut parent = Parent::new(&json!({"address": running.review_addr()}));
    while parent.question().await?.is_some() {}
    running.stop().await;
    Ok(())
}

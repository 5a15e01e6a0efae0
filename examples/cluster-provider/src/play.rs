//! The whole of it in one go, with a transcript: `cargo run -p cluster-provider-example`. Each act says what it is about
//! to show, and fails where it is not so.

mod access;
mod cluster;
mod end;
mod guarded;
mod operator;
mod profile;
mod stage;
mod withdrawn;

use std::path::Path;

use crate::Result;

pub use stage::Stage;

/// Plays on the servers of these kubeconfigs, and where there is none, on a testbed.
pub async fn play(platform: Option<&Path>, kcp: Option<&Path>) -> Result<()> {
    let stage = Stage::set(platform, kcp).await?;
    let played = acts(&stage).await;
    let closed = stage.close(played.is_ok()).await;
    played.and(closed)?;
    println!("\neach act went as it says");
    Ok(())
}

async fn acts(stage: &Stage) -> Result<()> {
    profile::act(stage).await?;
    cluster::act(stage).await?;
    access::act(stage).await?;
    guarded::act(stage).await?;
    withdrawn::act(stage).await?;
    end::act(stage).await
}

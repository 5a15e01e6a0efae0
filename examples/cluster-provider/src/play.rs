//! Play of the whole provider, with a transcript: `cargo run -p cluster-provider-example`. Each act announces what it
//! shows, and fails if it does not come about.

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

/// Plays on the servers of these kubeconfigs. A testbed replaces a missing one.
pub async fn play(platform: Option<&Path>, kcp: Option<&Path>) -> Result<()> {
    let stage = Stage::set(platform, kcp).await?;
    let played = acts(&stage).await;
    let closed = stage.close(played.is_ok()).await;
    played.and(closed)?;
    println!("\nall acts succeeded");
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

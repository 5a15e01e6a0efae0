//! `init` and `run`: the two commands of the deployment contract.

pub(crate) mod definitions;

use std::sync::Arc;
use std::time::Duration;

use tokio_util::sync::CancellationToken;
use tracing::info;

use crate::platform::Platform;
use crate::workspaces::Workspaces;
use crate::{Result, access, clusters, guard, profiles};

/// Brings this provider's own CustomResourceDefinition to the platform cluster. Those of the contract are the operator's.
pub async fn init(platform: &Platform) -> Result<()> {
    definitions::install(platform).await
}

/// Runs reconcilers and webhook until told to stop, or one of them can't go on. For tokens of that lifetime the
/// workspaces are asked.
pub async fn run(
    platform: Arc<Platform>,
    workspaces: Arc<Workspaces>,
    guard: guard::Options,
    token_lifetime: Duration,
    stop: CancellationToken,
) -> Result<()> {
    info!("provider {} of environment {} runs", platform.provider(), platform.environment());
    let reconcilers = async {
        tokio::join!(
            profiles::run(platform.clone(), stop.clone()),
            clusters::run(platform.clone(), workspaces.clone(), stop.clone()),
            access::run(platform.clone(), workspaces.clone(), token_lifetime, stop.clone()),
        );
        Ok(())
    };
    // Where one fails the others are told to stop, and what they are doing is finished.
    let until_failure = async |part: Result<()>| part.inspect_err(|_| stop.cancel());
    let (webhook, rest) = tokio::join!(
        async { until_failure(guard::run(platform.clone(), guard, stop.clone()).await).await },
        reconcilers
    );
    webhook.and(rest)
}

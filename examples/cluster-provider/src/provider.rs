//! `init` and `run`: the two commands of the deployment contract.

pub(crate) mod definitions;

use std::sync::Arc;
use std::time::Duration;

use tokio_util::sync::CancellationToken;
use tracing::info;

use crate::platform::Platform;
use crate::workspaces::Workspaces;
use crate::{Result, access, clusters, guard, profiles};

/// Installs this provider's own CustomResourceDefinition on the platform cluster. The operator installs those of the
/// contract.
pub async fn init(platform: &Platform) -> Result<()> {
    definitions::install(platform).await
}

/// Runs reconcilers and webhook until it is told to stop, or until one of them can't go on. Workspaces are asked for
/// tokens of this lifetime.
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
    // If one part fails, the others are told to stop, and they finish their work.
    let until_failure = async |part: Result<()>| part.inspect_err(|_| stop.cancel());
    let (webhook, rest) = tokio::join!(
        async { until_failure(guard::run(platform.clone(), guard, stop.clone()).await).await },
        reconcilers
    );
    webhook.and(rest)
}

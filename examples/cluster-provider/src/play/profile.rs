//! Act in which a configuration becomes ClusterProfiles.

use super::stage::{Stage, outline};
use crate::api::{
    ClusterProfiles, ProfileConfig, SupportedVersion, WorkspaceProviderConfig, WorkspaceProviderConfigSpec,
    WorkspaceProviderConfigs,
};
use crate::{Result, profiles};

/// Name of the configuration.
pub(super) const CONFIG: &str = "workspaces";
/// Profile of the play's Clusters.
pub(super) const PROFILE: &str = "standard";

pub(super) async fn act(stage: &Stage) -> Result<()> {
    stage.title("the provider's configuration says what it offers: each profile becomes a ClusterProfile");
    let offer = |version: &str, deprecated| SupportedVersion { version: version.to_owned(), deprecated };
    let versions = vec![offer("1.36.2", false), offer("1.35.4", true)];
    let profile = |name: &str| ProfileConfig { name: name.to_owned(), versions: versions.clone() };
    let spec = WorkspaceProviderConfigSpec {
        provider: stage.platform.provider().to_owned(),
        profiles: vec![profile(PROFILE), profile("spare")],
    };
    stage.create(WorkspaceProviderConfig::new(&stage.named(CONFIG), spec)).await?;
    stage.await_phase::<WorkspaceProviderConfigs>("", &stage.named(CONFIG), "Ready").await?;
    for profile in [PROFILE, "spare"] {
        let name = profiles::name_of(&stage.platform, profile);
        let profile = stage.there::<ClusterProfiles>("", &name).await?;
        stage.show(&format!("{}: {}", profile.shown(), outline(&profile.spec)));
    }
    Ok(())
}

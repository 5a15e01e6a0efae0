//! Act in which a profile in use can't be withdrawn.

use serde_json::json;

use super::profile::{CONFIG, PROFILE};
use super::stage::Stage;
use crate::api::{ClusterProfiles, WorkspaceProviderConfigs};
use crate::{Result, profiles};

pub(super) async fn act(stage: &Stage) -> Result<()> {
    stage.title("a profile that leaves the configuration goes only once no Cluster has it");
    let config = stage.there::<WorkspaceProviderConfigs>("", &stage.named(CONFIG)).await?;
    let without: Vec<_> = config.spec.profiles.iter().filter(|profile| profile.name == PROFILE).collect();
    stage.platform.patch(&config, json!({"spec": {"profiles": without}})).await?;
    stage.show("the configuration no longer has `spare`, which no Cluster uses");
    let unused = profiles::name_of(&stage.platform, "spare");
    stage.await_gone::<ClusterProfiles>("", &unused).await?;

    let others: Vec<_> = config.spec.profiles.iter().filter(|profile| profile.name != PROFILE).collect();
    let config = stage.there::<WorkspaceProviderConfigs>("", &stage.named(CONFIG)).await?;
    stage.platform.patch(&config, json!({"spec": {"profiles": others}})).await?;
    stage.show(&format!("the configuration no longer has `{PROFILE}`"));
    stage.await_reason::<WorkspaceProviderConfigs>("", config.name(), "OthersRemoved", "StillUsed").await?;
    stage.there::<ClusterProfiles>("", &profiles::name_of(&stage.platform, PROFILE)).await.map(drop)
}

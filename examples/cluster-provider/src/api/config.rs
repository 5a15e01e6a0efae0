//! Configuration of this provider.

use kube_client::core::ClusterResourceScope;
use serde::{Deserialize, Serialize};

use super::{Common, Kind, OWN_GROUP, Object, SupportedVersion};

/// Kind WorkspaceProviderConfig.
#[derive(Debug, Clone)]
pub enum WorkspaceProviderConfigs {}

/// Configuration of a provider's offer, with the provider's name in its spec. There may be several.
pub type WorkspaceProviderConfig = Object<WorkspaceProviderConfigs>;

/// Content of a [`WorkspaceProviderConfig`].
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct WorkspaceProviderConfigSpec {
    /// Name of the provider that the configuration is for, as in `--provider-name`.
    #[serde(default)]
    pub provider: String,
    /// Profiles that the provider offers.
    #[serde(default)]
    pub profiles: Vec<ProfileConfig>,
}

/// Sort of clusters.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ProfileConfig {
    /// Name of the profile. The name of its ClusterProfile is `<environment>.<provider>.<name>`.
    #[serde(default)]
    pub name: String,
    /// Versions to choose from, the default first.
    #[serde(default)]
    pub versions: Vec<SupportedVersion>,
}

/// Status of a [`WorkspaceProviderConfig`].
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct WorkspaceProviderConfigStatus {
    /// Fields of every status.
    #[serde(flatten)]
    pub common: Common,
    /// Names of the ClusterProfiles that exist for it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub profiles: Vec<String>,
}

impl Kind for WorkspaceProviderConfigs {
    type Spec = WorkspaceProviderConfigSpec;
    type Status = WorkspaceProviderConfigStatus;
    type Scope = ClusterResourceScope;
    const GROUP: &'static str = OWN_GROUP;
    const KIND: &'static str = "WorkspaceProviderConfig";
    const PLURAL: &'static str = "workspaceproviderconfigs";
}

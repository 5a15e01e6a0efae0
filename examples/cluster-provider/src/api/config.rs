//! This provider's own configuration.

use kube_client::core::ClusterResourceScope;
use serde::{Deserialize, Serialize};

use super::{Common, Kind, OWN_GROUP, Object, SupportedVersion};

/// The kind WorkspaceProviderConfig.
#[derive(Debug, Clone)]
pub enum WorkspaceProviderConfigs {}

/// What a provider offers: one that bears the provider's name in its spec. There may be several.
pub type WorkspaceProviderConfig = Object<WorkspaceProviderConfigs>;

/// What a [`WorkspaceProviderConfig`] says.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct WorkspaceProviderConfigSpec {
    /// The provider that it is for, which knows its name by `--provider-name`.
    #[serde(default)]
    pub provider: String,
    /// What it offers.
    #[serde(default)]
    pub profiles: Vec<ProfileConfig>,
}

/// One sort of clusters.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ProfileConfig {
    /// Its name; that of the ClusterProfile is `<environment>.<provider>.<name>`.
    #[serde(default)]
    pub name: String,
    /// The versions to choose from, the default first.
    #[serde(default)]
    pub versions: Vec<SupportedVersion>,
}

/// What came of a [`WorkspaceProviderConfig`].
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct WorkspaceProviderConfigStatus {
    /// What every status has.
    #[serde(flatten)]
    pub common: Common,
    /// The ClusterProfiles there are of it.
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

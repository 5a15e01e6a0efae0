//! Places of webhook configurations.

use depguard_core::LogicalCluster;

/// Place of a configuration: a provider's logical cluster, or in plain Kubernetes the one cluster (`None`).
pub(crate) type InstallPlace = Option<LogicalCluster>;

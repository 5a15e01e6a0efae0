//! Setup for which manifests are made.

use depguard_core::{ControlPlane, LogicalCluster};
use depguard_kcp::{Features, ReadThrough};

use crate::manifests::DEP_CTRL_PATH;

/// Choices that the manifests depend on.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "depguard's other crates construct it with all fields")]
pub struct Setup {
    /// Control plane on which depguard runs.
    pub control_plane: ControlPlane,
    /// Path of the workspace of depguard's APIExport, to which providers' APIBindings refer. kcp only.
    pub dep_ctrl_path: String,
    /// Way in which the webhook reads dependents. kcp only.
    pub read_through: ReadThrough,
    /// Identity of both binaries. In plain Kubernetes they are always ServiceAccounts.
    pub identity: Identity,
    /// Features that are switched on beside rules.
    pub enable: Features,
    /// True if somebody else makes the ClusterRoles that give the controller its rights to owned objects.
    pub precreated_roles: bool,
}

/// Identity of both binaries in kcp.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(
    clippy::exhaustive_enums,
    reason = "depguard's other crates handle each variant, so that a new one must not compile unnoticed"
)]
pub enum Identity {
    /// Tokens of ServiceAccounts in depguard's own workspace.
    ServiceAccounts {
        /// Logical cluster of this workspace, which is part of the accounts' names outside. `None`:
        /// [`Setup::NO_CLUSTER`].
        cluster: Option<LogicalCluster>,
    },
    /// Client certificates of the users `depguard-controller` and `depguard-webhook`.
    Certificates,
}

impl Setup {
    /// Placeholder for an unknown logical cluster of depguard's own workspace. No ServiceAccount has such a name, so
    /// nobody gets the rights.
    pub const NO_CLUSTER: &'static str = "LOGICAL-CLUSTER-OF-DEP-CTRL";

    /// Returns the setup of the files under `config/`.
    pub fn new(control_plane: ControlPlane, read_through: ReadThrough) -> Self {
        let identity = Identity::ServiceAccounts { cluster: None };
        Self {
            control_plane,
            dep_ctrl_path: DEP_CTRL_PATH.to_owned(),
            read_through,
            identity,
            enable: Features::default(),
            precreated_roles: false,
        }
    }
}

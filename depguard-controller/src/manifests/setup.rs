//! What the manifests are for.

use depguard_core::{Home, LogicalCluster};
use depguard_kcp::{Features, ReadThrough};

use super::DEP_CTRL_PATH;

/// How depguard is to run.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "made by depguard's other crates too, which say each field")]
pub struct Setup {
    /// Where.
    pub home: Home,
    /// The workspace of depguard's APIExport, to which providers' APIBindings refer. Home kcp only.
    pub dep_ctrl_path: String,
    /// By which way the webhook reads dependents. Home kcp only.
    pub read_through: ReadThrough,
    /// As whom both binaries are known. In home kubernetes always as ServiceAccounts.
    pub identity: Identity,
    /// What is switched on beside rules.
    pub enable: Features,
    /// Whether somebody else makes the ClusterRoles by which the controller may do with owned objects what it must.
    pub precreated_roles: bool,
}

/// As whom both binaries are known in home kcp.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(
    clippy::exhaustive_enums,
    reason = "depguard's other crates decide by each case: none shall pass them by unseen"
)]
pub enum Identity {
    /// By tokens of their ServiceAccounts in depguard's own workspace.
    ServiceAccounts {
        /// That workspace's logical cluster, which is in their names outside. `None`: [`Setup::NO_CLUSTER`].
        cluster: Option<LogicalCluster>,
    },
    /// By client certificates of the users `depguard-controller` and `depguard-webhook`.
    Certificates,
}

impl Setup {
    /// Stands for the logical cluster of depguard's own workspace where that is not known. No ServiceAccount has such a
    /// name: with it the rights are nobody's.
    pub const NO_CLUSTER: &'static str = "LOGICAL-CLUSTER-OF-DEP-CTRL";

    /// As the files under `config/` are made.
    pub fn new(home: Home, read_through: ReadThrough) -> Self {
        let identity = Identity::ServiceAccounts { cluster: None };
        Self {
            home,
            dep_ctrl_path: DEP_CTRL_PATH.to_owned(),
            read_through,
            identity,
            enable: Features::default(),
            precreated_roles: false,
        }
    }
}

//! Foreign keys for kcp and Kubernetes, without I/O.
#![cfg_attr(not(test), deny(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, clippy::panic))]

pub mod api;
mod home;
pub mod names;
mod path;
mod rule;
mod workspaces;

pub use home::Home;
pub use names::{
    ExportName, Group, GroupResource, GroupVersionResource, Kind, LogicalCluster, NameError, Namespace, Resource,
    Version, WorkspacePath,
};
pub use path::{FieldPath, PathError, PathErrorKind};
pub use rule::{Dependent, Edge, ExportRef, Rule, RuleError, RuleKey, Target};
pub use workspaces::Workspaces;

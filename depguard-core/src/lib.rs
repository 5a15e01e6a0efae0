//! Foreign keys for kcp and Kubernetes, without I/O.
#![cfg_attr(not(test), deny(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, clippy::panic))]

pub mod api;
mod bindings;
mod decision;
mod discovery;
mod evaluation;
mod extract;
mod home;
mod listing;
mod lookup;
pub mod names;
mod outline;
mod overrides;
mod path;
mod query;
mod review;
mod rule;
mod ruleset;
mod text;
mod workspaces;

pub use decision::{Because, Blocker, Count, Decision, Denial, Problem, Reason};
pub use evaluation::Evaluation;
pub use extract::{Extractor, Item, Page, PageError};
pub use home::Home;
pub use names::{
    ExportName, Group, GroupResource, GroupVersionResource, Kind, LogicalCluster, NameError, Namespace, Resource,
    Version, WorkspacePath,
};
pub use outline::Outline;
pub use overrides::OverridePolicy;
pub use path::{FieldPath, PathError, PathErrorKind};
pub use query::{Answer, Query, QueryId};
pub use review::{Operation, Requester, Review, ReviewError};
pub use rule::{Dependent, Edge, ExportRef, Rule, RuleError, RuleKey, Target};
pub use ruleset::{Context, RuleSet};
pub use workspaces::Workspaces;

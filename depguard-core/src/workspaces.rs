//! Which logical cluster a workspace path stands for, as far as it is known.

use std::collections::HashMap;
use std::sync::Arc;

use crate::names::{LogicalCluster, WorkspacePath};

/// Workspace paths and their logical clusters: only those that are known for certain.
///
/// A path that is left out costs little: what is bound from there is told by the words of the binding itself. A path
/// with a wrong logical cluster lets go of what is still referenced. Cheap to clone.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Workspaces {
    clusters: Arc<HashMap<WorkspacePath, LogicalCluster>>,
}

impl Workspaces {
    /// Knows no workspace.
    pub fn new() -> Self {
        Self::default()
    }

    /// Learns that `path` is the path of `cluster`.
    pub fn insert(&mut self, path: WorkspacePath, cluster: LogicalCluster) {
        Arc::make_mut(&mut self.clusters).insert(path, cluster);
    }

    /// The logical cluster of `path`, where known.
    pub fn cluster(&self, path: &WorkspacePath) -> Option<&LogicalCluster> {
        self.clusters.get(path)
    }
}

impl FromIterator<(WorkspacePath, LogicalCluster)> for Workspaces {
    fn from_iter<I: IntoIterator<Item = (WorkspacePath, LogicalCluster)>>(known: I) -> Self {
        Self { clusters: Arc::new(known.into_iter().collect()) }
    }
}

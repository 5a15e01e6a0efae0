//! Workspace paths and their logical clusters, as far as they are known.

use std::collections::HashMap;
use std::sync::Arc;

use crate::model::names::{LogicalCluster, WorkspacePath};

/// Workspace paths and their logical clusters. Only certain knowledge belongs here.
///
/// A missing path costs little: the binding itself then tells the origin of its kinds. A path with a wrong logical
/// cluster lets somebody delete objects that are still referenced. Clones are cheap.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Workspaces {
    clusters: Arc<HashMap<WorkspacePath, LogicalCluster>>,
}

impl Workspaces {
    /// Creates a map without any workspace.
    pub fn new() -> Self {
        Self::default()
    }

    /// Records that `path` is the path of `cluster`.
    pub fn insert(&mut self, path: WorkspacePath, cluster: LogicalCluster) {
        Arc::make_mut(&mut self.clusters).insert(path, cluster);
    }

    /// Returns the logical cluster of `path`, if known.
    pub fn cluster(&self, path: &WorkspacePath) -> Option<&LogicalCluster> {
        self.clusters.get(path)
    }
}

impl FromIterator<(WorkspacePath, LogicalCluster)> for Workspaces {
    fn from_iter<I: IntoIterator<Item = (WorkspacePath, LogicalCluster)>>(known: I) -> Self {
        Self { clusters: Arc::new(known.into_iter().collect()) }
    }
}

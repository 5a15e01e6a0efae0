//! Which logical cluster a workspace path stands for, as far as it is known.

use std::collections::HashMap;

use crate::names::{LogicalCluster, WorkspacePath};

/// Workspace paths and their logical clusters, as depguard's own APIBindings show them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Workspaces {
    clusters: HashMap<WorkspacePath, LogicalCluster>,
}

impl Workspaces {
    /// Knows no workspace.
    pub fn new() -> Self {
        Self::default()
    }

    /// Learns that `path` is the path of `cluster`.
    pub fn insert(&mut self, path: WorkspacePath, cluster: LogicalCluster) {
        self.clusters.insert(path, cluster);
    }

    /// The logical cluster of `path`, where known.
    pub fn cluster(&self, path: &WorkspacePath) -> Option<&LogicalCluster> {
        self.clusters.get(path)
    }
}

impl FromIterator<(WorkspacePath, LogicalCluster)> for Workspaces {
    fn from_iter<I: IntoIterator<Item = (WorkspacePath, LogicalCluster)>>(known: I) -> Self {
        Self { clusters: known.into_iter().collect() }
    }
}

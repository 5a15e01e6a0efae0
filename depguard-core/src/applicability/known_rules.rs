//! Rules that are loaded, by the workspace they lie in.

use std::collections::HashMap;

use serde::Deserialize;
use serde_json::Value;

use crate::api::CLUSTER_ANNOTATION;
use crate::names::{ExportName, LogicalCluster};

/// Rules that are loaded: which object in which state each of them is.
#[derive(Debug, Clone)]
pub struct KnownRules {
    export: (LogicalCluster, ExportName),
    by_cluster: HashMap<LogicalCluster, HashMap<String, RuleState>>,
}

/// State of one rule object: another object, or another `spec`, is another state.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub(super) struct RuleState {
    uid: String,
    generation: i64,
}

impl KnownRules {
    /// Reads DependencyRules. `export` is depguard's own APIExport, by which a workspace has rules at all.
    ///
    /// A rule that lacks a name, a logical cluster, a UID or a generation is left out, so that its workspace is never
    /// taken for known.
    pub fn read<'v>(export: (LogicalCluster, ExportName), rules: impl IntoIterator<Item = &'v Value>) -> Self {
        let mut by_cluster: HashMap<_, HashMap<_, _>> = HashMap::new();
        for metadata in rules.into_iter().filter_map(|rule| rule.get("metadata")) {
            let cluster = metadata.pointer("/annotations").and_then(|all| all.get(CLUSTER_ANNOTATION)?.as_str());
            let cluster = cluster.and_then(|cluster| LogicalCluster::parse(cluster).ok());
            let name = metadata.get("name").and_then(Value::as_str);
            if let (Some(cluster), Some(name), Ok(state)) = (cluster, name, RuleState::deserialize(metadata)) {
                by_cluster.entry(cluster).or_default().insert(name.to_owned(), state);
            }
        }
        Self { export, by_cluster }
    }

    pub(super) fn export(&self) -> &(LogicalCluster, ExportName) {
        &self.export
    }

    /// Number of rules of a workspace.
    pub(super) fn count(&self, cluster: &LogicalCluster) -> usize {
        self.by_cluster.get(cluster).map_or(0, HashMap::len)
    }

    /// Tells if a rule is loaded in this very state.
    pub(super) fn holds(&self, cluster: &LogicalCluster, name: &str, state: &RuleState) -> bool {
        self.by_cluster.get(cluster).and_then(|rules| rules.get(name)) == Some(state)
    }
}

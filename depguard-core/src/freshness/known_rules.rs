//! Loaded rules, by workspace.

use std::borrow::Borrow;
use std::collections::HashMap;

use serde::Deserialize;
use serde_json::Value;

use crate::model::api::CLUSTER_ANNOTATION;
use crate::model::names::{ExportName, LogicalCluster};

/// Loaded rules: the object and the state of each.
#[derive(Debug, Clone)]
pub struct KnownRules {
    export: (LogicalCluster, ExportName),
    by_cluster: HashMap<LogicalCluster, HashMap<String, RuleState>>,
}

/// State of one rule object: another object or another `spec` means another state.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub(super) struct RuleState {
    uid: String,
    generation: i64,
}

impl KnownRules {
    /// Reads DependencyRules. `export` is depguard's own APIExport, from which a workspace gets the kind of rules.
    ///
    /// A rule without a name, a logical cluster, a UID or a generation is left out, so that its workspace never
    /// counts as known.
    pub fn read(export: (LogicalCluster, ExportName), rules: impl IntoIterator<Item = impl Borrow<Value>>) -> Self {
        let mut by_cluster: HashMap<_, HashMap<_, _>> = HashMap::new();
        for rule in rules {
            let Some(metadata) = rule.borrow().get("metadata") else { continue };
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

    /// Returns the number of rules of a workspace.
    pub(super) fn count(&self, cluster: &LogicalCluster) -> usize {
        self.by_cluster.get(cluster).map_or(0, HashMap::len)
    }

    /// Returns true if a rule is loaded in exactly this state.
    pub(super) fn holds(&self, cluster: &LogicalCluster, name: &str, state: &RuleState) -> bool {
        self.by_cluster.get(cluster).and_then(|rules| rules.get(name)) == Some(state)
    }
}

//! Workspaces that have bound depguard since the webhook was started.

use std::collections::BTreeSet;

use depguard_core::{ExportName, LogicalCluster, api};
use serde_json::Value;

/// Maximum number of workspaces that are remembered. A forgotten workspace stays protected.
const MAX_REMEMBERED: usize = 10_000;

/// Workspaces that were seen to have bound depguard.
#[derive(Debug, Default)]
pub(crate) struct BoundSince(BTreeSet<LogicalCluster>);

impl BoundSince {
    /// Takes in the APIBindings that can be seen now, and returns the workspaces that no longer show one: each has
    /// unbound depguard, or can't be seen.
    pub(crate) fn departed<'v>(
        &mut self,
        export: &ExportName,
        bindings: impl IntoIterator<Item = &'v Value>,
    ) -> BTreeSet<LogicalCluster> {
        let text = |binding: &'v Value, pointer| binding.pointer(pointer).and_then(Value::as_str);
        let own = bindings
            .into_iter()
            .filter(|binding| text(binding, "/spec/reference/export/name") == Some(export.as_str()));
        let clusters =
            own.filter_map(|binding| binding.pointer("/metadata/annotations")?.get(api::CLUSTER_ANNOTATION)?.as_str());
        let bound: BTreeSet<_> = clusters.filter_map(|cluster| LogicalCluster::parse(cluster).ok()).collect();
        if self.0.union(&bound).count() > MAX_REMEMBERED {
            self.0.clear();
        }
        self.0.extend(bound.iter().take(MAX_REMEMBERED).cloned());
        self.0.difference(&bound).cloned().collect()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn departed(since: &mut BoundSince, clusters: &[String]) -> Vec<String> {
        let bindings: Vec<_> = clusters
            .iter()
            .map(|cluster| {
                json!({
                    "metadata": {"annotations": {"kcp.io/cluster": cluster}},
                    "spec": {"reference": {"export": {"name": "depguard"}}},
                })
            })
            .collect();
        let export = ExportName::parse("depguard").unwrap();
        since.departed(&export, &bindings).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_workspace_has_departed_while_its_binding_is_not_seen() {
        let mut since = BoundSince::default();
        let [a, b] = ["a", "b"].map(str::to_owned);
        assert_eq!(departed(&mut since, &[a.clone(), b.clone()]), [""; 0]);
        assert_eq!(departed(&mut since, std::slice::from_ref(&b)), ["a"]);
        assert_eq!(departed(&mut since, std::slice::from_ref(&a)), ["b"]);
        assert_eq!(departed(&mut since, &[a, b]), [""; 0]);
    }

    #[test]
    fn however_many_come_and_go_no_more_are_remembered_than_may_be() {
        let mut since = BoundSince::default();
        for generation in 0..3 {
            let clusters: Vec<_> = (0..MAX_REMEMBERED / 2 + 1).map(|n| format!("c{generation}x{n}")).collect();
            departed(&mut since, &clusters);
            assert!(since.0.len() <= MAX_REMEMBERED);
        }
    }
}

//! Which logical cluster a workspace path stands for.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use depguard_core::{LogicalCluster, WorkspacePath, Workspaces};
use serde_json::Value;

use crate::api::ApiError;
use crate::connection::Connection;
use crate::slices::text;

/// How long a look-up of one workspace may take.
const LOOKUP_TIMEOUT: Duration = Duration::from_secs(10);

/// The workspaces that bound depguard's export, as its own APIBindings show them. An APIBinding that is being deleted
/// is one still.
///
/// More than one logical cluster may claim a path: kcp copies the path from the workspace's LogicalCluster object,
/// where whoever administers a workspace can write any other's. So a path that several claim stands for none of them,
/// and what is to be done in a path's workspace had better be done in all that claim it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct BoundWorkspaces {
    claims: BTreeMap<WorkspacePath, BTreeSet<LogicalCluster>>,
}

/// What the Workspace object of a path says, for who wants to know why no binding shows that path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WorkspaceLookup {
    /// There is such a workspace, so it has not bound depguard's export.
    Found {
        /// Its logical cluster.
        cluster: LogicalCluster,
        /// `Ready`, or how far it is from that.
        phase: String,
    },
    /// There is no such workspace, or none that it could be in.
    NotFound,
    /// It could not be told.
    Unknown {
        /// What was refused or failed.
        why: String,
    },
}

impl BoundWorkspaces {
    /// Reads paths (annotation `kcp.io/path`) and logical clusters (`kcp.io/cluster`) off APIBindings. One without
    /// either says nothing.
    pub fn read<'a>(bindings: impl IntoIterator<Item = &'a Value>) -> Self {
        let mut claims: BTreeMap<_, BTreeSet<_>> = BTreeMap::new();
        for binding in bindings {
            let path = WorkspacePath::parse(text(binding, "/metadata/annotations/kcp.io~1path"));
            let cluster = LogicalCluster::parse(text(binding, "/metadata/annotations/kcp.io~1cluster"));
            if let (Ok(path), Ok(cluster)) = (path, cluster) {
                claims.entry(path).or_default().insert(cluster);
            }
        }
        Self { claims }
    }

    /// The logical clusters that claim to be `path`: one, unless somebody lies, or none.
    pub fn clusters(&self, path: &WorkspacePath) -> impl Iterator<Item = &LogicalCluster> {
        self.claims.get(path).into_iter().flatten()
    }

    /// The paths that exactly one logical cluster claims.
    pub fn workspaces(&self) -> Workspaces {
        let known = self.claims.iter().filter_map(|(path, clusters)| {
            let mut clusters = clusters.iter();
            match (clusters.next(), clusters.next()) {
                (Some(cluster), None) => Some((path.clone(), cluster.clone())),
                _ => None,
            }
        });
        known.collect()
    }
}

impl Connection {
    /// Looks at the Workspace object of `path`, which is in its parent.
    pub async fn look_up(&self, path: &WorkspacePath) -> WorkspaceLookup {
        let Some((parent, name)) = path.as_str().rsplit_once(':') else {
            return WorkspaceLookup::Unknown { why: format!("`{path}` has no parent workspace to look in") };
        };
        let parent = match WorkspacePath::parse(parent) {
            Ok(parent) => self.workspace(&parent).within(LOOKUP_TIMEOUT),
            Err(why) => return WorkspaceLookup::Unknown { why: why.to_string() },
        };
        let object = format!("/apis/tenancy.kcp.io/v1alpha1/workspaces/{name}");
        match parent.get_json(&object).await {
            Ok(workspace) => WorkspaceLookup::of(path, &workspace),
            // A 404 that names no object says that nothing here serves workspaces.
            Err(ApiError::Refused { status, .. }) if status.code == 404 && !status.name.is_empty() => {
                WorkspaceLookup::NotFound
            }
            Err(error) => WorkspaceLookup::Unknown { why: error.to_string() },
        }
    }
}

impl WorkspaceLookup {
    fn of(path: &WorkspacePath, workspace: &Value) -> Self {
        let phase = text(workspace, "/status/phase").to_owned();
        match LogicalCluster::parse(text(workspace, "/spec/cluster")) {
            Ok(cluster) => Self::Found { cluster, phase },
            Err(_) => Self::Unknown { why: format!("workspace `{path}` has no logical cluster yet (phase `{phase}`)") },
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn mk_binding(path: &str, cluster: &str) -> Value {
        json!({"metadata": {"annotations": {"kcp.io/path": path, "kcp.io/cluster": cluster}}})
    }

    fn path(path: &str) -> WorkspacePath {
        WorkspacePath::parse(path).unwrap()
    }

    fn cluster(bindings: &[Value], of: &str) -> Option<String> {
        BoundWorkspaces::read(bindings).workspaces().cluster(&path(of)).map(ToString::to_string)
    }

    #[test]
    fn a_binding_tells_the_logical_cluster_of_its_workspaces_path() {
        let mut leaving = mk_binding("root:b", "c2");
        leaving["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
        let bindings = [mk_binding("root:a", "c1"), leaving, mk_binding("root:a", "c1")];
        assert_eq!(cluster(&bindings, "root:a").as_deref(), Some("c1"));
        assert_eq!(cluster(&bindings, "root:b").as_deref(), Some("c2"));
        assert_eq!(cluster(&bindings, "root:c"), None);
    }

    #[test]
    fn a_path_that_two_claim_stands_for_neither() {
        let bindings = [mk_binding("root:a", "c1"), mk_binding("root:a", "liar"), mk_binding("root:b", "c2")];
        assert_eq!(cluster(&bindings, "root:a"), None);
        assert_eq!(cluster(&bindings, "root:b").as_deref(), Some("c2"));
        let bound = BoundWorkspaces::read(&bindings);
        let claims: Vec<_> = bound.clusters(&path("root:a")).map(ToString::to_string).collect();
        assert_eq!(claims, ["c1", "liar"]);
        assert_eq!(bound.clusters(&path("root:c")).count(), 0);
    }

    #[test]
    fn a_binding_without_path_or_cluster_says_nothing() {
        for binding in [json!({}), mk_binding("", "c1"), mk_binding("root:a", ""), mk_binding("root/a", "c1")] {
            assert_eq!(BoundWorkspaces::read([&binding]), BoundWorkspaces::default(), "{binding}");
        }
    }

    #[test]
    fn a_workspace_that_is_not_scheduled_yet_is_unknown() {
        let found = json!({"spec": {"cluster": "c1"}, "status": {"phase": "Ready"}});
        let expected = WorkspaceLookup::Found { cluster: LogicalCluster::parse("c1").unwrap(), phase: "Ready".into() };
        assert_eq!(WorkspaceLookup::of(&path("root:a"), &found), expected);
        let scheduling = json!({"spec": {}, "status": {"phase": "Scheduling"}});
        let WorkspaceLookup::Unknown { why } = WorkspaceLookup::of(&path("root:a"), &scheduling) else { panic!() };
        assert_eq!(why, "workspace `root:a` has no logical cluster yet (phase `Scheduling`)");
    }
}

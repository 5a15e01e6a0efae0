//! Which logical cluster a workspace path stands for.

use std::time::Duration;

use depguard_core::{LogicalCluster, WorkspacePath};
use serde_json::Value;

use crate::api::ApiError;
use crate::connection::Connection;
use crate::lookups::Claims;
use crate::slices::text;

/// How long a look-up of one workspace may take.
const LOOKUP_TIMEOUT: Duration = Duration::from_secs(5);

/// The root of all workspaces, which is in none.
const ROOT: &str = "root";

/// The workspaces that bound depguard's export, and the paths that they claim: what its own APIBindings show. An
/// APIBinding that is being deleted is one still.
///
/// A claim can be a lie: see [`WorkspaceLookups`](crate::WorkspaceLookups).
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct BoundWorkspaces {
    claims: Claims,
}

/// Which logical cluster kcp knows a workspace path by, whatever anybody says of himself.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(
    clippy::exhaustive_enums,
    reason = "depguard's other crates decide by each case: none shall pass them by unseen"
)]
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
        let mut claims = Claims::new();
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

    /// The claims to those of `paths` that are claimed.
    pub fn claims<'p>(&self, paths: impl IntoIterator<Item = &'p WorkspacePath>) -> Claims {
        let claimed = paths.into_iter().filter_map(|path| self.claims.get_key_value(path));
        claimed.map(|(path, clusters)| (path.clone(), clusters.clone())).collect()
    }
}

impl Connection {
    /// Looks at the Workspace object of `path`, which is in its parent. Where that can't be read, looks which logical
    /// cluster kcp itself finds at `path`: that takes a right in there, and so tells nothing of one that isn't there.
    pub async fn look_up(&self, path: &WorkspacePath) -> WorkspaceLookup {
        match self.look_into_parent(path).await {
            WorkspaceLookup::Unknown { why } => match self.look_inside(path).await {
                found @ WorkspaceLookup::Found { .. } => found,
                _ => WorkspaceLookup::Unknown { why },
            },
            found => found,
        }
    }

    async fn look_into_parent(&self, path: &WorkspacePath) -> WorkspaceLookup {
        let Some((parent, name)) = path.as_str().rsplit_once(':') else {
            return WorkspaceLookup::Unknown { why: format!("`{path}` has no parent workspace to look in") };
        };
        // kcp shows some people an id that nobody has as an empty workspace, and `user:alice` is in none at all.
        let parent_is_found_by_path = parent == ROOT || parent.contains(':');
        let parent = match WorkspacePath::parse(parent) {
            Ok(parent) => self.workspace(&parent).within(LOOKUP_TIMEOUT),
            Err(why) => return WorkspaceLookup::Unknown { why: why.to_string() },
        };
        let object = format!("/apis/tenancy.kcp.io/v1alpha1/workspaces/{name}");
        match parent.get_json(&object).await {
            Ok(workspace) => WorkspaceLookup::of(path, &workspace, "/spec/cluster"),
            // A 404 that names no object says that nothing here serves workspaces.
            Err(ApiError::Refused { status, .. })
                if status.code == 404 && !status.name.is_empty() && parent_is_found_by_path =>
            {
                WorkspaceLookup::NotFound
            }
            Err(error) => WorkspaceLookup::Unknown { why: error.to_string() },
        }
    }

    /// The logical cluster's own object says by its `kcp.io/cluster`, which kcp sets from the storage key, which it is.
    async fn look_inside(&self, path: &WorkspacePath) -> WorkspaceLookup {
        let inside = self.workspace(path).within(LOOKUP_TIMEOUT);
        match inside.get_json("/apis/core.kcp.io/v1alpha1/logicalclusters/cluster").await {
            Ok(itself) => WorkspaceLookup::of(path, &itself, "/metadata/annotations/kcp.io~1cluster"),
            Err(error) => WorkspaceLookup::Unknown { why: error.to_string() },
        }
    }
}

impl WorkspaceLookup {
    fn of(path: &WorkspacePath, object: &Value, cluster: &str) -> Self {
        let phase = text(object, "/status/phase").to_owned();
        match LogicalCluster::parse(text(object, cluster)) {
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

    #[test]
    fn bindings_tell_which_logical_clusters_claim_a_path() {
        let mut leaving = mk_binding("root:b", "c2");
        leaving["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
        let bindings = [mk_binding("root:a", "c1"), leaving, mk_binding("root:a", "liar"), mk_binding("root:a", "c1")];
        let bound = BoundWorkspaces::read(&bindings);
        let claimants = |of| bound.clusters(&path(of)).map(ToString::to_string).collect::<Vec<_>>();
        assert_eq!(claimants("root:a"), ["c1", "liar"]);
        assert_eq!(claimants("root:b"), ["c2"]);
        assert_eq!(claimants("root:c"), [""; 0]);
        let claims = bound.claims([&path("root:b"), &path("root:c")]);
        assert_eq!(claims.into_keys().collect::<Vec<_>>(), [path("root:b")]);
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
        assert_eq!(WorkspaceLookup::of(&path("root:a"), &found, "/spec/cluster"), expected);
        let scheduling = json!({"spec": {}, "status": {"phase": "Scheduling"}});
        let WorkspaceLookup::Unknown { why } = WorkspaceLookup::of(&path("root:a"), &scheduling, "/spec/cluster")
        else {
            panic!()
        };
        assert_eq!(why, "workspace `root:a` has no logical cluster yet (phase `Scheduling`)");
    }
}

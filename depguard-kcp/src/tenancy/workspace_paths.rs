//! Logical clusters that workspace paths stand for.

use std::borrow::Borrow;
use std::collections::BTreeSet;
use std::time::Duration;

use depguard_core::{LogicalCluster, WorkspacePath};
use serde_json::Value;

use crate::http::connection::Connection;
use crate::http::objects::ApiError;
use crate::tenancy::endpoint_slices::text;
use crate::tenancy::workspace_cache::Claims;

/// Time limit of a look-up of one workspace.
const LOOKUP_TIMEOUT: Duration = Duration::from_secs(5);

/// Root of all workspaces, which has no parent.
const ROOT: &str = "root";
/// Maximum number of claimants of one path that are looked into.
const MAX_CLAIMANTS: usize = 8;

/// Workspaces that bound depguard's export, and the paths that they claim, from depguard's own APIBindings. An
/// APIBinding that is being deleted still counts.
///
/// A claim can be a lie: see [`WorkspaceLookups`](crate::WorkspaceLookups).
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct BoundWorkspaces {
    claims: Claims,
}

/// Logical cluster by which kcp itself knows a workspace path, whatever the workspaces claim.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
#[expect(
    clippy::exhaustive_enums,
    reason = "depguard's other crates handle each variant, so that a new one must not compile unnoticed"
)]
pub enum WorkspaceLookup {
    /// The workspace exists. If nobody claims its path, it has not bound depguard's export.
    Found {
        /// Logical cluster of the workspace.
        cluster: LogicalCluster,
        /// Phase of the workspace: `Ready`, or an earlier one.
        phase: String,
    },
    /// The workspace does not exist, or its parent does not, or it is none of those that claim the path.
    NotFound,
    /// The look-up failed.
    Unknown {
        /// Request that was refused or failed.
        why: String,
    },
}

/// Look-up inside a workspace that found nothing.
enum NoLookup {
    /// The account may not look, or there is no such workspace.
    Denied,
    /// The look-up failed.
    Failed,
}

impl BoundWorkspaces {
    /// Reads paths (annotation `kcp.io/path`) and logical clusters (`kcp.io/cluster`) from APIBindings. An APIBinding
    /// that lacks one of them claims nothing.
    pub fn read(bindings: impl IntoIterator<Item = impl Borrow<Value>>) -> Self {
        let mut claims = Claims::new();
        for binding in bindings {
            let binding = binding.borrow();
            let path = WorkspacePath::parse(text(binding, "/metadata/annotations/kcp.io~1path"));
            let cluster = LogicalCluster::parse(text(binding, "/metadata/annotations/kcp.io~1cluster"));
            if let (Ok(path), Ok(cluster)) = (path, cluster) {
                claims.entry(path).or_default().insert(cluster);
            }
        }
        Self { claims }
    }

    /// Returns the logical clusters that claim `path`: none, one, or several if somebody lies.
    pub fn clusters(&self, path: &WorkspacePath) -> impl Iterator<Item = &LogicalCluster> {
        self.claims.get(path).into_iter().flatten()
    }

    /// Returns the claims to those of `paths` that are claimed.
    pub fn claims<'p>(&self, paths: impl IntoIterator<Item = &'p WorkspacePath>) -> Claims {
        let claimed = paths.into_iter().filter_map(|path| self.claims.get_key_value(path));
        claimed.map(|(path, clusters)| (path.clone(), clusters.clone())).collect()
    }
}

impl Connection {
    /// Looks up the Workspace object of `path` in its parent. If that can't be read, asks which logical cluster kcp
    /// itself finds at `path`. This second way needs a right in that workspace, so by itself it never proves that a
    /// workspace is missing.
    pub async fn look_up(&self, path: &WorkspacePath) -> WorkspaceLookup {
        self.look_up_claim(path, &BTreeSet::new()).await
    }

    /// Looks up a path that these logical clusters claim. If `path` is denied, but each claimant can be read by its id,
    /// `path` leads to none of them.
    pub(crate) async fn look_up_claim(
        &self,
        path: &WorkspacePath,
        claimants: &BTreeSet<LogicalCluster>,
    ) -> WorkspaceLookup {
        let why = match self.look_into_parent(path).await {
            WorkspaceLookup::Unknown { why } => why,
            found => return found,
        };
        match self.look_inside(path.as_str()).await {
            Ok(found @ WorkspaceLookup::Found { .. }) => found,
            Err(NoLookup::Denied) if self.is_denied_to(path, claimants).await => WorkspaceLookup::NotFound,
            _ => WorkspaceLookup::Unknown { why },
        }
    }

    /// Returns true if a path that was denied leads to none of its claimants. A missing right would deny them by id, too.
    /// A shard that is away would not answer for the nearest workspace above the path, which knows what is below it.
    async fn is_denied_to(&self, path: &WorkspacePath, claimants: &BTreeSet<LogicalCluster>) -> bool {
        if claimants.is_empty() || claimants.len() > MAX_CLAIMANTS {
            return false;
        }
        for claimant in claimants {
            match self.look_inside(claimant.as_str()).await {
                Ok(WorkspaceLookup::Found { cluster, .. }) if cluster == *claimant => {}
                _ => return false,
            }
        }
        let mut below = path.as_str();
        while let Some((above, _)) = below.rsplit_once(':') {
            match self.look_inside(above).await {
                Ok(found) => return matches!(found, WorkspaceLookup::Found { .. }),
                Err(NoLookup::Denied) => below = above,
                Err(NoLookup::Failed) => return false,
            }
        }
        false
    }

    async fn look_into_parent(&self, path: &WorkspacePath) -> WorkspaceLookup {
        let Some((parent, name)) = path.as_str().rsplit_once(':') else {
            return WorkspaceLookup::Unknown { why: format!("`{path}` has no parent workspace to look in") };
        };
        // A parent without a colon may be an id: kcp shows some users an unknown id as an empty workspace, and
        // `user:alice` is in no workspace. Then a 404 proves nothing.
        let parent_is_found_by_path = parent == ROOT || parent.contains(':');
        let parent = match WorkspacePath::parse(parent) {
            Ok(parent) => self.workspace(&parent).within(LOOKUP_TIMEOUT),
            Err(why) => return WorkspaceLookup::Unknown { why: why.to_string() },
        };
        let object = format!("/apis/tenancy.kcp.io/v1alpha1/workspaces/{name}");
        match parent.get_json(&object).await {
            Ok(workspace) => WorkspaceLookup::from_object(path, &workspace, "/spec/cluster"),
            // A 404 that names no object means that the server does not serve workspaces here.
            Err(ApiError::Refused { status, .. })
                if status.code == 404 && !status.name.is_empty() && parent_is_found_by_path =>
            {
                WorkspaceLookup::NotFound
            }
            Err(error) => WorkspaceLookup::Unknown { why: error.to_string() },
        }
    }

    /// Reads the logical cluster's own object. kcp sets its `kcp.io/cluster` from the storage key, which is the logical
    /// cluster.
    async fn look_inside(&self, path_or_id: &str) -> Result<WorkspaceLookup, NoLookup> {
        let path = WorkspacePath::parse(path_or_id).map_err(|_| NoLookup::Failed)?;
        let inside = self.workspace(&path).within(LOOKUP_TIMEOUT);
        let itself = inside.get_json("/apis/core.kcp.io/v1alpha1/logicalclusters/cluster").await;
        let itself = itself.map_err(|error| match error.status() {
            Some(403) => NoLookup::Denied,
            // A shard without a front-proxy names the path that it doesn't know.
            _ if error.is_missing(path_or_id) => NoLookup::Denied,
            _ => NoLookup::Failed,
        })?;
        Ok(WorkspaceLookup::from_object(&path, &itself, "/metadata/annotations/kcp.io~1cluster"))
    }
}

impl WorkspaceLookup {
    fn from_object(path: &WorkspacePath, object: &Value, cluster: &str) -> Self {
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
        assert_eq!(WorkspaceLookup::from_object(&path("root:a"), &found, "/spec/cluster"), expected);
        let scheduling = json!({"spec": {}, "status": {"phase": "Scheduling"}});
        let WorkspaceLookup::Unknown { why } =
            WorkspaceLookup::from_object(&path("root:a"), &scheduling, "/spec/cluster")
        else {
            panic!()
        };
        assert_eq!(why, "workspace `root:a` has no logical cluster yet (phase `Scheduling`)");
    }
}

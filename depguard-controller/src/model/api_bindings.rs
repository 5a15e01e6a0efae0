//! APIBindings of depguard: the workspaces that have bound it, and the claims that each accepted.

use std::borrow::Borrow;
use std::collections::BTreeMap;

use depguard_core::api::{CLUSTER_ANNOTATION, PATH_ANNOTATION};
use depguard_core::{LogicalCluster, WorkspacePath};
use serde_json::Value;

/// Claim without which nothing can be installed.
pub(crate) const CONFIGURATIONS: ClaimedResource =
    ClaimedResource { group: "admissionregistration.k8s.io", resource: "validatingwebhookconfigurations" };
/// Claim that lets depguard see the exports of a workspace.
pub(crate) const EXPORTS: ClaimedResource = ClaimedResource { group: "apis.kcp.io", resource: "apiexports" };

/// Claim that lets depguard see the schemas of exported kinds.
pub(crate) const SCHEMAS: ClaimedResource = ClaimedResource { group: "apis.kcp.io", resource: "apiresourceschemas" };

/// Resource that depguard's APIExport claims.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ClaimedResource {
    pub(crate) group: &'static str,
    pub(crate) resource: &'static str,
}

/// Workspaces that have bound depguard.
#[derive(Debug, Default)]
pub(crate) struct Bindings {
    by_cluster: BTreeMap<LogicalCluster, Binding>,
    by_path: BTreeMap<WorkspacePath, Vec<LogicalCluster>>,
}

/// APIBinding by which a workspace binds depguard.
#[derive(Debug, Hash)]
pub(crate) struct Binding {
    /// Name of the APIBinding.
    pub(crate) name: String,
    /// Path of the workspace; kcp writes it a moment after the binding was made.
    pub(crate) path: Option<WorkspacePath>,
    accepted: Vec<(String, String)>,
    applied: Vec<(String, String)>,
    /// True while the binding is being deleted; with it goes the access to the workspace.
    pub(crate) terminating: bool,
}

/// Decision of a workspace about a claim.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Claim {
    /// Accepted, and in force.
    Applied,
    /// Accepted, and not in force: kcp has not applied it yet, or the APIExport does not make the claim.
    Accepted,
    /// Rejected, or not decided.
    NotAccepted,
}

impl Bindings {
    /// Reads APIBindings. A binding that does not name its logical cluster can't be used and is left out.
    pub(crate) fn read(objects: impl IntoIterator<Item = impl Borrow<Value>>) -> Self {
        let mut bindings = Self::default();
        for object in objects {
            let object = object.borrow();
            let Some(cluster) = annotation(object, CLUSTER_ANNOTATION) else { continue };
            let Ok(cluster) = LogicalCluster::parse(cluster) else { continue };
            bindings.insert(cluster, Binding::read(object));
        }
        for (cluster, binding) in &bindings.by_cluster {
            if let Some(path) = &binding.path {
                bindings.by_path.entry(path.clone()).or_default().push(cluster.clone());
            }
        }
        // A workspace that was deleted and made again has its path twice for a while: the remaining one comes first.
        for clusters in bindings.by_path.values_mut() {
            clusters.sort_by_key(|cluster| bindings.by_cluster.get(cluster).is_some_and(|binding| binding.terminating));
        }
        bindings
    }

    /// Returns each workspace that has bound depguard.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&LogicalCluster, &Binding)> {
        self.by_cluster.iter()
    }

    /// Returns the binding of a workspace.
    pub(crate) fn of(&self, cluster: &LogicalCluster) -> Option<&Binding> {
        self.by_cluster.get(cluster)
    }

    /// Returns the logical clusters of a path: none if no workspace there has bound depguard, and for a moment more
    /// than one.
    pub(crate) fn at(&self, path: &WorkspacePath) -> &[LogicalCluster] {
        self.by_path.get(path).map_or(&[], Vec::as_slice)
    }

    fn insert(&mut self, cluster: LogicalCluster, binding: Binding) {
        match self.by_cluster.get_mut(&cluster) {
            None => {
                self.by_cluster.insert(cluster, binding);
            }
            // Bound twice: a claim that either binding accepts is accepted.
            Some(first) => {
                first.path = first.path.take().or(binding.path);
                first.accepted.extend(binding.accepted);
                first.applied.extend(binding.applied);
                first.terminating &= binding.terminating;
            }
        }
    }
}

impl Binding {
    /// Returns the decision of the workspace about a claim.
    pub(crate) fn claim(&self, claimed: ClaimedResource) -> Claim {
        let among = |claims: &[(String, String)]| {
            claims.iter().any(|(group, resource)| group == claimed.group && resource == claimed.resource)
        };
        match (among(&self.accepted), among(&self.applied)) {
            (true, true) => Claim::Applied,
            (true, false) => Claim::Accepted,
            (false, _) => Claim::NotAccepted,
        }
    }

    fn read(object: &Value) -> Self {
        let accepted = claims(object, "/spec/permissionClaims", |claim| {
            claim.get("state").and_then(Value::as_str) == Some("Accepted")
        });
        Self {
            name: text(object, "/metadata/name").unwrap_or_default().to_owned(),
            path: annotation(object, PATH_ANNOTATION).and_then(|path| WorkspacePath::parse(path).ok()),
            accepted,
            applied: claims(object, "/status/appliedPermissionClaims", |_| true),
            terminating: text(object, "/metadata/deletionTimestamp").is_some(),
        }
    }
}

fn claims(object: &Value, pointer: &str, counts: impl Fn(&Value) -> bool) -> Vec<(String, String)> {
    let claims = object.pointer(pointer).and_then(Value::as_array).into_iter().flatten();
    let field = |claim: &Value, name: &str| claim.get(name).and_then(Value::as_str).unwrap_or_default().to_owned();
    claims.filter(|claim| counts(claim)).map(|claim| (field(claim, "group"), field(claim, "resource"))).collect()
}

fn annotation<'v>(object: &'v Value, name: &str) -> Option<&'v str> {
    object.pointer("/metadata/annotations")?.get(name)?.as_str()
}

fn text<'v>(object: &'v Value, pointer: &str) -> Option<&'v str> {
    object.pointer(pointer)?.as_str()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::testing::{binding, cluster, path};

    #[test]
    fn a_claim_is_in_force_only_where_it_was_accepted_and_applied() {
        let mut object = binding("a", "root:a");
        let claim = |object: &Value| Bindings::read([object]).of(&cluster("a")).unwrap().claim(CONFIGURATIONS);
        assert_eq!(claim(&object), Claim::Applied);
        object["status"] = json!({});
        assert_eq!(claim(&object), Claim::Accepted);
        object["spec"]["permissionClaims"][0]["state"] = json!("Rejected");
        assert_eq!(claim(&object), Claim::NotAccepted);
        object["spec"] = json!({});
        assert_eq!(claim(&object), Claim::NotAccepted);
    }

    #[test]
    fn of_two_workspaces_at_a_path_the_one_that_stays_comes_first() {
        let mut going = binding("a", "root:a");
        going["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
        let bindings = Bindings::read([&going, &binding("b", "root:a"), &binding("c", "root:c")]);
        assert_eq!(bindings.at(&path("root:a")), [cluster("b"), cluster("a")]);
        assert_eq!(bindings.at(&path("root:x")), []);
    }

    #[test]
    fn a_binding_without_its_path_still_stands_for_its_workspace() {
        let mut object = binding("a", "root:a");
        object["metadata"]["annotations"].as_object_mut().unwrap().remove("kcp.io/path");
        let bindings = Bindings::read([&object, &json!({"metadata": {"name": "nowhere"}})]);
        assert_eq!(bindings.of(&cluster("a")).unwrap().path, None);
    }
}

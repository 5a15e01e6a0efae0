//! Targets that a rule takes from its own workspace, although its dependents are in other workspaces too.

use std::fmt;

use crate::model::names::{ExportName, Group, GroupResource};
use crate::rule::checked_rule::Rule;

/// API groups, beside the core group, that kcp itself serves in each workspace; no provider exports them.
const BUILT_IN: [&str; 8] = [
    "admissionregistration.k8s.io",
    "apiextensions.k8s.io",
    "authentication.k8s.io",
    "authorization.k8s.io",
    "certificates.k8s.io",
    "coordination.k8s.io",
    "events.k8s.io",
    "rbac.authorization.k8s.io",
];
/// Suffix of the API groups of kcp's own kinds.
const OF_KCP: &str = ".kcp.io";

/// Target without an APIExport, of a rule whose dependents are of an APIExport. Prints the consequence, and the advice.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct LocalTarget<'r> {
    /// APIExport of the dependents.
    pub dependents: &'r ExportName,
    /// Field of the rule that names the target: `spec.dependencies[0]`.
    pub field: String,
    /// Kind of the target.
    pub kind: GroupResource,
}

/// Returns the targets that the rule probably means in the workspaces of consumers, but that it takes from its own
/// workspace: a provider could export their kinds, and the rule names no `apiExportRef`.
pub fn local_targets(rule: &Rule) -> Vec<LocalTarget<'_>> {
    let Some(dependents) = &rule.dependent().export else { return Vec::new() };
    let local = rule.edges().iter().filter(|edge| edge.target.export.is_none() && !is_built_in(&edge.target.gvr.group));
    let targets = local.map(|edge| LocalTarget {
        dependents,
        field: format!("spec.dependencies[{}]", edge.index),
        kind: edge.target.gvr.group_resource(),
    });
    targets.collect()
}

/// Returns the sentence about a kind that a rule takes for one of its own workspace, although an APIExport there serves it.
/// `field` names the kind, and `missing` is the field in it that would name the export.
pub fn left_out_export(field: &str, missing: &str, kind: &GroupResource, export: &str) -> String {
    format!(
        "{field} has no {missing}, so it means {kind} of the rule's own workspace only, and not where consumers bind \
         APIExport {export}, which serves {kind} from there: if you mean that, write it in {field}.{missing}"
    )
}

/// Returns true if kcp serves the group in each workspace.
fn is_built_in(group: &Group) -> bool {
    group.is_core() || BUILT_IN.contains(&group.as_str()) || group.as_str().ends_with(OF_KCP)
}

impl fmt::Display for LocalTarget<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { dependents, field, kind } = self;
        write!(
            f,
            "{field} has no apiExportRef, so the rule protects {kind} in its own workspace only, and not where \
             consumers bind {dependents}: if a provider exports {kind}, write the path and name of its APIExport in \
             {field}.apiExportRef"
        )
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::model::control_plane::ControlPlane;

    fn rule(export: Option<&str>, dependencies: &Value) -> Rule {
        let mut rule = json!({
            "metadata": {"name": "vms", "annotations": {"kcp.io/cluster": "compute"}},
            "spec": {
                "dependent": {"group": "compute.example.com", "version": "v1", "kind": "VM", "resource": "vms"},
                "dependencies": dependencies,
            },
        });
        if let Some(export) = export {
            rule["spec"]["dependent"]["apiExportName"] = json!(export);
        }
        Rule::parse(ControlPlane::Kcp, &rule).unwrap()
    }

    fn target(group: &str, resource: &str) -> Value {
        json!({"group": group, "version": "v1", "resource": resource, "fieldRef": {"path": ".spec.ref"}})
    }

    #[test]
    fn a_target_that_a_provider_could_export_is_told() {
        let mut exported = target("network.example.com", "subnets");
        exported["apiExportRef"] = json!({"path": "root:network", "name": "network.example.com"});
        let dependencies = json!([exported, target("network.example.com", "vpcs"), target("apps", "deployments")]);
        let rule = rule(Some("compute.example.com"), &dependencies);
        let found: Vec<_> = local_targets(&rule).iter().map(ToString::to_string).collect();
        assert_eq!(found.len(), 2, "{found:?}");
        assert_eq!(
            found[0],
            "spec.dependencies[1] has no apiExportRef, so the rule protects vpcs.network.example.com in its own \
             workspace only, and not where consumers bind compute.example.com: if a provider exports \
             vpcs.network.example.com, write the path and name of its APIExport in spec.dependencies[1].apiExportRef"
        );
        assert!(found[1].starts_with("spec.dependencies[2] has no apiExportRef"), "{found:?}");
    }

    #[test]
    fn a_target_that_kcp_itself_serves_is_local_on_purpose() {
        let own = ["apis.kcp.io", "core.kcp.io", "tenancy.kcp.io"];
        let groups = [""].into_iter().chain(BUILT_IN).chain(own);
        let dependencies: Vec<_> = groups.map(|group| target(group, "things")).collect();
        assert_eq!(local_targets(&rule(Some("compute.example.com"), &json!(dependencies))), []);
    }

    #[test]
    fn a_local_dependent_refers_to_local_targets() {
        assert_eq!(local_targets(&rule(None, &json!([target("network.example.com", "vpcs")]))), []);
    }
}

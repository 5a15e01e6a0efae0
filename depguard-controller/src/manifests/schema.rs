//! Kind of DependencyRules, as API servers are told of it.

mod owners;

use depguard_core::{ControlPlane, api};
use schemars::JsonSchema;
use serde_json::{Value, json};

use crate::manifests::definition::{Definition, column, condition_column, if_wide, object_schema};
use crate::manifests::structural::structural;
use crate::manifests::with;

pub use owners::owner_crds;

/// Returns the definition of DependencyRules for a control plane.
pub(super) fn rules(control_plane: ControlPlane) -> Definition {
    let description = "DependencyRule says that one kind refers to others through its fields: a foreign key. depguard \
             refuses to delete an object while another object refers to it.";
    Definition {
        group: api::GROUP,
        version: api::VERSION,
        kind: api::KIND,
        plural: api::PLURAL,
        short: Some("deprule"),
        scope: "Cluster",
        // A printer column shows only the first of several results of a path, so the status holds the targets' names as
        // one text.
        columns: vec![
            column("Dependent", "string", ".spec.dependent.resource"),
            column("Targets", "string", ".status.summary"),
            condition_column("Ready", "Enforced"),
            if_wide(condition_column("Accepted", "Accepted")),
            if_wide(condition_column("Resolved", "ResolvedRefs")),
            if_wide(condition_column("Programmed", "Programmed")),
        ],
        subresources: Some(json!({"status": {}})),
        schema: object_schema(
            api::KIND,
            description,
            &["spec"],
            &[("spec", spec(control_plane)), ("status", structural(api::DependencyRuleStatus::json_schema))],
        ),
    }
}

/// Returns the schema of a rule's spec. It depends on the control plane, which the wire type doesn't know.
fn spec(control_plane: ControlPlane) -> Value {
    let spec = structural(api::DependencyRuleSpec::json_schema);
    match control_plane {
        ControlPlane::Kcp => spec,
        // In kcp an API server that let such a rule in would do no harm. In plain Kubernetes a stored rule that
        // can't be used refuses deletions.
        ControlPlane::Kubernetes => with(
            spec,
            "x-kubernetes-validations",
            json!([{
                "rule": "!has(self.dependent.apiExportName) && self.dependencies.all(d, !has(d.apiExportRef))",
                "message": "a plain Kubernetes cluster has no APIExports: leave apiExportName and apiExportRef out",
            }]),
        ),
    }
}

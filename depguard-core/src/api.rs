//! The wire types of `dependencies.opendefense.cloud/v1alpha1`, as users write them and API servers store them.
//!
//! They hold whatever was written; [`Rule::parse`](crate::Rule::parse) is what checks it. A field that is not known
//! here is an error and not ignored: a narrower rule read as a wider one, or the reverse, would decide wrongly.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// The API group.
pub const GROUP: &str = "dependencies.opendefense.cloud";
/// The API version.
pub const VERSION: &str = "v1alpha1";
/// The kind of a rule.
pub const KIND: &str = "DependencyRule";
/// The resource of rules.
pub const PLURAL: &str = "dependencyrules";

/// The annotation in which kcp names an object's logical cluster. kcp sets it from the storage key.
pub const CLUSTER_ANNOTATION: &str = "kcp.io/cluster";
/// The annotation in which kcp names the workspace path of an APIBinding's or APIExport's workspace.
pub const PATH_ANNOTATION: &str = "kcp.io/path";
/// The annotation on a target that lifts its protection for those whom the operator allowed to.
pub const SKIP_ANNOTATION: &str = "dependencies.opendefense.cloud/skip-protection";

/// Kind A refers to kind B through a field: a foreign key.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct DependencyRule {
    /// `dependencies.opendefense.cloud/v1alpha1`.
    #[serde(default)]
    pub api_version: String,
    /// `DependencyRule`.
    #[serde(default)]
    pub kind: String,
    /// What depguard needs of the metadata.
    #[serde(default)]
    pub metadata: ObjectMeta,
    /// What was asked for.
    pub spec: DependencyRuleSpec,
    /// What the controller made of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<DependencyRuleStatus>,
}

/// What depguard reads of an object's metadata.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ObjectMeta {
    /// The object's name.
    #[serde(default)]
    pub name: String,
    /// Counts the changes of `spec`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub generation: Option<i64>,
    /// Among them the logical cluster, in kcp.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub annotations: BTreeMap<String, String>,
}

/// One kind of dependent and what it refers to.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct DependencyRuleSpec {
    /// The kind that holds the references.
    pub dependent: Dependent,
    /// What it refers to, one entry a field.
    #[serde(default)]
    pub dependencies: Vec<Dependency>,
}

/// The kind that holds the references.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Dependent {
    /// The APIExport, in the rule's own workspace, that serves the kind. Left out: a local kind.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub api_export_name: Option<String>,
    /// What older rules held instead of `apiExportName`; read so that the error can say what to write.
    #[serde(default, skip_serializing)]
    pub api_export_ref: Option<ExportRef>,
    /// The API group; empty for the core group.
    pub group: String,
    /// The version in which dependents are read.
    pub version: String,
    /// The kind, for messages.
    pub kind: String,
    /// The resource, plural.
    pub resource: String,
}

/// One field of the dependent, and the kind that it refers to.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Dependency {
    /// The APIExport that serves the target. Left out: a local kind.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub api_export_ref: Option<ExportRef>,
    /// The API group; empty for the core group.
    pub group: String,
    /// A served version; every served version is protected.
    pub version: String,
    /// The resource, plural.
    pub resource: String,
    /// Where the dependent names the target.
    pub field_ref: FieldRef,
}

/// An APIExport in a workspace.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ExportRef {
    /// The provider's workspace path.
    pub path: String,
    /// The APIExport's name.
    pub name: String,
}

/// A field of the dependent.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FieldRef {
    /// The field that holds the target's name: `.spec.vpcRef.name`.
    pub path: String,
}

/// What the controller made of a rule.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct DependencyRuleStatus {
    /// The generation that the status speaks of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// `Accepted`, `ResolvedRefs`, `Programmed`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
    /// Where each dependency was found.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub targets: Vec<TargetStatus>,
}

/// A condition, in the shape of `metav1.Condition`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Condition {
    /// What it speaks of.
    #[serde(rename = "type")]
    pub type_: String,
    /// `True`, `False` or `Unknown`.
    pub status: String,
    /// The generation that it was found for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// When `status` last changed, RFC 3339.
    pub last_transition_time: String,
    /// One word in camel case.
    pub reason: String,
    /// For people.
    pub message: String,
}

/// Where a dependency was found.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TargetStatus {
    /// The index in `spec.dependencies`.
    pub dependency: u32,
    /// The provider's workspace path.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workspace: Option<String>,
    /// The provider's logical cluster.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub logical_cluster: Option<String>,
}

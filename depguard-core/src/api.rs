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

/// The annotation on an APIExport that says whose rules may protect what it serves: workspace paths, with commas between.
pub const ACCEPT_ANNOTATION: &str = "dependencies.opendefense.cloud/accept-rules-from";

/// Kind A refers to kind B through a field: a foreign key.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[expect(clippy::exhaustive_structs, reason = "what stands in the API: it grows with that, as docs/embedding.md says")]
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
#[expect(clippy::exhaustive_structs, reason = "what stands in the API: it grows with that, as docs/embedding.md says")]
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
#[expect(clippy::exhaustive_structs, reason = "what stands in the API: it grows with that, as docs/embedding.md says")]
pub struct DependencyRuleSpec {
    /// What happens when the rule can't be evaluated. Left out: `Fail`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure_policy: Option<FailurePolicy>,
    /// The kind that holds the references.
    pub dependent: Dependent,
    /// What it refers to, one entry a field.
    #[serde(default)]
    pub dependencies: Vec<Dependency>,
}

/// What happens when a rule can't be evaluated, or the webhook can't be reached.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[expect(clippy::exhaustive_enums, reason = "Kubernetes' own two")]
pub enum FailurePolicy {
    /// The deletion is refused.
    #[default]
    Fail,
    /// The deletion goes on, as far as this rule is concerned.
    Ignore,
}

/// The kind that holds the references.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[expect(clippy::exhaustive_structs, reason = "what stands in the API: it grows with that, as docs/embedding.md says")]
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
    /// Only dependents with such labels count. Left out: all of them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub selector: Option<LabelSelector>,
}

/// A selection by labels, in the shape of `metav1.LabelSelector`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[expect(clippy::exhaustive_structs, reason = "what stands in the API: it grows with that, as docs/embedding.md says")]
pub struct LabelSelector {
    /// Labels that must have these values.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub match_labels: Option<BTreeMap<String, String>>,
    /// Requirements that must all hold.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub match_expressions: Option<Vec<LabelSelectorRequirement>>,
}

/// What one label must or must not be.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(clippy::exhaustive_structs, reason = "what stands in the API: it grows with that, as docs/embedding.md says")]
pub struct LabelSelectorRequirement {
    /// The label.
    pub key: String,
    /// How its value and `values` must relate.
    pub operator: LabelSelectorOperator,
    /// At least one for `In` and `NotIn`, none for the others.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub values: Option<Vec<String>>,
}

/// How a label's value and those of a requirement must relate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[expect(clippy::exhaustive_enums, reason = "Kubernetes' own four")]
pub enum LabelSelectorOperator {
    /// The label is one of the values.
    In,
    /// The label is none of the values, or is not there.
    NotIn,
    /// The label is there.
    Exists,
    /// The label is not there.
    DoesNotExist,
}

/// One field of the dependent, and the kind that it refers to.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[expect(clippy::exhaustive_structs, reason = "what stands in the API: it grows with that, as docs/embedding.md says")]
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
    /// The kind, for messages; needed where `fieldRef.kindPath` is set.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kind: Option<String>,
    /// Where the dependent names the target. Either this or `selectorRef`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub field_ref: Option<FieldRef>,
    /// Where the dependent selects the target by labels.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub selector_ref: Option<SelectorRef>,
    /// The reference counts only then. Left out: always.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub when: Option<When>,
    /// What happens when a target is to be deleted that is still referenced. Left out: `Deny`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub on_delete: Option<OnDelete>,
    /// Whether a dependent that the target owns counts. Left out: `Block`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub owned_dependents: Option<OwnedDependents>,
    /// What is said besides: to whoever deletes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
}

/// An APIExport in a workspace.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(clippy::exhaustive_structs, reason = "what stands in the API: it grows with that, as docs/embedding.md says")]
pub struct ExportRef {
    /// The provider's workspace path.
    pub path: String,
    /// The APIExport's name.
    pub name: String,
}

/// A field of the dependent, and what else of the dependent says which target it means.
///
/// The other paths go along with `path`: where they share `[*]` with it, they are read in the same element of the list
/// or value of the map. A value that is not there counts as if it said the target.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[expect(clippy::exhaustive_structs, reason = "what stands in the API: it grows with that, as docs/embedding.md says")]
pub struct FieldRef {
    /// The field that holds the target's name, or a list of names: `.spec.vpcRef.name`.
    pub path: String,
    /// The field that holds the target's namespace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace_path: Option<String>,
    /// The namespace that all targets are in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// The namespace is what the first group of this RE2 expression matches in the value at `namespacePath`, or at
    /// `path` where that is left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace_pattern: Option<String>,
    /// The field that holds the target's group.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub group_path: Option<String>,
    /// The field that holds the target's kind.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kind_path: Option<String>,
    /// The field that holds the target's group and version: `network.example.com/v1`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub api_version_path: Option<String>,
    /// The field that holds the target's UID.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub uid_path: Option<String>,
    /// The names are the keys of the map at `path`.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub keys: bool,
    /// An RE2 expression. A value that it doesn't match is no reference.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pattern: Option<String>,
    /// The name, made of what `pattern` matched: `$1`. Left out: the first group, or the whole match.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replacement: Option<String>,
}

/// Targets that are selected by their labels. Exactly one of the two.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(clippy::exhaustive_structs, reason = "what stands in the API: it grows with that, as docs/embedding.md says")]
pub struct SelectorRef {
    /// The dependent's field that holds a LabelSelector, or a map of labels.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// The selector itself, the same for every dependent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub selector: Option<LabelSelector>,
}

/// A condition on a field of the dependent.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(clippy::exhaustive_structs, reason = "what stands in the API: it grows with that, as docs/embedding.md says")]
pub struct When {
    /// The field.
    pub path: String,
    /// The values that it may have.
    pub r#in: Vec<String>,
}

/// What happens when a target is to be deleted that is still referenced.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[expect(
    clippy::exhaustive_enums,
    reason = "depguard's other crates decide by each case: none shall pass them by unseen"
)]
pub enum OnDelete {
    /// The deletion is refused.
    #[default]
    Deny,
    /// Whoever deletes is warned.
    Warn,
    /// The deletion is recorded.
    Audit,
}

/// Whether a dependent counts that the target owns by an ownerReference.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[expect(
    clippy::exhaustive_enums,
    reason = "depguard's other crates decide by each case: none shall pass them by unseen"
)]
pub enum OwnedDependents {
    /// As any other does.
    #[default]
    Block,
    /// It doesn't: it goes when the target goes.
    Ignore,
}

/// What the controller made of a rule.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[expect(clippy::exhaustive_structs, reason = "what stands in the API: it grows with that, as docs/embedding.md says")]
pub struct DependencyRuleStatus {
    /// The generation that the status speaks of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// The resources of the targets, for a column.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub summary: Option<String>,
    /// `Accepted`, `ResolvedRefs`, `Programmed`, `Enforced`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
    /// Where each dependency was found.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub targets: Vec<TargetStatus>,
}

/// A condition, in the shape of `metav1.Condition`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[expect(clippy::exhaustive_structs, reason = "what stands in the API: it grows with that, as docs/embedding.md says")]
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
#[expect(clippy::exhaustive_structs, reason = "what stands in the API: it grows with that, as docs/embedding.md says")]
pub struct TargetStatus {
    /// The index in `spec.dependencies`.
    pub dependency: u32,
    /// The provider's workspace path.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workspace: Option<String>,
    /// The provider's logical cluster.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub logical_cluster: Option<String>,
    /// How dependents are searched for references to it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lookup: Option<Strategy>,
    /// What to add to the dependents' schema to make that cheaper.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
}

/// How dependents are searched, from cheap to dear.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[expect(
    clippy::exhaustive_enums,
    reason = "depguard's other crates decide by each case: none shall pass them by unseen"
)]
pub enum Strategy {
    /// The API server is asked for those that name the target.
    FieldSelector,
    /// A table of one column of all of them is read.
    Table,
    /// The metadata of all of them is read.
    Metadata,
    /// All of one namespace are read.
    NamespaceScan,
    /// All of them are read.
    ClusterScan,
}

impl Strategy {
    /// One word of a closed set, fit for a metric's label.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::FieldSelector => "FieldSelector",
            Self::Table => "Table",
            Self::Metadata => "Metadata",
            Self::NamespaceScan => "NamespaceScan",
            Self::ClusterScan => "ClusterScan",
        }
    }
}

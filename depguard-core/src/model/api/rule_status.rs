//! The wire types of a rule's status: the controller's result.

use serde::{Deserialize, Serialize};

/// The controller's result for the rule.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
#[expect(clippy::exhaustive_structs, reason = "wire type: it grows with the API, as docs/embedding.md says")]
pub struct DependencyRuleStatus {
    /// The generation that the status speaks of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// The resources of the targets, for a column.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub summary: Option<String>,
    /// The conditions `Accepted`, `ResolvedRefs`, `Programmed`, `Enforced` and, if a dependency has an `onMissing` other
    /// than `Ignore`, `TargetsExist`.
    #[cfg_attr(feature = "schemars", schemars(
        extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]),
    ))]
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
    /// The place where each dependency was found, and the way in which its dependents are looked for.
    #[cfg_attr(feature = "schemars", schemars(
        extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["dependency"]),
    ))]
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub targets: Vec<TargetStatus>,
    /// The references to targets that do not exist, of the dependencies with an `onMissing` other than `Ignore`. Absent
    /// while their number is unknown; then the condition `TargetsExist` says why.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dangling_references: Option<DanglingReferences>,
}

/// The references of a rule's dependents to targets that do not exist.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
#[expect(clippy::exhaustive_structs, reason = "wire type: it grows with the API, as docs/embedding.md says")]
pub struct DanglingReferences {
    /// The number of these references.
    #[cfg_attr(feature = "schemars", schemars(range(min = 0)))]
    pub count: i64,
    /// The first few of them, by the namespace and name of the dependent.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub first: Vec<DanglingReference>,
}

/// A reference to a target that does not exist.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
#[expect(clippy::exhaustive_structs, reason = "wire type: it grows with the API, as docs/embedding.md says")]
pub struct DanglingReference {
    /// The dependent's namespace, if the dependent is in one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// The dependent's name.
    pub name: String,
    /// The dependent's field that names the target; empty if the rule itself names the target.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub field: String,
    /// The target that does not exist.
    pub target: MissingObject,
}

/// A target that does not exist.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
#[expect(clippy::exhaustive_structs, reason = "wire type: it grows with the API, as docs/embedding.md says")]
pub struct MissingObject {
    /// The resource with its group: `vpcs.network.example.com`.
    pub resource: String,
    /// The namespace in which a target would count, if the target's kind has namespaces. Absent: any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// The name.
    pub name: String,
    /// The UID that the target would need, if the dependent names one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub uid: Option<String>,
}

/// A condition, in the shape of `metav1.Condition`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
#[expect(clippy::exhaustive_structs, reason = "wire type: it grows with the API, as docs/embedding.md says")]
pub struct Condition {
    /// The condition's type.
    #[cfg_attr(feature = "schemars", schemars(length(max = 316)))]
    #[serde(rename = "type")]
    pub type_: String,
    /// The status: `True`, `False` or `Unknown`.
    #[cfg_attr(feature = "schemars", schemars(extend("enum" = ["True", "False", "Unknown"])))]
    pub status: String,
    /// The generation to which the condition applies.
    #[cfg_attr(feature = "schemars", schemars(range(min = 0)))]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// The time of the last change of `status`, in RFC 3339.
    #[cfg_attr(feature = "schemars", schemars(extend("format" = "date-time")))]
    pub last_transition_time: String,
    /// The reason: one word in camel case.
    #[cfg_attr(
        feature = "schemars",
        schemars(length(min = 1, max = 1024), pattern("^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$"),)
    )]
    pub reason: String,
    /// The message, for people.
    #[cfg_attr(feature = "schemars", schemars(length(max = 32768)))]
    pub message: String,
}

/// The place where a dependency was found.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
#[expect(clippy::exhaustive_structs, reason = "wire type: it grows with the API, as docs/embedding.md says")]
pub struct TargetStatus {
    /// The index in `spec.dependencies`.
    #[cfg_attr(feature = "schemars", schemars(with = "i32"))]
    pub dependency: u32,
    /// The provider's workspace path.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workspace: Option<String>,
    /// The provider's logical cluster.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub logical_cluster: Option<String>,
    /// The cheapest way to find the dependents that their schema allows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lookup: Option<Strategy>,
    /// The addition to the dependents' schema that would make the lookup cheaper.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
}

/// Strategies for finding dependents, from cheap to expensive.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
#[expect(
    clippy::exhaustive_enums,
    reason = "depguard's other crates handle each variant, so that a new one must not compile unnoticed"
)]
pub enum Strategy {
    /// The API server returns only the dependents that name the target.
    FieldSelector,
    /// The printed columns of all dependents are read, as a table.
    Table,
    /// The metadata of all dependents is read.
    Metadata,
    /// All dependents of one namespace are read.
    NamespaceScan,
    /// All dependents are read.
    ClusterScan,
}

impl Strategy {
    /// Returns the strategy as one word of a closed set, so that it can be a metric's label.
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

//! The wire types of `dependencies.opendefense.cloud/v1alpha1`, as users write them and API servers store them.
//! The types hold whatever the user wrote; [`Rule::parse`](crate::Rule::parse) checks it. An unknown field is an
//! error and is not ignored: a narrower rule that is read as a wider one, or the reverse, would lead to wrong
//! decisions.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

#[cfg(feature = "schemars")]
use crate::model::{name_pattern::Pattern, schema};

mod rule_status;
mod scalar;

pub use self::scalar::Scalar;

pub use self::rule_status::{
    Condition, DanglingReference, DanglingReferences, DependencyRuleStatus, MissingObject, Strategy, TargetStatus,
};

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
/// The annotation on a target that lifts its protection for users whom the operator has allowed to do so.
pub const SKIP_ANNOTATION: &str = "dependencies.opendefense.cloud/skip-protection";

/// The annotation on an APIExport that names the workspaces whose rules may protect the exported kinds: workspace
/// paths, separated by commas.
pub const ACCEPT_ANNOTATION: &str = "dependencies.opendefense.cloud/accept-rules-from";
/// The annotation by which a rule says which fields of its dependents it leaves out, one a line: the path, and behind a colon
/// the reason. Nobody then reports these fields as ones without a rule.
pub const LEFT_OUT_ANNOTATION: &str = "dependencies.opendefense.cloud/left-out";

/// Foreign key: kind A refers to kind B through a field.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[expect(clippy::exhaustive_structs, reason = "wire type: it grows with the API, as docs/embedding.md says")]
pub struct DependencyRule {
    /// `dependencies.opendefense.cloud/v1alpha1`.
    #[serde(default)]
    pub api_version: String,
    /// `DependencyRule`.
    #[serde(default)]
    pub kind: String,
    /// The part of the metadata that depguard needs.
    #[serde(default)]
    pub metadata: ObjectMeta,
    /// The rule as the user wrote it.
    pub spec: DependencyRuleSpec,
    /// The controller's result.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<DependencyRuleStatus>,
}

/// The part of an object's metadata that depguard reads.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[expect(clippy::exhaustive_structs, reason = "wire type: it grows with the API, as docs/embedding.md says")]
pub struct ObjectMeta {
    /// The object's name.
    #[serde(default)]
    pub name: String,
    /// Annotations; in kcp one of them names the logical cluster.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub annotations: BTreeMap<String, String>,
}

/// One kind of dependent and what it refers to.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
// A rule without `dependencies` is still read, so that the error can say what to write.
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "schemars", schemars(extend("required" = ["dependent", "dependencies"])))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[expect(clippy::exhaustive_structs, reason = "wire type: it grows with the API, as docs/embedding.md says")]
pub struct DependencyRuleSpec {
    /// The outcome of a deletion if this rule can't be evaluated, or depguard can't be reached. Left out: `Fail`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure_policy: Option<FailurePolicy>,
    /// The kind that holds the references.
    pub dependent: Dependent,
    /// The references of the dependent, one entry a field.
    // Without a bound, an API server would find the checks of each entry too expensive.
    #[cfg_attr(feature = "schemars", schemars(length(max = 1000)))]
    #[serde(default)]
    pub dependencies: Vec<Dependency>,
}

/// The outcome if a rule can't be evaluated, or if the webhook can't be reached.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
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
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema), schemars(extend("x-kubernetes-validations" = [
    {"rule": "!has(self.apiExportRef)",
     "message": "apiExportRef was replaced: write the export's name in apiExportName (it stands in the rule's own \
        workspace, so it has no path)"},
    {"rule": "!has(self.apiExportName) || self.group != ''",
     "message": "the core group is always local: name a group or leave apiExportName out"},
])))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[expect(clippy::exhaustive_structs, reason = "wire type: it grows with the API, as docs/embedding.md says")]
pub struct Dependent {
    /// The APIExport, in this rule's own workspace, that serves the kind. Left out: a kind of this workspace or cluster
    /// itself.
    #[cfg_attr(feature = "schemars", schemars(with = "schema::ExportName"))]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub api_export_name: Option<String>,
    /// The field that older rules had instead of `apiExportName`; no longer accepted.
    // It is read so that the error can say what to write. It is in the schema so that it is not pruned, and a rule of
    // the older form is refused and never taken for a local one.
    #[cfg_attr(feature = "schemars", schemars(schema_with = "schema::old_export_ref"))]
    #[serde(default, skip_serializing)]
    pub api_export_ref: Option<ExportRef>,
    /// The API group; empty for the core group.
    #[cfg_attr(feature = "schemars", schemars(with = "schema::Group"))]
    pub group: String,
    /// The version in which dependents are read.
    #[cfg_attr(feature = "schemars", schemars(with = "schema::Version"))]
    pub version: String,
    /// The kind, for messages.
    #[cfg_attr(feature = "schemars", schemars(with = "schema::Kind"))]
    pub kind: String,
    /// The resource, plural.
    #[cfg_attr(feature = "schemars", schemars(with = "schema::Resource"))]
    pub resource: String,
    /// Only dependents with these labels count. Left out, or empty: all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub selector: Option<LabelSelector>,
}

/// A selection by labels, in the shape of `metav1.LabelSelector`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema), schemars(extend("x-kubernetes-map-type" = "atomic")))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[expect(clippy::exhaustive_structs, reason = "wire type: it grows with the API, as docs/embedding.md says")]
pub struct LabelSelector {
    /// Labels, all of which must be there.
    #[cfg_attr(feature = "schemars", schemars(
        with = "BTreeMap<String, schema::LabelValue>",
        extend("maxProperties" = 64),
        extend("x-kubernetes-validations" = [{
            "rule": format!("self.all(key, size(key) <= 317 && key.matches('{}'))", schema::LABEL_KEY),
            "message": "not a label's key, such as tier or example.com/tier",
        }]),
    ))]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub match_labels: Option<BTreeMap<String, String>>,
    /// Requirements, all of which must hold.
    #[cfg_attr(feature = "schemars", schemars(length(max = 64)))]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub match_expressions: Option<Vec<LabelSelectorRequirement>>,
}

/// Requirement on the value of one label.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema), schemars(extend("x-kubernetes-validations" = [{
    "rule": "(self.operator in ['In', 'NotIn']) == (has(self.values) && size(self.values) > 0)",
    "message": "In and NotIn need values, Exists and DoesNotExist take none",
}])))]
#[serde(deny_unknown_fields)]
#[expect(clippy::exhaustive_structs, reason = "wire type: it grows with the API, as docs/embedding.md says")]
pub struct LabelSelectorRequirement {
    /// The label.
    #[cfg_attr(feature = "schemars", schemars(length(min = 1, max = 317), pattern(schema::LABEL_KEY)))]
    pub key: String,
    /// The relation that must hold between the label's value and the listed values.
    pub operator: LabelSelectorOperator,
    /// The values: at least one for `In` and `NotIn`, none for the other operators.
    #[cfg_attr(feature = "schemars", schemars(with = "Vec<schema::LabelValue>", length(max = 64)))]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub values: Option<Vec<String>>,
}

/// Relation between a label's value and the values of a requirement.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
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

/// One reference that the dependent holds, and the kind that it refers to.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema), schemars(extend("x-kubernetes-validations" = [
    {"rule": "has(self.fieldRef) != has(self.selectorRef)", "message": "write exactly one of fieldRef and selectorRef"},
    {"rule": "!has(self.fieldRef) || !(has(self.fieldRef.kindPath) || has(self.fieldRef.kindPattern)) || has(self.kind)",
     "message": "fieldRef.kindPath and fieldRef.kindPattern need kind: which value of that field means this target"},
    {"rule": "!has(self.apiExportRef) || self.group != ''",
     "message": "the core group is always local: name a group or leave apiExportRef out"},
    {"rule": "!has(self.selectorRef) || !has(self.onMissing) || self.onMissing == 'Ignore'",
     "message": "a selector may select nothing: leave onMissing out, or write fieldRef"},
    {"rule": "!has(self.optional) || !self.optional || !has(self.onMissing) || self.onMissing == 'Ignore'",
     "message": "an optional reference may point to nothing: leave onMissing or optional out"},
    {"rule": "!has(self.excludeNames) || !has(self.fieldRef) || !has(self.fieldRef.value)",
     "message": "fieldRef.value is the one name that counts: leave excludeNames out"},
])))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[expect(clippy::exhaustive_structs, reason = "wire type: it grows with the API, as docs/embedding.md says")]
pub struct Dependency {
    /// The APIExport that serves the target. Left out: a kind of this workspace or cluster itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub api_export_ref: Option<ExportRef>,
    /// The API group; empty for the core group.
    #[cfg_attr(feature = "schemars", schemars(with = "schema::Group"))]
    pub group: String,
    /// A served version; the target is protected in all of them.
    #[cfg_attr(feature = "schemars", schemars(with = "schema::Version"))]
    pub version: String,
    /// The resource, plural.
    #[cfg_attr(feature = "schemars", schemars(with = "schema::Resource"))]
    pub resource: String,
    /// The kind, for messages; needed if `fieldRef.kindPath` or `fieldRef.kindPattern` is set.
    #[cfg_attr(feature = "schemars", schemars(with = "schema::Kind"))]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kind: Option<String>,
    /// The field of the dependent that names the target. Either this or `selectorRef`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub field_ref: Option<FieldRef>,
    /// A label selector that the dependent holds, or the rule for all of them: it refers to every target with these
    /// labels, in its own namespace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub selector_ref: Option<SelectorRef>,
    /// The reference counts only where fields of the dependent have some values, or don't have them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub when: Option<When>,
    /// The reference may point to nothing: then nobody reports it as dangling. Can't be combined with `onMissing`.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub optional: bool,
    /// Names of targets to which no reference counts, such as those of objects that every namespace has. Can't be combined
    /// with `fieldRef.value`.
    // In a list within a list, an API server finds the names' checks too expensive.
    #[cfg_attr(feature = "schemars", schemars(
        with = "Vec<schema::ObjectName>", length(min = 1, max = 32), transform = schema::without_cel_rules,
    ))]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exclude_names: Option<Vec<String>>,
    /// The outcome of the deletion of a target that is still referred to. Left out: `Deny`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub on_delete: Option<OnDelete>,
    /// Treatment of a dependent that the target itself owns, by its ownerReferences. Left out: `Block`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub owned_dependents: Option<OwnedDependents>,
    /// The outcome of a creation or a change of a dependent whose target is not there. Left out: `Ignore`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub on_missing: Option<OnMissing>,
    /// Text that is added to the answer for the user who deletes. `{target}`, `{blockers}` and `{rule}` are replaced by
    /// their names; `{{` is a brace.
    #[cfg_attr(feature = "schemars", schemars(with = "schema::Message"))]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
}

/// An APIExport in a workspace.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
#[expect(clippy::exhaustive_structs, reason = "wire type: it grows with the API, as docs/embedding.md says")]
pub struct ExportRef {
    /// The provider's workspace path.
    #[cfg_attr(feature = "schemars", schemars(with = "schema::WorkspacePath"))]
    pub path: String,
    /// The APIExport's name.
    #[cfg_attr(feature = "schemars", schemars(with = "schema::ExportName"))]
    pub name: String,
}

/// A field of the dependent that names the target, and further fields that narrow the target down.
///
/// If another path shares `[*]` with `path`, both are read in the same element of the list or value of the map. If
/// the group, the kind, the version or the UID has no value, every target matches it, unless there is a `defaultKind`. If
/// the namespace has no value, the dependent's own namespace is meant.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema), schemars(extend("x-kubernetes-validations" = [
    {"rule": "!has(self.__namespace__) || (!has(self.namespacePath) && !has(self.namespacePattern))",
     "message": "write namespace, or namespacePath and namespacePattern"},
    {"rule": "!has(self.replacement) || has(self.pattern)", "message": "replacement needs a pattern"},
    {"rule": "!has(self.defaultKind) || has(self.kindPath) || has(self.kindPattern)",
     "message": "defaultKind needs a kindPath or a kindPattern: write that of the kind that may be absent"},
    {"rule": "has(self.path) != has(self.value)", "message": "write exactly one of path and value"},
    {"rule": "!has(self.value) || !(has(self.split) || has(self.pattern) || (has(self.keys) && self.keys))",
     "message": "value can be combined only with namespace, namespacePath and namespacePattern"},
    {"rule": "!has(self.value) || !(has(self.groupPath) || has(self.groupPattern) || has(self.kindPath))",
     "message": "value can be combined only with namespace, namespacePath and namespacePattern"},
    {"rule": "!has(self.value) || !(has(self.kindPattern) || has(self.apiVersionPath) || has(self.uidPath))",
     "message": "value can be combined only with namespace, namespacePath and namespacePattern"},
    {"rule": "!has(self.value) || !has(self.namespacePattern) || has(self.namespacePath)",
     "message": "value with namespacePattern needs namespacePath, too"},
])))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[expect(clippy::exhaustive_structs, reason = "wire type: it grows with the API, as docs/embedding.md says")]
pub struct FieldRef {
    /// The path of the field: a string, or a list of strings. Such as `.spec.vpcRef.name` or
    /// `.spec.networks[*].vpcRef.name`; `.fromJSON()` goes on in the JSON that a string holds. Either this or `value`.
    #[cfg_attr(feature = "schemars", schemars(with = "schema::FieldPath"))]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// The name itself, if it is the same for all dependents: each dependent refers to the target of this name.
    #[cfg_attr(feature = "schemars", schemars(with = "schema::ObjectName"))]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value: Option<String>,
    /// The path of the target's namespace. Where it is absent, the dependent's own.
    #[cfg_attr(feature = "schemars", schemars(with = "schema::FieldPath"))]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace_path: Option<String>,
    /// The namespace that all targets are in.
    #[cfg_attr(feature = "schemars", schemars(with = "schema::Namespace"))]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// An RE2 expression, whose first group is the namespace: in the value at `namespacePath`, or at `path` where that
    /// is left out.
    #[cfg_attr(feature = "schemars", schemars(length(max = Pattern::MAX_LEN)))]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace_pattern: Option<String>,
    /// The separator of several names in one string, such as `,`. Each part of the string, without the spaces around
    /// the part, is read like a string of its own; an empty part is no reference.
    #[cfg_attr(feature = "schemars", schemars(with = "schema::Separator"))]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub split: Option<String>,
    /// The path of the target's API group; the reference counts only if it is this target's, or absent.
    #[cfg_attr(feature = "schemars", schemars(with = "schema::FieldPath"))]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub group_path: Option<String>,
    /// An RE2 expression, whose first group is the API group: in the value at `groupPath`, or at `path` where that is
    /// left out. A value that does not match names any group.
    #[cfg_attr(feature = "schemars", schemars(length(max = Pattern::MAX_LEN)))]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub group_pattern: Option<String>,
    /// The path of the target's kind, likewise.
    #[cfg_attr(feature = "schemars", schemars(with = "schema::FieldPath"))]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kind_path: Option<String>,
    /// An RE2 expression, whose first group is the kind, likewise.
    #[cfg_attr(feature = "schemars", schemars(length(max = Pattern::MAX_LEN)))]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kind_pattern: Option<String>,
    /// The kind that is meant where the kind is absent or empty; another value that can't be read is any kind. Left out: any.
    #[cfg_attr(feature = "schemars", schemars(with = "schema::Kind"))]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub default_kind: Option<String>,
    /// The path of the target's `apiVersion`, likewise; only its group is compared.
    #[cfg_attr(feature = "schemars", schemars(with = "schema::FieldPath"))]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub api_version_path: Option<String>,
    /// The path of the target's UID, likewise.
    #[cfg_attr(feature = "schemars", schemars(with = "schema::FieldPath"))]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub uid_path: Option<String>,
    /// The keys of the map at `path` are the names.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub keys: bool,
    /// An RE2 expression. A value that it does not match is no reference.
    #[cfg_attr(feature = "schemars", schemars(length(max = Pattern::MAX_LEN)))]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pattern: Option<String>,
    /// The name, made of the pattern's groups: `$1`, or `${name}`. Left out: the first group, or the whole match.
    #[cfg_attr(feature = "schemars", schemars(length(max = Pattern::MAX_LEN)))]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replacement: Option<String>,
}

/// Targets that are selected by their labels. Exactly one of `path` and `selector` is set.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema), schemars(extend("x-kubernetes-validations" = [
    {"rule": "has(self.path) != has(self.selector)", "message": "write exactly one of path and selector"},
    {"rule": "!has(self.narrowedBy) || has(self.path)", "message": "narrowedBy needs a path"},
    {"rule": "!has(self.narrowedBy) || !self.narrowedBy.exists(name, name in ['matchLabels', 'matchExpressions'])",
     "message": "matchLabels and matchExpressions are read themselves: leave them out of narrowedBy"},
])))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[expect(clippy::exhaustive_structs, reason = "wire type: it grows with the API, as docs/embedding.md says")]
pub struct SelectorRef {
    /// The path of a LabelSelector, or of a plain map of labels, such as `.spec.selector`.
    #[cfg_attr(feature = "schemars", schemars(with = "schema::FieldPath"))]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// Fields that the selectors at `path` may have beside `matchLabels` and `matchExpressions`, and that only narrow what
    /// is selected: the reference counts as if they were absent. Any other field makes the selection unclear.
    #[cfg_attr(feature = "schemars", schemars(length(min = 1, max = 16), inner(length(min = 1, max = 63))))]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub narrowed_by: Option<Vec<String>>,
    /// The selector itself, the same for every dependent.
    // In a list without bound, an API server would find the selector's checks too expensive.
    #[cfg_attr(feature = "schemars", schemars(transform = schema::without_cel_rules))]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub selector: Option<LabelSelector>,
}

/// A condition on a field of the dependent, and further ones that must hold, too. Exactly one of `in` and `notIn` is set.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[expect(clippy::exhaustive_structs, reason = "wire type: it grows with the API, as docs/embedding.md says")]
pub struct When {
    /// The path of the field, such as `.spec.state`.
    #[cfg_attr(feature = "schemars", schemars(with = "schema::FieldPath"))]
    pub path: String,
    /// The values that the field may have: strings, booleans and integers. A field that is absent, or of another type,
    /// has none of them.
    #[cfg_attr(feature = "schemars", schemars(length(min = 1, max = 64)))]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub r#in: Option<Vec<Scalar>>,
    /// The values that the field may not have. The reference also counts if the field is absent, or of another type.
    #[cfg_attr(feature = "schemars", schemars(length(min = 1, max = 64)))]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub not_in: Option<Vec<Scalar>>,
    /// Conditions that must hold as well.
    // In a list within a list, an API server finds the checks too expensive.
    #[cfg_attr(feature = "schemars", schemars(length(max = 4), transform = schema::without_cel_rules))]
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub and: Vec<FieldCondition>,
}

/// A further condition on a field of the dependent. Exactly one of `in` and `notIn` is set.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[expect(clippy::exhaustive_structs, reason = "wire type: it grows with the API, as docs/embedding.md says")]
pub struct FieldCondition {
    /// The path of the field.
    #[cfg_attr(feature = "schemars", schemars(with = "schema::FieldPath"))]
    pub path: String,
    /// The values that the field may have.
    #[cfg_attr(feature = "schemars", schemars(length(min = 1, max = 64)))]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub r#in: Option<Vec<Scalar>>,
    /// The values that the field may not have.
    #[cfg_attr(feature = "schemars", schemars(length(min = 1, max = 64)))]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub not_in: Option<Vec<Scalar>>,
}

/// The outcome of the deletion of a target that is still referred to.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
#[expect(
    clippy::exhaustive_enums,
    reason = "depguard's other crates handle each variant, so that a new one must not compile unnoticed"
)]
pub enum OnDelete {
    /// The deletion is refused.
    #[default]
    Deny,
    /// The deletion goes on, with a warning to the user who deletes.
    Warn,
    /// The deletion goes on, and is only recorded.
    Audit,
}

/// The outcome of a creation or a change by which a reference begins to count, if its target is not there. From weak to
/// strict.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
#[expect(
    clippy::exhaustive_enums,
    reason = "depguard's other crates handle each variant, so that a new one must not compile unnoticed"
)]
pub enum OnMissing {
    /// Nobody looks for the target.
    #[default]
    Ignore,
    /// The change goes on, and is only recorded.
    Audit,
    /// The change goes on, with a warning to the user who makes it.
    Warn,
    /// The change is refused.
    Deny,
}

/// Treatment of a dependent that the target owns by an ownerReference.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
#[expect(
    clippy::exhaustive_enums,
    reason = "depguard's other crates handle each variant, so that a new one must not compile unnoticed"
)]
pub enum OwnedDependents {
    /// The dependent counts like any other.
    #[default]
    Block,
    /// The dependent doesn't count: it goes when the target goes.
    Ignore,
}

//! Errors of rules, in words for their authors.

use crate::model::api;
use crate::model::field_path::PathError;
use crate::model::label_selector::SelectorError;
use crate::model::message_template::MessageError;
use crate::model::name_pattern::PatternError;
use crate::model::names::NameError;

/// The reason why a rule can't be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RuleError {
    /// An object that doesn't have the shape of a DependencyRule.
    #[error("not a DependencyRule that this version knows: {0}")]
    Shape(String),
    /// A required field that is not there, as in rules that are older than the field.
    #[error("{field} is missing: {advice}")]
    Missing {
        /// The field, as in `spec.dependent.resource`.
        field: String,
        /// The text to write.
        advice: String,
    },
    /// The form that older rules had.
    #[error(
        "spec.dependent.apiExportRef was replaced: write `apiExportName: {name}` instead (the export lies in the \
         rule's own workspace, so it has no path)"
    )]
    OldExportRef {
        /// The export that the rule named.
        name: String,
    },
    /// A name outside its grammar or limits.
    #[error("{field} {error}")]
    Name {
        /// The field, as in `spec.dependencies[0].group`.
        field: String,
        /// The error in the name.
        #[source]
        error: NameError,
    },
    /// A field path that can't be read.
    #[error("{field}: {error}")]
    Path {
        /// The field, as in `spec.dependencies[0].fieldRef.path`.
        field: String,
        /// The error in the path, and its offset.
        #[source]
        error: PathError,
    },
    /// A pattern or replacement that can't be used.
    #[error("{field} {error}")]
    Pattern {
        /// The field, as in `spec.dependencies[0].fieldRef.pattern`.
        field: String,
        /// The error in the pattern or replacement.
        #[source]
        error: PatternError,
    },
    /// Patterns that need too much memory together, while each of them is usable alone.
    #[error(
        "{field} is one pattern too many: the rule's patterns together take more than {most} KiB when compiled, so \
         simplify them or split the rule", most = most >> 10
    )]
    Patterns {
        /// The field at which the limit is exceeded, as in `spec.dependencies[40].fieldRef.pattern`.
        field: String,
        /// The most bytes that all of them may take.
        most: usize,
    },
    /// A label selector that an API server would refuse.
    #[error("{field}: {error}")]
    Selector {
        /// The field, as in `spec.dependent.selector`.
        field: String,
        /// The error in the selector.
        #[source]
        error: SelectorError,
    },
    /// A message that can't be read.
    #[error("{field} {error}")]
    Message {
        /// The field, as in `spec.dependencies[0].message`.
        field: String,
        /// The error in the message.
        #[source]
        error: MessageError,
    },
    /// Fields that exclude each other, or a field that is missing beside another.
    #[error("{field} {why}")]
    Combination {
        /// The field, as in `spec.dependencies[0].fieldRef.namespace`.
        field: String,
        /// The error, and the correction.
        why: String,
    },
    /// An export that serves the core group.
    #[error("{field} is empty: the core group is always local, so name a group or leave {export} out")]
    CoreGroupExported {
        /// The field with the empty group.
        field: String,
        /// The field that makes it an exported kind.
        export: &'static str,
    },
    /// Export fields on plain Kubernetes, which has no exports.
    #[error("{field} is set, but a plain Kubernetes cluster has no APIExports: leave it out")]
    ExportInKubernetes {
        /// The field that names an export.
        field: String,
    },
    /// More rules in the workspace than the operator allows, so that no rule there is read.
    #[error(
        "there are too many rules in its {place}: at most {objects} rules, and {memory} MiB of memory for all of them; \
         delete or shorten some, or ask the operator to raise --workspace-max-objects or --workspace-max-memory"
    )]
    Allowance {
        /// `workspace` or `cluster`.
        place: &'static str,
        /// The most rules.
        objects: usize,
        /// The most MiB of memory.
        memory: usize,
    },
    /// A rule that doesn't name its logical cluster.
    #[error(
        "the rule does not say its logical cluster: read it from a kcp, or set its annotation `{annotation}`",
        annotation = api::CLUSTER_ANNOTATION
    )]
    NoCluster,
}

impl RuleError {
    /// Returns the field to correct, as in `spec.dependencies[0].group`; `None`: the rule as a whole.
    pub fn field(&self) -> Option<&str> {
        match self {
            Self::Shape(_) | Self::Allowance { .. } | Self::NoCluster => None,
            Self::OldExportRef { .. } => Some("spec.dependent.apiExportRef"),
            Self::Name { field, .. }
            | Self::Path { field, .. }
            | Self::Pattern { field, .. }
            | Self::Patterns { field, .. }
            | Self::Selector { field, .. }
            | Self::Message { field, .. }
            | Self::Combination { field, .. }
            | Self::Missing { field, .. }
            | Self::CoreGroupExported { field, .. }
            | Self::ExportInKubernetes { field } => Some(field),
        }
    }
}

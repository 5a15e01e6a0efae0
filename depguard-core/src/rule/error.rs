//! Why a rule can't be used, in words for whoever wrote it.

use crate::api;
use crate::message::MessageError;
use crate::names::NameError;
use crate::path::PathError;
use crate::pattern::PatternError;
use crate::selector::SelectorError;

/// Why a rule can't be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RuleError {
    /// Not of the shape of a DependencyRule.
    #[error("not a DependencyRule that this version knows: {0}")]
    Shape(String),
    /// The form that older rules had.
    #[error(
        "spec.dependent.apiExportRef was replaced: write `apiExportName: {name}` instead (the export stands in the rule's own workspace, so it has no path)"
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
        /// What is wrong with it.
        #[source]
        error: NameError,
    },
    /// A field path that can't be read.
    #[error("{field}: {error}")]
    Path {
        /// The field, as in `spec.dependencies[0].fieldRef.path`.
        field: String,
        /// What is wrong with it, and where.
        #[source]
        error: PathError,
    },
    /// A pattern or replacement that can't be used.
    #[error("{field} {error}")]
    Pattern {
        /// The field, as in `spec.dependencies[0].fieldRef.pattern`.
        field: String,
        /// What is wrong with it.
        #[source]
        error: PatternError,
    },
    /// Patterns that need too much memory together, each of which may be used by itself.
    #[error(
        "{field} is one pattern too many: together they take more than {most} KiB when they are compiled, so write simpler \
         ones or split the rule", most = most >> 10
    )]
    Patterns {
        /// The field at which the bound is passed, as in `spec.dependencies[40].fieldRef.pattern`.
        field: String,
        /// The most bytes that all of them may take.
        most: usize,
    },
    /// A label selector that an API server would refuse.
    #[error("{field}: {error}")]
    Selector {
        /// The field, as in `spec.dependent.selector`.
        field: String,
        /// What is wrong with it.
        #[source]
        error: SelectorError,
    },
    /// A message that can't be read.
    #[error("{field} {error}")]
    Message {
        /// The field, as in `spec.dependencies[0].message`.
        field: String,
        /// What is wrong with it.
        #[source]
        error: MessageError,
    },
    /// Fields that don't go together, or one that is missing beside another.
    #[error("{field} {why}")]
    Combination {
        /// The field, as in `spec.dependencies[0].fieldRef.namespace`.
        field: String,
        /// What is wrong with it, and what to write.
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
    /// Export fields where there are no exports.
    #[error("{field} is set, but a plain Kubernetes cluster has no APIExports: leave it out")]
    ExportInKubernetes {
        /// The field that names an export.
        field: String,
    },
    /// More in its workspace than the operator allows, so that none of the rules there is read.
    #[error(
        "there is more than is allowed in its {place}: at most {objects} rules, and {memory} MiB of them as they are held in \
         memory; delete or shorten some, or have the operator raise --workspace-max-objects or --workspace-max-memory"
    )]
    Allowance {
        /// `workspace` or `cluster`.
        place: &'static str,
        /// The most rules.
        objects: usize,
        /// The most MiB of memory.
        memory: usize,
    },
    /// Nothing says which workspace the rule belongs to.
    #[error(
        "the rule does not say its logical cluster: read it from a kcp, or set its annotation `{annotation}`",
        annotation = api::CLUSTER_ANNOTATION
    )]
    NoCluster,
}

impl RuleError {
    /// The field that is to be corrected, as in `spec.dependencies[0].group`; `None`: the rule as a whole.
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
            | Self::CoreGroupExported { field, .. }
            | Self::ExportInKubernetes { field } => Some(field),
        }
    }
}

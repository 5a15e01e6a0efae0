//! Codes of findings. Each code keeps its meaning; docs/lint.md explains them.

use schemars::JsonSchema;
use serde::Serialize;

/// Severity of a finding, the worst first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, clap::ValueEnum, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Severity {
    /// The rule does not work as written
    Error,
    /// The rule works, but probably not as intended
    Warning,
    /// Worth knowing
    Info,
}

/// Code of a finding.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Code {
    UnknownField,
    WrongShape,
    InvalidRule,
    DuplicateName,
    NoDependency,
    NameOfAnother,
    PathNotFound,
    PathNotAName,
    PathUnchecked,
    KindUnchecked,
    SimilarField,
    NamespaceLeftOut,
    NamespaceWithoutEffect,
    UnclearSelector,
    OtherDefault,
    KindNotServed,
    VersionNotServed,
    WrongKindName,
    ExportNotFound,
    LocalTarget,
    KindUnreviewed,
    GroupNotDefined,
    AggregatedServer,
    DefinitionUnreadable,
    DefinitionTwice,
    Cycle,
    SelfReference,
    SameReference,
    LenientCycle,
    LenientFailure,
    SelectableField,
    DefinitionUnprotected,
}

impl Code {
    /// All codes, in the order of their numbers.
    #[cfg(test)]
    pub(crate) const ALL: [Self; 32] = [
        Self::UnknownField,
        Self::WrongShape,
        Self::InvalidRule,
        Self::DuplicateName,
        Self::NoDependency,
        Self::NameOfAnother,
        Self::PathNotFound,
        Self::PathNotAName,
        Self::PathUnchecked,
        Self::KindUnchecked,
        Self::SimilarField,
        Self::NamespaceLeftOut,
        Self::NamespaceWithoutEffect,
        Self::UnclearSelector,
        Self::OtherDefault,
        Self::KindNotServed,
        Self::VersionNotServed,
        Self::WrongKindName,
        Self::ExportNotFound,
        Self::LocalTarget,
        Self::KindUnreviewed,
        Self::GroupNotDefined,
        Self::AggregatedServer,
        Self::DefinitionUnreadable,
        Self::DefinitionTwice,
        Self::Cycle,
        Self::SelfReference,
        Self::SameReference,
        Self::LenientCycle,
        Self::LenientFailure,
        Self::SelectableField,
        Self::DefinitionUnprotected,
    ];

    /// Returns the code as it is printed.
    pub(crate) fn as_str(self) -> &'static str {
        self.about().0
    }

    /// Returns the severity of such findings.
    pub(crate) fn severity(self) -> Severity {
        self.about().1
    }

    /// Returns true for a rule that doesn't fit the definition of a kind, whatever decision follows. (Where only the version
    /// is not served, the decision says so.)
    pub(super) fn is_misfit(self) -> bool {
        matches!(self, Self::PathNotFound | Self::PathNotAName | Self::WrongKindName)
    }

    /// Returns a title in a few words.
    pub(crate) fn title(self) -> &'static str {
        self.about().2
    }

    fn about(self) -> (&'static str, Severity, &'static str) {
        use Severity::{Error, Info, Warning};
        match self {
            Self::UnknownField => ("DG001", Error, "unknown field"),
            Self::WrongShape => ("DG002", Error, "missing field or wrong type"),
            Self::InvalidRule => ("DG003", Error, "invalid rule"),
            Self::DuplicateName => ("DG004", Error, "duplicate name"),
            Self::NoDependency => ("DG005", Warning, "no dependency"),
            Self::NameOfAnother => ("DG006", Warning, "name of another rule"),
            Self::PathNotFound => ("DG101", Error, "path not in the schema"),
            Self::PathNotAName => ("DG102", Error, "path to no name"),
            Self::PathUnchecked => ("DG103", Info, "path not checked"),
            Self::KindUnchecked => ("DG104", Info, "kind not checked"),
            Self::SimilarField => ("DG105", Warning, "similar field without a rule"),
            Self::NamespaceLeftOut => ("DG106", Warning, "namespace left out"),
            Self::NamespaceWithoutEffect => ("DG107", Warning, "namespace without effect"),
            Self::UnclearSelector => ("DG108", Warning, "selector with other fields"),
            Self::OtherDefault => ("DG109", Error, "other default kind"),
            Self::KindNotServed => ("DG111", Error, "kind not served"),
            Self::VersionNotServed => ("DG112", Error, "version not served"),
            Self::WrongKindName => ("DG113", Error, "wrong kind name"),
            Self::ExportNotFound => ("DG114", Error, "export not found"),
            Self::LocalTarget => ("DG115", Warning, "target in the rule's workspace only"),
            Self::KindUnreviewed => ("DG116", Error, "kind never reviewed"),
            Self::GroupNotDefined => ("DG117", Warning, "group without definitions"),
            Self::AggregatedServer => ("DG118", Warning, "kind of an aggregated API server"),
            Self::DefinitionUnreadable => ("DG121", Error, "definition not readable"),
            Self::DefinitionTwice => ("DG122", Warning, "kind defined twice"),
            Self::Cycle => ("DG201", Warning, "cycle"),
            Self::SelfReference => ("DG202", Info, "reference to its own kind"),
            Self::SameReference => ("DG203", Warning, "same reference twice"),
            Self::LenientCycle => ("DG204", Warning, "cycle of required targets"),
            Self::LenientFailure => ("DG205", Info, "required target that may stay unknown"),
            Self::SelectableField => ("DG301", Info, "field could be selectable"),
            Self::DefinitionUnprotected => ("DG302", Info, "definition without a rule"),
        }
    }
}

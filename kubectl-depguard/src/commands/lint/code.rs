//! What can be found, by codes that keep their meaning. docs/lint.md explains each.

use serde::Serialize;

/// How bad a finding is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, clap::ValueEnum)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Severity {
    /// The rule does not do what it says
    Error,
    /// It works, but hardly as meant
    Warning,
    /// Worth knowing
    Info,
}

/// What was found.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Code {
    UnknownField,
    WrongShape,
    InvalidRule,
    DuplicateName,
    NoDependency,
    PathNotFound,
    PathNotAName,
    PathUnchecked,
    KindUnchecked,
    KindNotServed,
    VersionNotServed,
    WrongKindName,
    ExportNotFound,
    DefinitionUnreadable,
    DefinitionTwice,
    Cycle,
    SelfReference,
    SameReference,
    SelectableField,
}

impl Code {
    /// Every code, in the order of its numbers.
    #[cfg(test)]
    pub(crate) const ALL: [Self; 19] = [
        Self::UnknownField,
        Self::WrongShape,
        Self::InvalidRule,
        Self::DuplicateName,
        Self::NoDependency,
        Self::PathNotFound,
        Self::PathNotAName,
        Self::PathUnchecked,
        Self::KindUnchecked,
        Self::KindNotServed,
        Self::VersionNotServed,
        Self::WrongKindName,
        Self::ExportNotFound,
        Self::DefinitionUnreadable,
        Self::DefinitionTwice,
        Self::Cycle,
        Self::SelfReference,
        Self::SameReference,
        Self::SelectableField,
    ];

    /// As it is printed.
    pub(crate) fn as_str(self) -> &'static str {
        self.about().0
    }

    /// How bad it is.
    pub(crate) fn severity(self) -> Severity {
        self.about().1
    }

    /// What it is, in a few words.
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
            Self::PathNotFound => ("DG101", Error, "path not in the schema"),
            Self::PathNotAName => ("DG102", Error, "path to no name"),
            Self::PathUnchecked => ("DG103", Info, "path not checked"),
            Self::KindUnchecked => ("DG104", Info, "kind not checked"),
            Self::KindNotServed => ("DG111", Error, "kind not served"),
            Self::VersionNotServed => ("DG112", Error, "version not served"),
            Self::WrongKindName => ("DG113", Error, "wrong kind name"),
            Self::ExportNotFound => ("DG114", Error, "export not found"),
            Self::DefinitionUnreadable => ("DG121", Error, "definition not readable"),
            Self::DefinitionTwice => ("DG122", Warning, "kind defined twice"),
            Self::Cycle => ("DG201", Warning, "cycle"),
            Self::SelfReference => ("DG202", Info, "reference to its own kind"),
            Self::SameReference => ("DG203", Warning, "same reference twice"),
            Self::SelectableField => ("DG301", Info, "field could be selectable"),
        }
    }
}

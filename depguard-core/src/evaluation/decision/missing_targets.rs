//! Targets that are not there, and their text of readable length.

use std::fmt::{self, Display, Formatter, Write};

use super::referrers::{named, rules_text};
use crate::model::names::GroupResource;
use crate::protocol::cause::Cause;
use crate::protocol::problem::clipped;
use crate::rule::RuleKey;

/// Targets of an object's references that are not there.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct MissingTargets {
    /// The targets, each with a field that names it, in order.
    pub targets: Vec<MissingTarget>,
    /// The rules by which the object refers to them, in order.
    pub rules: Vec<RuleKey>,
}

/// A target that is not there.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub struct MissingTarget {
    /// The target's kind.
    pub kind: GroupResource,
    /// The target's namespace, if the reference means one that is not the object's own.
    pub namespace: Option<String>,
    /// The target's name, as it stands in the object: any text.
    pub name: String,
    /// The field that refers to the target: `spec.vpcRef.name`. Empty if the rule itself names the target.
    pub field: String,
    /// The reason for which the target counts as missing.
    pub reason: MissingReason,
    /// The rule of the reference.
    pub rule: RuleKey,
}

/// The reason for which a target counts as missing.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum MissingReason {
    /// There is no object of that name.
    NotFound,
    /// The object of that name is being deleted.
    Terminating,
    /// The object of that name has another UID than this one, which the reference names.
    OtherUid(String),
    /// The kind is not served.
    NoKind,
}

impl MissingTargets {
    pub(crate) fn new(mut targets: Vec<MissingTarget>) -> Self {
        targets.sort();
        targets.dedup();
        let mut rules: Vec<_> = targets.iter().map(|target| target.rule.clone()).collect();
        rules.sort();
        rules.dedup();
        Self { targets, rules }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.targets.is_empty()
    }

    /// Returns the targets with their reasons, and the rules if there are several.
    pub(super) fn text(&self) -> String {
        let shown: Vec<_> = self.named().iter().map(ToString::to_string).collect();
        let mut text = shown.join(", ");
        let more = self.targets.len().saturating_sub(shown.len());
        if more > 0 {
            // Writing to a string can't fail.
            let _ = write!(text, " and {more} more");
        }
        text.push_str(&rules_text(&self.rules));
        text
    }

    /// Returns the targets that the text names.
    pub(super) fn named(&self) -> &[MissingTarget] {
        named(&self.targets)
    }
}

impl MissingReason {
    /// Returns the cause of the refusal.
    pub(super) fn cause(&self) -> Cause {
        match self {
            Self::NotFound | Self::Terminating | Self::OtherUid(_) => Cause::RefNotFound,
            Self::NoKind => Cause::InvalidKind,
        }
    }
}

impl Display for MissingTarget {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let Self { kind, namespace, name, field, reason, rule } = self;
        write!(f, "{}/{}", kind.resource, shown(name))?;
        if let Some(namespace) = namespace {
            write!(f, " in namespace {}", shown(namespace))?;
        }
        match reason {
            MissingReason::NotFound => f.write_str(" not found")?,
            MissingReason::Terminating => f.write_str(" is being deleted")?,
            MissingReason::OtherUid(uid) => {
                write!(f, " with UID {} not found: the one of that name is another", shown(uid))?;
            }
            MissingReason::NoKind => write!(f, " not found: {kind} is not served here")?,
        }
        match field.as_str() {
            "" => write!(f, " (named by rule {rule})"),
            field => write!(f, " (.{field})"),
        }
    }
}

/// Returns a text of the object, such as the name of a target, in a form that fits into a message: a control character
/// would end a warning's header.
fn shown(text: &str) -> String {
    clipped(text).replace(char::is_control, "\u{fffd}")
}

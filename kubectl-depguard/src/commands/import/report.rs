//! What is to be said of an import besides the rules.

use serde::Serialize;

use super::written::Published;

/// All that is to be said.
#[derive(Debug, Default, Serialize)]
#[serde(transparent)]
pub(super) struct Report {
    pub(super) findings: Vec<Finding>,
}

/// What a rule says otherwise than the PublishedResource, or doesn't say.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Finding {
    pub(super) effect: Effect,
    pub(super) published_resource: String,
    pub(super) file: String,
    pub(super) line: usize,
    pub(super) field: String,
    pub(super) message: String,
}

/// What it comes to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) enum Effect {
    /// It is in no rule.
    Missing,
    /// It is in no rule, for no rule about it would be enforced.
    NotEnforceable,
    /// The rule refuses more deletions than was said.
    Wider,
    /// The rule doesn't refuse.
    Weaker,
    /// Something was taken for granted.
    Assumed,
    /// Nothing is to be protected.
    Nothing,
}

impl Report {
    pub(super) fn add(
        &mut self,
        published: &Published<'_>,
        effect: Effect,
        field: impl Into<String>,
        message: impl Into<String>,
    ) {
        let finding = Finding {
            effect,
            published_resource: published.name.to_owned(),
            file: published.origin.file.to_string(),
            line: published.origin.line,
            field: field.into(),
            message: message.into(),
        };
        // Two ways to say one reference say the same of it.
        let same = |other: &&Finding| (&other.file, other.line) == (&finding.file, finding.line);
        if !self.findings.iter().rev().take_while(same).any(|other| *other == finding) {
            self.findings.push(finding);
        }
    }

    /// Whether all that was said is in rules.
    pub(super) fn is_complete(&self) -> bool {
        !self.findings.iter().any(|finding| finding.effect <= Effect::NotEnforceable)
    }
}

impl Effect {
    pub(super) fn word(self) -> &'static str {
        match self {
            Self::Missing => "missing",
            Self::NotEnforceable => "not enforceable",
            Self::Wider => "wider",
            Self::Weaker => "weaker",
            Self::Assumed => "assumed",
            Self::Nothing => "nothing to protect",
        }
    }
}

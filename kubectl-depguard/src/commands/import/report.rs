//! Report of an import: everything that the rules don't show.

use schemars::JsonSchema;
use serde::Serialize;

use super::written::Published;
use crate::cluster::documents::{Document, Origin};

/// Findings of an import.
#[derive(Debug, Default, Serialize, JsonSchema)]
#[serde(transparent)]
#[schemars(rename = "ImportFindings")]
pub(super) struct Report {
    pub(super) findings: Vec<Finding>,
}

/// Difference between a rule and its PublishedResource.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "ImportFinding")]
pub(super) struct Finding {
    pub(super) effect: Effect,
    pub(super) published_resource: String,
    pub(super) file: String,
    pub(super) line: usize,
    pub(super) field: String,
    pub(super) message: String,
}

/// Effect of a difference.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(super) enum Effect {
    /// No rule contains the field.
    Missing,
    /// No rule contains the field, as no such rule would be enforced.
    NotEnforceable,
    /// The rule refuses more deletions than the PublishedResource asks for.
    Wider,
    /// The rule doesn't refuse deletions.
    Weaker,
    /// The import made an assumption.
    Assumed,
    /// There is nothing to protect.
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
        let (field, message) = (field.into(), message.into());
        let finding = Finding::new(effect, published.name, published.origin, field, message);
        // Two references for one locator have the same findings.
        let same = |other: &&Finding| (&other.file, other.line) == (&finding.file, finding.line);
        if !self.findings.iter().rev().take_while(same).any(|other| *other == finding) {
            self.findings.push(finding);
        }
    }

    /// Reports a document of kind PublishedResource that belongs to no known agent.
    pub(super) fn pass_over(&mut self, document: &Document) {
        let own = |pointer| document.value.pointer(pointer).and_then(serde_json::Value::as_str).unwrap_or_default();
        let message =
            format!("is `{}`, of an agent that depguard does not know: no rule contains it", own("/apiVersion"));
        let (name, field) = (own("/metadata/name"), "apiVersion".to_owned());
        self.findings.push(Finding::new(Effect::Missing, name, &document.origin, field, message));
    }

    /// Returns true if the rules contain everything that the PublishedResources say.
    pub(super) fn is_complete(&self) -> bool {
        !self.findings.iter().any(|finding| finding.effect <= Effect::NotEnforceable)
    }
}

impl Finding {
    fn new(effect: Effect, published_resource: &str, origin: &Origin, field: String, message: String) -> Self {
        Self {
            effect,
            published_resource: published_resource.to_owned(),
            file: origin.file.to_string(),
            line: origin.line,
            field,
            message,
        }
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

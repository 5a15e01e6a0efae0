//! Findings, and where each was found.

use schemars::JsonSchema;
use serde::Serialize;

use super::code::{Code, Severity};
use super::patches::Patch;
use super::subject::Subject;
use crate::cluster::documents::Origin;

/// Finding about one field of one object.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "LintFinding")]
pub(crate) struct Finding {
    #[serde(serialize_with = "as_str")]
    #[schemars(with = "String")]
    pub(crate) code: Code,
    pub(crate) severity: Severity,
    /// `None` if the finding is not about a file.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) file: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) line: Option<usize>,
    /// Column in characters, from 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) column: Option<usize>,
    /// Line of text, to show beside the message.
    #[serde(skip)]
    pub(crate) source: Option<String>,
    /// Object as kubectl names it: `dependencyrule/virtualmachines`.
    pub(crate) object: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(crate) field: String,
    pub(crate) message: String,
}

/// Result of linting.
#[derive(Debug, Default)]
pub(crate) struct Report {
    pub(crate) findings: Vec<Finding>,
    pub(crate) patches: Vec<Patch>,
    /// Number of findings beyond the limit, which are not kept.
    pub(crate) more: usize,
    /// Worst severity of the findings that are not kept.
    pub(crate) worst: Option<Severity>,
    pub(crate) rules: Vec<CheckedRule>,
}

/// Rule that was checked.
#[derive(Debug)]
pub(crate) struct CheckedRule {
    /// Rule as kubectl names it: `dependencyrule/virtualmachines`.
    pub(crate) object: String,
    /// `None` for a rule on an API server.
    pub(crate) origin: Option<Origin>,
}

impl CheckedRule {
    pub(super) fn from_subject(subject: &Subject) -> Self {
        Self { object: shown(subject), origin: subject.at("") }
    }
}

/// Names an object as kubectl does.
fn shown(subject: &Subject) -> String {
    format!("{}/{}", subject.kind().to_lowercase(), subject.name())
}

/// Limit on the findings that are kept.
const MAX_FINDINGS: usize = 10_000;

impl Report {
    /// Adds a finding about a field of an object.
    pub(super) fn push(&mut self, code: Code, subject: &Subject, field: impl Into<String>, message: String) {
        let field = field.into();
        if self.findings.len() >= MAX_FINDINGS {
            self.more = self.more.saturating_add(1);
            self.worst = Some(self.worst.map_or(code.severity(), |worst| worst.min(code.severity())));
            return;
        }
        let at = subject.at(&field);
        let (column, source) = subject.excerpt(&field).unzip();
        self.findings.push(Finding {
            code,
            severity: code.severity(),
            line: at.as_ref().map(|at| at.line),
            file: at.map(|at| at.file.to_string()),
            column,
            source,
            object: shown(subject),
            field,
            message,
        });
    }

    /// Sorts the findings by file and line, the worse ones first.
    pub(super) fn sort(&mut self) {
        self.findings.sort_by(|a, b| {
            let key = |finding: &Finding| (finding.file.is_none(), finding.file.clone(), finding.line);
            (key(a), a.severity, a.code).cmp(&(key(b), b.severity, b.code))
        });
        self.findings.dedup();
    }

    /// Returns true if any finding is at least that bad, even one that is not kept.
    pub(crate) fn has(&self, severity: Severity) -> bool {
        let held = self.findings.iter().map(|finding| finding.severity);
        held.chain(self.worst).any(|found| found <= severity)
    }

    /// Returns the number of kept findings of that severity.
    pub(crate) fn count(&self, severity: Severity) -> usize {
        self.findings.iter().filter(|finding| finding.severity == severity).count()
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde hands a reference")]
fn as_str<S: serde::Serializer>(code: &Code, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(code.as_str())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_finding_counts_also_where_no_more_are_held() {
        let (mut report, subject) =
            (Report::default(), Subject::stored(json!({"kind": "R", "metadata": {"name": "r"}})));
        for _ in 0..MAX_FINDINGS {
            report.push(Code::SelectableField, &subject, "", String::new());
        }
        assert!(report.has(Severity::Info) && !report.has(Severity::Error));
        report.push(Code::PathNotFound, &subject, "", String::new());
        report.push(Code::Cycle, &subject, "", String::new());
        assert!(report.has(Severity::Error) && report.more == 2);
    }
}

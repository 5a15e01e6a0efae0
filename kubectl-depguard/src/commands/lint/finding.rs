//! What was found, and where.

use serde::Serialize;

use super::code::{Code, Severity};
use super::patches::Patch;
use super::subject::Subject;

/// One finding.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Finding {
    #[serde(serialize_with = "as_str")]
    pub(crate) code: Code,
    pub(crate) severity: Severity,
    /// `None`: it is not about a file.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) file: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) line: Option<usize>,
    /// What it is about, as kubectl names it: `dependencyrule/virtualmachines`.
    pub(crate) object: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(crate) field: String,
    pub(crate) message: String,
}

/// All that was found.
#[derive(Debug, Default)]
pub(crate) struct Report {
    pub(crate) findings: Vec<Finding>,
    pub(crate) patches: Vec<Patch>,
    /// How many findings are more than are held.
    pub(crate) more: usize,
    pub(crate) rules: usize,
}

/// The findings that are held.
const MOST_FINDINGS: usize = 10_000;

impl Report {
    /// Adds a finding about a field of an object.
    pub(super) fn push(&mut self, code: Code, subject: &Subject, field: impl Into<String>, message: String) {
        let field = field.into();
        if self.findings.len() >= MOST_FINDINGS {
            self.more = self.more.saturating_add(1);
            return;
        }
        let at = subject.at(&field);
        self.findings.push(Finding {
            code,
            severity: code.severity(),
            line: at.as_ref().map(|at| at.line),
            file: at.map(|at| at.file.to_string()),
            object: format!("{}/{}", subject.kind().to_lowercase(), subject.name()),
            field,
            message,
        });
    }

    /// Puts the findings in the order of the files and lines, the worse first.
    pub(super) fn sort(&mut self) {
        self.findings.sort_by(|a, b| {
            let key = |finding: &Finding| (finding.file.is_none(), finding.file.clone(), finding.line);
            (key(a), a.severity, a.code).cmp(&(key(b), b.severity, b.code))
        });
        self.findings.dedup();
    }

    /// How many are that bad.
    pub(crate) fn count(&self, severity: Severity) -> usize {
        self.findings.iter().filter(|finding| finding.severity == severity).count()
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde hands a reference")]
fn as_str<S: serde::Serializer>(code: &Code, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(code.as_str())
}

//! Findings about a spec.

use super::SpecDecision;
use crate::protocol::cause::Cause;

/// Findings about a spec: errors, each with its field if it is one field's, and warnings.
#[derive(Debug, Default)]
pub(super) struct Findings {
    pub(super) errors: Vec<(String, Option<String>)>,
    pub(super) warnings: Vec<String>,
}

impl Findings {
    pub(super) fn decision(self, cause: Cause) -> SpecDecision {
        if self.errors.is_empty() {
            SpecDecision::Accepted(self.warnings)
        } else {
            SpecDecision::Refused(cause, self.errors)
        }
    }
}

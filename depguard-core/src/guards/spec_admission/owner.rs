//! Spec of a GlobalOwner, and the findings about it by the kinds that it names.

use serde_json::Value;

use super::SpecDecision;
use super::findings::Findings;
use super::kind_read::{KindRead, read_of, reads};
use crate::guards::owners::{self, Entry, SpecError};
use crate::protocol::cause::Cause;
use crate::schema::{self, KindState, Mismatch};

/// Reads the entries of a GlobalOwner; the error is the decision on one that can't be used.
pub(super) fn parse(object: &Value) -> Result<Vec<Entry>, SpecDecision> {
    owners::entries(object.get("spec").unwrap_or(&Value::Null)).map_err(|error| match error {
        // The schema lets no other shape in, so a newer version's owner comes before that version's webhook.
        SpecError::Shape { .. } => SpecDecision::Accepted(vec![error.to_string()]),
        error => {
            let field = Some(error.field().to_owned());
            SpecDecision::Refused(Cause::OwnerInvalid, vec![(error.to_string(), field)])
        }
    })
}

/// Returns the kinds to read.
pub(super) fn kinds(entries: &[Entry]) -> Vec<KindRead> {
    reads(entries.iter().map(|entry| (entry.resource.group_resource(), Some(entry.resource.version.clone()))))
}

pub(super) fn findings(entries: &[Entry], kinds: &[KindRead]) -> Findings {
    let unserved = entries.iter().enumerate().filter_map(|(index, entry)| {
        let seen = read_of(kinds, &entry.resource.group_resource(), Some(&entry.resource.version))?.state()?;
        let problem = schema::kind(Some(seen), &entry.resource, None, "").err()?;
        let versions = match (problem.what, seen) {
            (Mismatch::Unknown, _) => return None,
            (_, KindState::Facts(facts)) => format!(" in this version, but in {}", facts.served.join(", ")),
            _ => String::new(),
        };
        Some(format!(
            "spec.childResources[{index}]: the API server does not serve {}{versions}: correct apiVersion and resource (the \
             plural, in lower case), or install the kind",
            entry.resource
        ))
    });
    Findings { errors: Vec::new(), warnings: unserved.collect() }
}

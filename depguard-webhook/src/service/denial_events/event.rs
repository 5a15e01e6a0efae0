//! Event about one refusal.

use std::borrow::Cow;
use std::hash::Hash;

use depguard_core::Review;
use depguard_core::decision::{Denial, Reason};
use depguard_core::model::Namespace;
use depguard_core::protocol::Operation;
use k8s_openapi::jiff::Timestamp;
use serde::Deserialize;
use serde_json::{Value, json};

/// Name of the program in Events.
const REPORTER: &str = "dependencies.opendefense.cloud/depguard-webhook";
/// Namespace of Events about objects without a namespace.
const DEFAULT_NAMESPACE: &str = "default";
/// Maximum length of an Event's note, in bytes.
const MAX_NOTE: usize = 1024;

/// Event of the group `events.k8s.io`, without its time.
#[derive(Debug)]
pub(super) struct Event {
    /// Namespace in which the Event is written.
    pub(super) namespace: Namespace,
    regarding: Value,
    reason: &'static str,
    action: &'static str,
    note: String,
}

/// Parts of an AdmissionReview that only Events need.
#[derive(Deserialize)]
struct Envelope<'a> {
    #[serde(borrow)]
    request: Request<'a>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Request<'a> {
    #[serde(borrow)]
    kind: Kind<'a>,
    #[serde(borrow, default)]
    old_object: Option<Object<'a>>,
}

#[derive(Deserialize)]
struct Kind<'a> {
    #[serde(borrow, default)]
    group: Cow<'a, str>,
    #[serde(borrow)]
    version: Cow<'a, str>,
    #[serde(borrow)]
    kind: Cow<'a, str>,
}

#[derive(Deserialize)]
struct Object<'a> {
    #[serde(borrow)]
    metadata: Metadata<'a>,
}

#[derive(Deserialize)]
struct Metadata<'a> {
    #[serde(borrow, default)]
    uid: Option<Cow<'a, str>>,
}

impl Event {
    /// Returns the Event about a refusal; `None` if the refusal is to have none: nothing would have been stored, nothing
    /// refers to the object and no target is missing, or the review does not say which object it is.
    pub(super) fn new(review: &Review<'_>, bytes: &[u8], denial: &Denial) -> Option<Self> {
        let action = match (denial.reason(), review.operation()) {
            (Reason::Referenced { .. }, _) => "Delete",
            (Reason::MissingTargets { .. }, Operation::Create) => "Create",
            (Reason::MissingTargets { .. }, _) => "Update",
            _ => return None,
        };
        if review.dry_run() {
            return None;
        }
        let reason = denial.causes().first()?.word();
        let Envelope { request } = serde_json::from_slice(bytes).ok()?;
        let (api_version, kind) = match &request.kind {
            // The review of an eviction has the kind of the request, and the Event is about the Pod.
            Kind { group, kind, .. } if group == "policy" && kind == "Eviction" => ("v1".to_owned(), "Pod"),
            Kind { group, version, kind } if group.is_empty() => (version.to_string(), &**kind),
            Kind { group, version, kind } => (format!("{group}/{version}"), &**kind),
        };
        let own = review.namespace();
        let namespace = Namespace::parse(own.unwrap_or(DEFAULT_NAMESPACE)).ok()?;
        let mut regarding = json!({"apiVersion": api_version, "kind": kind, "name": review.name()?});
        let uid = request.old_object.and_then(|object| object.metadata.uid);
        for (field, value) in [("namespace", own), ("uid", uid.as_deref())] {
            if let (Some(value), Some(fields)) = (value, regarding.as_object_mut()) {
                fields.insert(field.to_owned(), value.into());
            }
        }
        Some(Self { namespace, regarding, reason, action, note: shortened(denial.message()) })
    }

    /// Returns the object and the action, by which repeated refusals are known.
    pub(super) fn object(&self) -> impl Hash + '_ {
        (self.regarding.to_string(), self.action)
    }

    /// Returns the path at which the Event is created.
    pub(super) fn collection(&self) -> String {
        format!("/apis/events.k8s.io/v1/namespaces/{}/events", self.namespace)
    }

    /// Returns the Event in JSON, as of now.
    pub(super) fn body(&self) -> Vec<u8> {
        let Self { namespace, regarding, reason, action, note } = self;
        let event = json!({
            "apiVersion": "events.k8s.io/v1",
            "kind": "Event",
            "metadata": {"generateName": "depguard-", "namespace": namespace},
            "eventTime": Timestamp::now().strftime("%Y-%m-%dT%H:%M:%S%.6fZ").to_string(),
            "type": "Warning",
            "reason": reason,
            "action": action,
            "regarding": regarding,
            "note": note,
            "reportingController": REPORTER,
            "reportingInstance": "depguard-webhook",
        });
        event.to_string().into_bytes()
    }
}

/// Returns the text within the bound of a note.
fn shortened(mut text: String) -> String {
    const MORE: &str = "…";
    if text.len() > MAX_NOTE {
        text.truncate(text.floor_char_boundary(MAX_NOTE.saturating_sub(MORE.len())));
        text.push_str(MORE);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_note_has_a_kib_at_most_and_ends_with_a_whole_character() {
        assert_eq!(shortened("short".to_owned()), "short");
        assert_eq!(shortened("a".repeat(1024)).len(), 1024);
        let cut = shortened("é".repeat(600));
        assert!(cut.len() <= 1024 && cut.len() > 1020 && cut.ends_with("é…"), "{}", cut.len());
    }
}

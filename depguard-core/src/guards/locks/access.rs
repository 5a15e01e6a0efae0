//! Access rights of requesters, according to the API server.

use serde::Deserialize;
use serde_json::{Map, json};

use super::lock::LockKind;
use crate::model::api;
use crate::model::names::Namespace;
use crate::protocol::admission_review::Requester;
use crate::protocol::problem::Unresolved;
use crate::protocol::response::Answer;
use crate::protocol::response_error::{object, something_else};
use crate::scan::text::Text;

/// Path to which SubjectAccessReviews are posted.
pub(super) const PATH: &str = "/apis/authorization.k8s.io/v1/subjectaccessreviews";
/// The verb that allows users to change or delete a lock that they don't hold.
pub(super) const UNLOCK: &str = "unlock";

/// Returns the SubjectAccessReview that asks if the requester may do `verb` with a lock.
pub(super) fn question(
    requester: &Requester<'_>,
    verb: &str,
    kind: LockKind,
    namespace: Option<&Namespace>,
    name: &str,
) -> Vec<u8> {
    let groups: Vec<_> = requester.groups().collect();
    let extra: Map<_, _> =
        requester.extras().map(|(key, values)| (key.to_owned(), values.iter().map(Text::as_str).collect())).collect();
    json!({
        "apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview",
        "spec": {
            "user": requester.username(), "groups": groups, "uid": requester.uid().unwrap_or_default(), "extra": extra,
            "resourceAttributes": {
                "verb": verb, "group": api::GROUP, "version": api::VERSION, "resource": kind.plural(),
                "namespace": namespace.map(Namespace::as_str).unwrap_or_default(), "name": name,
            },
        },
    })
    .to_string()
    .into_bytes()
}

/// Reads the answer: true if the requester is allowed. An error is the end of a sentence.
pub(super) fn read(answer: Answer<'_>) -> Result<bool, Unresolved> {
    #[derive(Deserialize)]
    struct Reviewed {
        status: Status,
    }
    #[derive(Deserialize)]
    struct Status {
        allowed: bool,
        #[serde(default)]
        denied: bool,
    }
    let body = object(answer, "create subjectaccessreviews of authorization.k8s.io")?;
    match body.and_then(|body| serde_json::from_slice(body).ok()) {
        Some(Reviewed { status }) => Ok(status.allowed && !status.denied),
        None => Err(something_else()),
    }
}

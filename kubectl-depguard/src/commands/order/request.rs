//! Deletion of one object: the request, and the meaning of the response.

use std::time::Duration;

use depguard_kcp::{ApiError, Endpoint, MetadataEvent, MetadataForm, RequestError};
use futures::Stream;
use serde_json::{Value, json};

use crate::cluster::kinds::KindInfo;
use crate::engine::reference_scan::Object;

/// Client that deletes, reads and watches objects.
#[derive(Debug, Clone)]
pub(super) struct Requests(Endpoint);

/// Meaning of the response to a deletion.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Answer {
    /// The object is being deleted, or is gone.
    Granted,
    /// The deletion is impossible at the moment; the same request may be sent again.
    Later(String),
    /// The deletion is refused.
    Refused(String),
}

/// State of an object on the API server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum ObjectState {
    /// No object has the name.
    Gone,
    /// The object is gone, and another object has its name: one with another UID.
    MadeAnew,
    There {
        finalizers: Vec<String>,
    },
    /// The object could not be read.
    Unknown(String),
}

/// Timeout of one request.
const REQUEST: Duration = Duration::from_secs(30);

impl ObjectState {
    /// Returns true if the object of the plan no longer exists.
    pub(super) fn is_gone(&self) -> bool {
        matches!(self, Self::Gone | Self::MadeAnew)
    }
}

impl Requests {
    pub(super) fn new(endpoint: &Endpoint) -> Self {
        Self(endpoint.within(REQUEST))
    }

    /// Deletes exactly the object of the plan. Objects that it owns are deleted in the background, as with kubectl.
    pub(super) async fn delete(&self, object: &Object) -> Answer {
        match self.send(object, false).await {
            // The precondition failed, or another change happened at the same moment.
            Answer::Later(_) if self.look(object).await.is_gone() => Answer::Granted,
            answer => answer,
        }
    }

    /// Sends the deletion as a dry run.
    pub(super) async fn try_out(&self, object: &Object) -> Answer {
        self.send(object, true).await
    }

    async fn send(&self, object: &Object, dry: bool) -> Answer {
        let Some(uid) = &object.referent.uid else {
            return Answer::Refused(
                "it has no UID, so depguard can't distinguish it from a later object of this name; delete it by hand"
                    .into(),
            );
        };
        let mut options = json!({
            "apiVersion": "v1", "kind": "DeleteOptions", "propagationPolicy": "Background", "preconditions": {"uid": uid},
        });
        let mut path = path_of(object);
        if let Some(options) = options.as_object_mut().filter(|_| dry) {
            options.insert("dryRun".to_owned(), json!(["All"]));
            path.push_str("?dryRun=All");
        }
        match self.0.delete_with(&path, &options).await {
            Ok(_) => Answer::Granted,
            Err(why) => answer_to(&why, object.name()),
        }
    }

    pub(super) async fn look(&self, object: &Object) -> ObjectState {
        match self.0.get_json(&path_of(object)).await {
            Ok(found) if found.pointer("/metadata/uid").and_then(Value::as_str) != object.referent.uid.as_deref() => {
                ObjectState::MadeAnew
            }
            Ok(found) => {
                let finalizers = found.pointer("/metadata/finalizers").and_then(Value::as_array);
                let finalizers = finalizers.into_iter().flatten().filter_map(|name| name.as_str().map(str::to_owned));
                ObjectState::There { finalizers: finalizers.collect() }
            }
            Err(why) if names(&why, object.name()) => ObjectState::Gone,
            Err(why) => ObjectState::Unknown(why.to_string()),
        }
    }

    /// Follows the metadata of objects of a kind, or of the only one of this name, as [`Endpoint::follow`] does.
    pub(super) fn watch(
        &self,
        kind: &KindInfo,
        namespace: Option<&str>,
        name: Option<&str>,
    ) -> impl Stream<Item = MetadataEvent> + use<> {
        let only = name.map(|name| format!("?fieldSelector=metadata.name%3D{name}"));
        self.0.follow(kind.path(namespace, None) + &only.unwrap_or_default(), MetadataForm)
    }
}

fn path_of(object: &Object) -> String {
    object.kind.path(object.namespace(), Some(object.name()))
}

/// Returns true if the error says that no object of that name exists. A 404 without the name is about the kind, or
/// about nothing: an API server answers so while it starts.
fn names(why: &ApiError, name: &str) -> bool {
    matches!(why, ApiError::Refused { status, .. } if status.code == 404 && status.name == name)
}

fn answer_to(why: &ApiError, name: &str) -> Answer {
    let status = match why {
        why if names(why, name) => return Answer::Granted,
        ApiError::Refused { status, .. } => status,
        ApiError::Request(RequestError::Path { .. }) => return Answer::Refused(why.to_string()),
        // The deletion may have happened: the UID keeps a second request from harming another object.
        _ => return Answer::Later(why.to_string()),
    };
    let told = if status.message.is_empty() { status.to_string() } else { status.message.clone() };
    // The webhook says "retry later" if it could not find out: rules are not loaded, or a list failed.
    let later = matches!(status.code, 404 | 409 | 429 | 500..=599) || status.message.contains("retry later");
    if later { Answer::Later(told) } else { Answer::Refused(told) }
}

#[cfg(test)]
mod tests {
    use depguard_kcp::Status;

    use super::*;

    #[test]
    fn what_passes_is_asked_again_and_a_no_is_a_no() {
        let answered = |code, message: &str, name: &str| {
            let (message, name) = (message.to_owned(), name.to_owned());
            let status = Status { code, reason: String::new(), message, name, causes: Vec::new() };
            answer_to(&ApiError::Refused { request: "DELETE /a".to_owned(), status }, "a")
        };
        let later = |message: &str| Answer::Later(message.to_owned());
        let refused = |message: &str| Answer::Refused(message.to_owned());
        for (code, message, name, answer) in [
            (404, "vpcs \"a\" not found", "a", Answer::Granted),
            (404, "404 page not found", "", later("404 page not found")),
            (409, "the UID in the precondition", "a", later("the UID in the precondition")),
            (429, "too many requests", "", later("too many requests")),
            (500, "failed calling webhook", "", later("failed calling webhook")),
            (403, "not yet initialized, retry later", "", later("not yet initialized, retry later")),
            (
                403,
                "cannot delete vpcs/a: still referenced by VM/m",
                "a",
                refused("cannot delete vpcs/a: still referenced by VM/m"),
            ),
            (401, "", "", refused("401 Unauthorized")),
        ] {
            assert_eq!(answered(code, message, name), answer, "{code} {message}");
        }
    }
}

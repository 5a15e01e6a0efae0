//! Execution of writes: nothing else writes for owners.

use std::collections::BTreeMap;

use depguard_core::GroupVersionResource;
use depguard_kcp::{ApiError, Endpoint, Metadata};
use futures::{StreamExt, stream};
use serde_json::Value;

use crate::owners::removal::WriteOutcome;
use crate::owners::write::{Request, Write};
use crate::runtime::round::MAX_CONCURRENT_WRITES;

/// Result of a write.
#[derive(Debug)]
pub(crate) struct WriteResult {
    /// UID of the GlobalOwner for which the write was done.
    pub(crate) owner: String,
    pub(crate) write: Write,
    pub(crate) came: WriteOutcome,
    /// Newer knowledge about an object.
    pub(crate) seen: Option<ObjectState>,
}

/// State of an object, as a write showed it.
#[derive(Debug)]
pub(crate) enum ObjectState {
    /// The object has this metadata now.
    Is(GroupVersionResource, Metadata),
    /// The object with this metadata is gone.
    Gone(GroupVersionResource, Metadata),
}

/// Carries out all writes, in any order. Each comes with the UID of the GlobalOwner that it is for.
pub(crate) async fn execute(endpoint: &Endpoint, writes: Vec<(String, Write)>) -> Vec<WriteResult> {
    let writes = stream::iter(writes).map(|(owner, write)| one(endpoint, owner, write));
    writes.buffer_unordered(MAX_CONCURRENT_WRITES).collect().await
}

/// Logs the results: a line for each group that has adopted or released objects, and one for each event.
pub(crate) fn log(done: &[WriteResult]) {
    let (mut adopted, mut released) = (BTreeMap::<_, usize>::new(), BTreeMap::<_, usize>::new());
    for WriteResult { write, came, .. } in done {
        let counts = match (write, came) {
            (Write::Event(event), _) => {
                log_event(event);
                continue;
            }
            (Write::Adopt { group, .. }, WriteOutcome::Done) => adopted.entry(group),
            (Write::Release { group, .. }, WriteOutcome::Done) => released.entry(group),
            _ => continue,
        };
        let count = counts.or_default();
        *count = count.saturating_add(1);
    }
    for (group, objects) in adopted {
        tracing::info!(group, objects, "adopted");
    }
    for (group, objects) in released {
        tracing::info!(group, objects, "released");
    }
}

fn log_event(event: &Value) {
    let text = |pointer: &str| event.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
    let (owner, reason, message) = (text("/involvedObject/name"), text("/reason"), text("/message"));
    match text("/type") {
        "Normal" => tracing::info!(owner, reason, "{message}"),
        _ => tracing::warn!(owner, reason, "{message}"),
    }
}

async fn one(endpoint: &Endpoint, owner: String, write: Write) -> WriteResult {
    let answer = match write.request() {
        Request::Create { path, body } => endpoint.post_json(&path, &body).await,
        Request::Replace { path, body } => endpoint.put_json(&path, &body).await,
        Request::Patch { path, body } => endpoint.json_patch(&path, &body).await,
        Request::Delete { path, body } => endpoint.delete_with(&path, &body).await,
    };
    let object = match &write {
        Write::Adopt { resource, object, .. }
        | Write::Release { resource, object, .. }
        | Write::DeleteObject { resource, object } => Some((resource.clone(), object.metadata.clone())),
        _ => None,
    };
    let (came, seen) = match (answer, object) {
        // The answer to a deletion is a mere Status if nothing kept the object.
        (Ok(answer), Some((resource, known))) => match is_now(resource.clone(), &answer) {
            None if matches!(write, Write::DeleteObject { .. }) => {
                (WriteOutcome::Done, Some(ObjectState::Gone(resource, known)))
            }
            seen => (WriteOutcome::Done, seen),
        },
        (Ok(_), None) => (WriteOutcome::Done, None),
        (Err(error), Some((resource, metadata))) => failed(endpoint, &error, resource, metadata).await,
        // A moment ago there was none: somebody else's object has this name.
        (Err(error), None) if matches!(write, Write::CreateGroup(_) | Write::CreateRole(_)) => {
            (WriteOutcome::Refused(error.to_string()), None)
        }
        (Err(error), None) if error.is_conflict() || error.is_not_found() => (WriteOutcome::Done, None),
        (Err(error), None) => (WriteOutcome::Refused(error.to_string()), None),
    };
    if let WriteOutcome::Refused(why) = &came {
        tracing::debug!(what = write.key(), "a write failed: {why}");
    }
    WriteResult { owner, write, came, seen }
}

/// Returns the result of a failed write of an object. If the object may have changed since it was seen, it is read
/// again: a refusal counts only if the object is unchanged.
async fn failed(
    endpoint: &Endpoint,
    error: &ApiError,
    resource: GroupVersionResource,
    known: Metadata,
) -> (WriteOutcome, Option<ObjectState>) {
    if error.is_not_found() {
        return (WriteOutcome::Done, Some(ObjectState::Gone(resource, known)));
    }
    if !matches!(error.status(), Some(409 | 422)) {
        return (WriteOutcome::Refused(error.to_string()), None);
    }
    match endpoint.get_json(&known.path(&resource)).await {
        Ok(object) => {
            let seen = is_now(resource, &object);
            match &seen {
                Some(ObjectState::Is(_, now)) if now.resource_version != known.resource_version => {
                    (WriteOutcome::Done, seen)
                }
                _ => (WriteOutcome::Refused(error.to_string()), seen),
            }
        }
        Err(error) if error.is_not_found() => (WriteOutcome::Done, Some(ObjectState::Gone(resource, known))),
        Err(error) => (WriteOutcome::Refused(error.to_string()), None),
    }
}

/// Returns the state of the object that an answer shows.
fn is_now(resource: GroupVersionResource, answer: &Value) -> Option<ObjectState> {
    let metadata = Metadata::from_object(answer).filter(|metadata| !metadata.uid.is_empty())?;
    Some(ObjectState::Is(resource, metadata))
}

//! Owners of the target that create it again.

use depguard_core::model::Namespace;
use serde_json::Value;

use super::Subject;
use crate::commands::why::obstacle::{Effect, Obstacle, ObstacleSource};
use crate::commands::why::text;

/// Returns an obstacle if a controller owns the target and will create it again.
pub(super) async fn find(subject: &Subject<'_>) -> Option<Obstacle> {
    let owners = subject.target.object.pointer("/metadata/ownerReferences").and_then(Value::as_array);
    let is_controller = |owner: &&Value| owner.get("controller").is_some_and(|is| *is == Value::Bool(true));
    let reference = owners?.iter().find(is_controller)?;
    let (kind, name) = (text(reference, "/kind")?, text(reference, "/name")?);
    let shown = format!("{kind}/{name}");
    let (certainty, and_more) = match read(subject, reference, kind, name).await {
        Ok(Some(owner)) if text(&owner, "/metadata/uid") != text(reference, "/uid") => return None,
        Ok(Some(owner)) if text(&owner, "/metadata/deletionTimestamp").is_some() => return None,
        Ok(Some(_)) => ("creates it again", ""),
        Ok(None) => return None,
        Err(NotRead) => ("may create it again", " (it could not be read)"),
    };
    Some(Obstacle::new(
        ObstacleSource::Owner,
        Effect::Recreates,
        format!("its owner {shown} controls it, and {certainty}{and_more}"),
        format!("change, scale down or delete {shown} instead"),
    ))
}

/// Sign that an owner could not be read.
struct NotRead;

/// Reads an owner; `None` if it is gone.
async fn read(subject: &Subject<'_>, reference: &Value, kind: &str, name: &str) -> Result<Option<Value>, NotRead> {
    let source = subject.source;
    let kinds = source.kinds().await.map_err(|_| NotRead)?;
    let api_version = text(reference, "/apiVersion").unwrap_or_default();
    let info = kinds.of_object(api_version, kind).ok_or(NotRead)?;
    let namespace = subject.namespace().filter(|_| info.namespaced != Some(false));
    let namespace = namespace.and_then(|namespace| Namespace::parse(namespace).ok());
    let owner = source.object(info, namespace.as_ref(), name).await.map_err(|_| NotRead)?;
    match (owner, source.is_live()) {
        (Some(owner), _) => Ok(Some(Value::clone(&owner))),
        (None, true) => Ok(None),
        // Files need not contain every object.
        (None, false) => Err(NotRead),
    }
}

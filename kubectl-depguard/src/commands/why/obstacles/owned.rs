//! Objects that the target owns, and that hold its deletion in the foreground.

use serde_json::Value;

use super::Subject;
use super::content::{self, Hit};
use super::finalizers::waiting;
use crate::commands::why::obstacle::{Effect, Obstacle, ObstacleSource, Obstacles};
use crate::commands::why::own::TargetState;
use crate::commands::why::text;
use crate::io::exit::Failure;

const FOREGROUND: &str = "foregroundDeletion";

/// Finds the owned objects for which a deletion in the foreground waits.
pub(super) async fn find(subject: &Subject<'_>, found: &mut Obstacles) -> Result<(), Failure> {
    let state = TargetState::from_object(&subject.target.object);
    let Some(uid) = text(&subject.target.object, "/metadata/uid") else { return Ok(()) };
    if state.deletion_timestamp.is_none() || !state.finalizers.iter().any(|name| name == FOREGROUND) {
        return Ok(());
    }
    let blocks = |owner: &Value| {
        text(owner, "/uid") == Some(uid) && owner.get("blockOwnerDeletion").is_some_and(|it| *it == Value::Bool(true))
    };
    let is_wanted = |object: &Value| {
        let owners = object.pointer("/metadata/ownerReferences").and_then(Value::as_array);
        owners.is_some_and(|owners| owners.iter().any(blocks))
    };
    let owned = content::scan(subject, subject.namespace(), &is_wanted).await?;
    found.unread_holds.extend(owned.unread);
    found.list.extend(owned.hits.iter().map(|hit| {
        let state = match &hit.deletion_timestamp {
            Some(time) => format!("is being deleted{}{}", waiting(Some(time)), held_by(hit)),
            None => "is not being deleted yet".to_owned(),
        };
        Obstacle::new(
            ObstacleSource::OwnedObject,
            Effect::Holds,
            format!("it owns {}, which {state}", hit.shown),
            hit.ask_why(),
        )
    }));
    Ok(())
}

/// Returns `, and waits for its finalizers: a, b`; empty if there are none.
pub(super) fn held_by(hit: &Hit) -> String {
    match hit.finalizers.is_empty() {
        true => String::new(),
        false => format!(", and waits for its finalizers: {}", hit.finalizers.join(", ")),
    }
}

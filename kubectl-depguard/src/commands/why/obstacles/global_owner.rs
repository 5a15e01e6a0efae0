//! GlobalOwners: the objects whose removal is stuck, as the owner's status names them.

use depguard_core::owners::{GLOBAL_OWNERS, GROUP};
use serde_json::Value;

use super::{Subject, why_command};
use crate::cluster::kinds::resource_name;
use crate::commands::why::obstacle::{Effect, Obstacle, ObstacleSource};
use crate::commands::why::text;

/// Limit on the stuck objects that are read from a status.
const MAX_STUCK: usize = 100;

/// Returns an obstacle for each object for which the removal of a GlobalOwner's objects waits.
pub(super) fn find(subject: &Subject<'_>) -> Vec<Obstacle> {
    if !subject.is(GROUP, GLOBAL_OWNERS) || !subject.target.is_terminating() {
        return Vec::new();
    }
    let stuck = subject.target.object.pointer("/status/stuck").and_then(Value::as_array).into_iter().flatten();
    stuck.take(MAX_STUCK).map(explain).collect()
}

fn explain(stuck: &Value) -> Obstacle {
    let part = |field: &str| text(stuck, &format!("/{field}")).unwrap_or_default();
    let message = match part("message") {
        "" => "no message",
        message => message,
    };
    let (kind, name, namespace) = (part("kind"), part("name"), text(stuck, "/namespace"));
    let group = part("apiVersion").split_once('/').map_or("", |(group, _)| group);
    let within = namespace.map(|namespace| format!("{namespace}/")).unwrap_or_default();
    let shown = format!("{kind}/{within}{name}");
    let command = why_command(&resource_name(&kind.to_lowercase(), group), name, namespace);
    let next_step = format!("`{command}` says what holds that object; the controller tries again by itself");
    Obstacle::new(
        ObstacleSource::OwnedObject,
        Effect::Holds,
        format!("its removal waits for {shown}: {message}"),
        next_step,
    )
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_stuck_object_is_named_with_the_command_that_explains_it() {
        let stuck = json!({"apiVersion": "compute.example.com/v1", "kind": "VM", "namespace": "a", "name": "m1",
            "message": "finalizer example.com/disk"});
        let told = explain(&stuck);
        assert_eq!(told.says, "its removal waits for VM/a/m1: finalizer example.com/disk");
        assert!(told.next_step.starts_with("`kubectl depguard why vm.compute.example.com/m1 -n a` says"), "{told:?}");
    }
}

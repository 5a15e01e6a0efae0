//! Node of a Pod that is being deleted: its kubelet ends the Pod.

use depguard_core::model::GroupResource;
use depguard_core::{Group, model::Resource};
use k8s_openapi::jiff::Timestamp;
use serde_json::Value;

use super::Subject;
use super::finalizers::waiting;
use crate::commands::why::obstacle::{Effect, Obstacle, ObstacleSource, Obstacles};
use crate::commands::why::text;
use crate::io::exit::Failure;

/// Finds out if the Node of a Pod still works, once the Pod should be gone.
pub(super) async fn find(subject: &Subject<'_>, found: &mut Obstacles) -> Result<(), Failure> {
    let pod = &subject.target.object;
    let (Some(time), Some(node)) = (text(pod, "/metadata/deletionTimestamp"), text(pod, "/spec/nodeName")) else {
        return Ok(());
    };
    // The timestamp of a Pod lies at the end of its grace period.
    let is_late = time.parse::<Timestamp>().is_ok_and(|end| end < Timestamp::now());
    if !subject.is("", "pods") || !is_late {
        return Ok(());
    }
    let kind = GroupResource { group: Group::CORE, resource: Resource::parse("nodes").map_err(Failure::new)? };
    let Some(kind) = subject.source.kind_of(&kind).await? else { return Ok(()) };
    let waits = waiting(Some(time));
    let (says, next_step) = match subject.source.object(&kind, None, node).await {
        Ok(Some(object)) if is_ready(&object) => (
            format!("the kubelet of Node/{node} has not ended the Pod{waits}"),
            format!("look at the Pod's events, and at the kubelet's log on {node}"),
        ),
        Ok(Some(_)) => (
            format!("Node/{node} is not ready, so its kubelet can't confirm that the Pod has ended{waits}"),
            format!(
                "repair {node}; if the machine is off for good, delete the Node, or give it the taint \
                 node.kubernetes.io/out-of-service"
            ),
        ),
        Ok(None) if subject.source.is_live() => (
            format!("Node/{node} is gone, so no kubelet confirms that the Pod has ended{waits}"),
            "check that kube-controller-manager runs: its Pod garbage collector deletes such Pods".to_owned(),
        ),
        Ok(None) => return Ok(()),
        Err(why) => {
            found.unread_holds.push(format!("nodes/{node} ({})", why.message()));
            return Ok(());
        }
    };
    found.list.push(Obstacle::new(ObstacleSource::Node, Effect::Holds, says, next_step));
    Ok(())
}

fn is_ready(node: &Value) -> bool {
    let conditions = node.pointer("/status/conditions").and_then(Value::as_array).into_iter().flatten();
    let mut ready = conditions.filter(|condition| text(condition, "/type") == Some("Ready"));
    ready.any(|condition| text(condition, "/status") == Some("True"))
}

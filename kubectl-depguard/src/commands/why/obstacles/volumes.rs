//! Protection of claims and volumes in use.

use serde_json::Value;

use super::{Subject, why_command};
use crate::commands::why::obstacle::{Effect, Obstacle, ObstacleSource, Obstacles};
use crate::commands::why::own::TargetState;
use crate::commands::why::text;
use crate::io::exit::Failure;

const CLAIM_PROTECTION: &str = "kubernetes.io/pvc-protection";
const VOLUME_PROTECTION: &str = "kubernetes.io/pv-protection";

/// Finds the users of a claim or volume that a finalizer protects.
pub(super) async fn find(subject: &Subject<'_>, found: &mut Obstacles) -> Result<(), Failure> {
    let state = TargetState::from_object(&subject.target.object);
    let has = |name: &str| state.finalizers.iter().any(|finalizer| finalizer == name);
    if subject.is("", "persistentvolumeclaims") && has(CLAIM_PROTECTION) {
        return users_of_claim(subject, found).await;
    }
    if subject.is("", "persistentvolumes") && has(VOLUME_PROTECTION) {
        found.list.extend(claim_of_volume(&subject.target.object));
    }
    Ok(())
}

async fn users_of_claim(subject: &Subject<'_>, found: &mut Obstacles) -> Result<(), Failure> {
    let mut users = Vec::new();
    let claim = &subject.target.object;
    let unread = subject.list("", "pods", |pod| {
        if uses(&pod, claim) {
            users.push(used_by(&pod));
        }
    });
    found.unread_holds.extend(unread.await?);
    found.list.append(&mut users);
    Ok(())
}

fn used_by(pod: &Value) -> Obstacle {
    let name = text(pod, "/metadata/name").unwrap_or_default();
    let phase = match text(pod, "/status/phase") {
        Some(phase @ ("Succeeded" | "Failed")) => format!(" ({phase}, which still counts)"),
        _ => String::new(),
    };
    let owners = pod.pointer("/metadata/ownerReferences").and_then(Value::as_array).into_iter().flatten();
    let mut controllers = owners.filter(|owner| owner.get("controller").is_some_and(|is| *is == Value::Bool(true)));
    let next_step = match controllers.next().and_then(|owner| Some((text(owner, "/kind")?, text(owner, "/name")?))) {
        Some((kind, owner)) => format!("scale down or delete {kind}/{owner}, which creates Pod/{name}"),
        None => format!("delete Pod/{name}"),
    };
    Obstacle::new(ObstacleSource::Volume, Effect::Holds, format!("Pod/{name} uses the claim{phase}"), next_step)
}

/// Returns true if a Pod holds the claim. A Pod that no Node runs yet does not.
fn uses(pod: &Value, claim: &Value) -> bool {
    let (Some(pod_name), Some(name)) = (text(pod, "/metadata/name"), text(claim, "/metadata/name")) else {
        return false;
    };
    let owns = || {
        let owners = claim.pointer("/metadata/ownerReferences").and_then(Value::as_array).into_iter().flatten();
        let mut uids = owners.filter_map(|owner| text(owner, "/uid"));
        uids.any(|uid| text(pod, "/metadata/uid") == Some(uid))
    };
    let mounts = |volume: &Value| {
        if let Some(named) = text(volume, "/persistentVolumeClaim/claimName") {
            return named == name;
        }
        // The claim of an ephemeral volume bears the names of its Pod and of the volume.
        let ephemeral = volume.get("ephemeral").is_some();
        ephemeral && text(volume, "/name").is_some_and(|volume| format!("{pod_name}-{volume}") == name) && owns()
    };
    let volumes = pod.pointer("/spec/volumes").and_then(Value::as_array).into_iter().flatten();
    text(pod, "/spec/nodeName").is_some() && volumes.into_iter().any(mounts)
}

fn claim_of_volume(volume: &Value) -> Option<Obstacle> {
    if text(volume, "/status/phase") != Some("Bound") {
        return None;
    }
    let (namespace, name) = (text(volume, "/spec/claimRef/namespace")?, text(volume, "/spec/claimRef/name")?);
    Some(Obstacle::new(
        ObstacleSource::Volume,
        Effect::Holds,
        format!("the volume is bound to PersistentVolumeClaim/{namespace}/{name}"),
        format!(
            "delete the claim, if its data may go: `{}` says what holds it",
            why_command("persistentvolumeclaims", name, Some(namespace))
        ),
    ))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_pod_uses_a_claim_by_its_name_or_an_ephemeral_volume_once_a_node_runs_it() {
        let claim = json!({"metadata": {"name": "web-data", "ownerReferences": [{"uid": "p"}]}});
        let pod = |node: Value, volumes: Value| json!({"metadata": {"name": "web", "uid": "p"}, "spec": {"nodeName": node, "volumes": volumes}});
        let by_name = json!([{"name": "x"}, {"name": "d", "persistentVolumeClaim": {"claimName": "web-data"}}]);
        let ephemeral = json!([{"name": "data", "ephemeral": {"volumeClaimTemplate": {}}}]);
        for (pod, expected) in [
            (pod("n".into(), by_name.clone()), true),
            (pod(Value::Null, by_name), false),
            (pod("n".into(), ephemeral.clone()), true),
            (pod("n".into(), json!([{"persistentVolumeClaim": {"claimName": "other"}}])), false),
            (pod("n".into(), json!([{"name": "data", "emptyDir": {}}])), false),
        ] {
            assert_eq!(uses(&pod, &claim), expected, "{pod}");
        }
        let of_another = json!({"metadata": {"name": "web-data", "ownerReferences": [{"uid": "q"}]}});
        assert!(!uses(&pod("n".into(), ephemeral), &of_another));
    }

    #[test]
    fn a_pod_is_named_with_its_end_and_its_controller() {
        let owners =
            json!([{"kind": "ConfigMap", "name": "c"}, {"kind": "StatefulSet", "name": "web", "controller": true}]);
        let said = |phase: &str, owners: &Value| {
            let pod = json!({"metadata": {"name": "web-0", "ownerReferences": owners}, "status": {"phase": phase}});
            let Obstacle { says, next_step, .. } = used_by(&pod);
            (says, next_step)
        };
        let scale_down = "scale down or delete StatefulSet/web, which creates Pod/web-0";
        for (phase, suffix) in [
            ("Running", ""),
            ("Succeeded", " (Succeeded, which still counts)"),
            ("Failed", " (Failed, which still counts)"),
        ] {
            let expected = (format!("Pod/web-0 uses the claim{suffix}"), scale_down.to_owned());
            assert_eq!(said(phase, &owners), expected);
        }
        assert_eq!(said("Running", &json!([{"kind": "ConfigMap", "name": "c"}])).1, "delete Pod/web-0");
    }

    #[test]
    fn a_volume_is_held_while_it_is_bound() {
        let volume =
            |phase: &str| json!({"spec": {"claimRef": {"namespace": "a", "name": "b"}}, "status": {"phase": phase}});
        let bound = claim_of_volume(&volume("Bound")).unwrap();
        assert!(bound.says.contains("PersistentVolumeClaim/a/b"), "{bound:?}");
        assert!(bound.next_step.contains("`kubectl depguard why persistentvolumeclaims/b -n a`"), "{bound:?}");
        assert_eq!(claim_of_volume(&volume("Released")), None);
    }
}

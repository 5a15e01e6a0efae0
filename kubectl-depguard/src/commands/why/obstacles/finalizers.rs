//! Finalizers of the target: who removes each, and how long it has been waiting.

use k8s_openapi::jiff::Timestamp;
use serde_json::Value;

use super::Subject;
use super::known_finalizers::{self, KnownFinalizer};
use crate::commands::why::obstacle::{Effect, Obstacle, ObstacleSource};
use crate::commands::why::own::TargetState;
use crate::commands::why::text;
use crate::io::age::since;

/// Limit on the finalizers of one object that are explained.
const MAX_FINALIZERS: usize = 100;

/// Returns an obstacle for each finalizer.
pub(super) fn find(subject: &Subject<'_>) -> Vec<Obstacle> {
    let object = subject.target.object.as_ref();
    let state = TargetState::from_object(object);
    state.finalizers.iter().take(MAX_FINALIZERS).map(|finalizer| explain(finalizer, &state, object)).collect()
}

fn explain(finalizer: &str, state: &TargetState, object: &Value) -> Obstacle {
    let effect = match state.deletion_timestamp.is_some() {
        true => Effect::Holds,
        false if is_known(finalizer) => Effect::Delays,
        false => Effect::MayHold,
    };
    let waits = waiting(state.deletion_timestamp.as_deref());
    let (about, next_step) = about(finalizer, setter(object, finalizer));
    Obstacle::new(ObstacleSource::Finalizer, effect, format!("finalizer {finalizer}{waits}: {about}"), next_step)
}

/// Returns true if depguard knows who removes a finalizer.
pub(super) fn is_known(finalizer: &str) -> bool {
    known_finalizers::find(finalizer).is_some()
}

/// Returns what is known about a finalizer, and the next step. `setter`: the field manager that set it.
pub(super) fn about(finalizer: &str, setter: Option<&str>) -> (String, String) {
    match known_finalizers::find(finalizer) {
        Some(KnownFinalizer { remover, condition, next_step }) => {
            (format!("{remover} removes it once {condition}"), next_step.to_owned())
        }
        None => {
            let setter = setter.map(|name| format!("; field manager `{name}` set it")).unwrap_or_default();
            (format!("depguard does not know its controller{setter}"), how_to_find(finalizer))
        }
    }
}

/// Returns ` (for 3d)`, the time since the deletion began.
pub(super) fn waiting(deletion_timestamp: Option<&str>) -> String {
    let age = deletion_timestamp.map(|time| since(time, Timestamp::now())).unwrap_or_default();
    if age.is_empty() { age } else { format!(" (for {age})") }
}

/// Returns the field manager that set a finalizer, by the object's managed fields.
fn setter<'v>(object: &'v Value, finalizer: &str) -> Option<&'v str> {
    let managers = object.pointer("/metadata/managedFields")?.as_array()?;
    let key = format!("v:{}", Value::from(finalizer));
    let sets = |entry: &&Value| {
        entry.pointer("/fieldsV1/f:metadata/f:finalizers").is_some_and(|fields| fields.get(&key).is_some())
    };
    managers.iter().find(sets).and_then(|entry| text(entry, "/manager"))
}

/// Returns the next step for a finalizer whose controller is unknown.
fn how_to_find(finalizer: &str) -> String {
    let domain = known_finalizers::domain(finalizer);
    // Only a plain name becomes part of a command that somebody may copy.
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-');
    let search = match !domain.is_empty() && domain.chars().all(plain) && !domain.starts_with('-') {
        true => {
            format!("find the controller that belongs to {domain}, for example by `kubectl get crds | grep {domain}`")
        }
        false => "find the controller that set it".to_owned(),
    };
    format!(
        "{search}; check that it runs, and read its log. Remove the finalizer by hand only if that controller is gone \
         for good: what it would clean up stays behind"
    )
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn explained(finalizer: &str, object: &Value) -> Obstacle {
        explain(finalizer, &TargetState::from_object(object), object)
    }

    #[test]
    fn a_finalizer_names_its_remover_or_the_way_to_find_it() {
        let claim = json!({"metadata": {"deletionTimestamp": "2020-01-01T00:00:00Z"}});
        let known = explained("kubernetes.io/pvc-protection", &claim);
        assert_eq!(known.effect, Effect::Holds);
        assert!(
            known.says.contains("(for ") && known.says.ends_with("removes it once no Pod uses the claim"),
            "{known:?}"
        );

        let vm = json!({"metadata": {"managedFields": [
            {"manager": "other", "fieldsV1": {"f:metadata": {"f:finalizers": {"v:\"a/b\"": {}}}}},
            {"manager": "disk-controller", "fieldsV1": {"f:metadata": {"f:finalizers": {"v:\"example.com/disk\"": {}}}}},
        ]}});
        let unknown = explained("example.com/disk", &vm);
        assert_eq!(unknown.effect, Effect::MayHold);
        assert_eq!(explained("kubernetes.io/pvc-protection", &vm).effect, Effect::Delays);
        assert!(unknown.says.ends_with("field manager `disk-controller` set it"), "{unknown:?}");
        assert!(unknown.next_step.contains("grep example.com`"), "{unknown:?}");
    }

    /// People copy commands from a terminal.
    #[test]
    fn a_hostile_name_becomes_no_command() {
        for finalizer in ["a;rm -rf ~/x", "$(reboot)/x", "-e/x", "`id`", ""] {
            let step = how_to_find(finalizer);
            assert!(!step.contains("grep"), "{step}");
        }
    }
}

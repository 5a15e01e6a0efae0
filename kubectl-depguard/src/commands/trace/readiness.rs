//! Readiness of an object, as the object itself states it.

use serde_json::Value;

/// Readiness of an object that exists.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Readiness {
    Ready,
    /// The object is there, and states nothing that tells if it is ready.
    Unstated,
    NotReady(String),
    Terminating,
}

/// Conditions that state the readiness of an object, the first one that it has.
const CONDITIONS: [&str; 2] = ["Ready", "Available"];
/// Phases of objects that are ready; any other phase but those in `NOT_READY` tells nothing.
const READY: [&str; 7] = ["Active", "Available", "Bound", "Complete", "Ready", "Running", "Succeeded"];
/// Phases of objects that are not ready.
const NOT_READY: [&str; 11] = [
    "Creating",
    "Deleting",
    "Error",
    "Failed",
    "Initializing",
    "Lost",
    "NotReady",
    "Pending",
    "Provisioning",
    "Terminating",
    "Unknown",
];

impl Readiness {
    pub(super) fn from_object(object: &Value) -> Self {
        let text = |pointer: &str| object.pointer(pointer).and_then(Value::as_str).filter(|text| !text.is_empty());
        if text("/metadata/deletionTimestamp").is_some() {
            return Self::Terminating;
        }
        let generation = object.pointer("/metadata/generation").and_then(Value::as_i64);
        let observed = |from: &Value| from.get("observedGeneration").and_then(Value::as_i64);
        let status = object.get("status").unwrap_or(&Value::Null);
        let conditions = status.get("conditions").and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
        let stated = CONDITIONS.iter().find_map(|condition_type| {
            conditions.iter().find(|condition| condition.get("type").and_then(Value::as_str) == Some(*condition_type))
        });
        let current = stated.and_then(observed).or_else(|| observed(status));
        let is_told = stated.is_some() || text("/status/phase").is_some();
        if let (true, Some(generation), Some(current)) = (is_told, generation, current)
            && current < generation
        {
            return Self::NotReady(format!("its status is of generation {current}, and the object of {generation}"));
        }
        match (stated, text("/status/phase")) {
            (Some(condition), _) => Self::from_condition(condition),
            (None, Some(phase)) if READY.contains(&phase) => Self::Ready,
            (None, Some(phase)) if NOT_READY.contains(&phase) => Self::NotReady(format!("its phase is {phase}")),
            (None, _) => Self::Unstated,
        }
    }

    fn from_condition(condition: &Value) -> Self {
        let text = |field: &str| condition.get(field).and_then(Value::as_str).unwrap_or_default();
        if text("status") == "True" {
            return Self::Ready;
        }
        let status = if text("status").is_empty() { "without a status" } else { text("status") };
        let more: Vec<_> = [text("reason"), text("message")].into_iter().filter(|part| !part.is_empty()).collect();
        let more = if more.is_empty() { String::new() } else { format!(" ({})", more.join(": ")) };
        Self::NotReady(format!("{} is {status}{more}", text("type")))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn an_object_is_ready_only_if_it_says_so_of_its_present_generation() {
        let not_ready = |why: &str| Readiness::NotReady(why.to_owned());
        let condition = |kind: &str, status: &str| json!({"type": kind, "status": status});
        for (metadata, status, expected) in [
            (json!({}), json!(null), Readiness::Unstated),
            (json!({}), json!({"phase": "Running"}), Readiness::Ready),
            (json!({}), json!({"phase": "Pending"}), not_ready("its phase is Pending")),
            (json!({}), json!({"phase": "Whatever"}), Readiness::Unstated),
            (json!({}), json!({"conditions": [condition("Synced", "True")]}), Readiness::Unstated),
            (json!({}), json!({"conditions": [condition("Ready", "True")], "phase": "Failed"}), Readiness::Ready),
            (
                json!({}),
                json!({"conditions": [condition("Available", "True"), condition("Ready", "False")]}),
                not_ready("Ready is False"),
            ),
            (json!({}), json!({"conditions": [condition("Available", "Unknown")]}), not_ready("Available is Unknown")),
            (json!({}), json!({"conditions": [{"type": "Ready"}]}), not_ready("Ready is without a status")),
            (
                json!({}),
                json!({"conditions": [{"type": "Ready", "status": "False", "reason": "NoIP", "message": "pool is empty"}]}),
                not_ready("Ready is False (NoIP: pool is empty)"),
            ),
            (
                json!({"generation": 2}),
                json!({"observedGeneration": 1, "conditions": [condition("Ready", "True")]}),
                not_ready("its status is of generation 1, and the object of 2"),
            ),
            (
                json!({"generation": 2}),
                json!({"observedGeneration": 1, "conditions": [{"type": "Ready", "status": "True", "observedGeneration": 2}]}),
                Readiness::Ready,
            ),
            (json!({"deletionTimestamp": "2026-01-01T00:00:00Z"}), json!({"phase": "Running"}), Readiness::Terminating),
        ] {
            let object = json!({"metadata": metadata, "status": status});
            assert_eq!(Readiness::from_object(&object), expected, "{object}");
        }
    }
}

//! State of the target itself: a deletion that has begun, finalizers, and owners.

use k8s_openapi::jiff::Timestamp;
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;

use super::text;
use crate::io::age::since;

/// State of an object, from its metadata.
#[derive(Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct TargetState {
    /// Time at which the deletion began.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) deletion_timestamp: Option<String>,
    /// Finalizers that must go before the object is gone.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) finalizers: Vec<String>,
    /// Owners: `ReplicaSet/web`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) owners: Vec<String>,
}

impl TargetState {
    pub(crate) fn from_object(object: &Value) -> Self {
        let list = |pointer: &str| object.pointer(pointer).and_then(Value::as_array).into_iter().flatten();
        let owner = |owner: &Value| Some(format!("{}/{}", text(owner, "/kind")?, text(owner, "/name")?));
        // A namespace has finalizers in its spec, beside those in its metadata.
        let of_namespace = text(object, "/kind") == Some("Namespace");
        let of_spec = of_namespace.then(|| list("/spec/finalizers")).into_iter().flatten();
        let finalizers = list("/metadata/finalizers").chain(of_spec);
        Self {
            deletion_timestamp: text(object, "/metadata/deletionTimestamp").map(str::to_owned),
            finalizers: finalizers.filter_map(|name| name.as_str().map(str::to_owned)).collect(),
            owners: list("/metadata/ownerReferences").filter_map(owner).collect(),
        }
    }

    /// Returns true if the deletion was granted, but finalizers hold the object.
    pub(crate) fn is_held(&self) -> bool {
        self.deletion_timestamp.is_some() && !self.finalizers.is_empty()
    }

    /// Returns the end of a sentence that begins with the object, if its deletion has begun.
    pub(crate) fn deletion(&self) -> Option<String> {
        let time = self.deletion_timestamp.as_ref()?;
        let age = since(time, Timestamp::now());
        let age = if age.is_empty() { age } else { format!(" (for {age})") };
        let finalizers = match self.finalizers.is_empty() {
            true => String::new(),
            false => format!(", and waits for its finalizers: {}", self.finalizers.join(", ")),
        };
        Some(format!("has been terminating since {time}{age}{finalizers}"))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_holds_an_object_is_what_its_metadata_says() {
        let pod = TargetState::from_object(&json!({"kind": "Pod", "spec": {"finalizers": ["not/one"]}, "metadata": {
            "finalizers": ["a/b"], "ownerReferences": [{"kind": "ReplicaSet", "name": "web", "controller": true}],
        }}));
        assert_eq!((pod.is_held(), pod.finalizers.as_slice()), (false, &["a/b".to_owned()][..]));
        assert_eq!((pod.deletion(), pod.owners.as_slice()), (None, &["ReplicaSet/web".to_owned()][..]));
        let namespace = TargetState::from_object(&json!({"kind": "Namespace", "spec": {"finalizers": ["kubernetes"]},
            "metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}}));
        assert!(namespace.is_held(), "{namespace:?}");
        let going = TargetState::from_object(
            &json!({"kind": "Pod", "metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}}),
        );
        assert!(!going.is_held());
        let told = going.deletion().unwrap();
        assert!(told.starts_with("has been terminating since 2026-01-01T00:00:00Z (for "), "{told}");
    }
}

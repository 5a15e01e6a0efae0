//! State of the target itself: a deletion that has begun, finalizers, and owners that would create the object again.

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;

use super::text;

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
    /// Owner that controls the object.
    #[serde(skip)]
    controller: Option<String>,
}

impl TargetState {
    pub(crate) fn from_object(object: &Value) -> Self {
        let list = |pointer: &str| object.pointer(pointer).and_then(Value::as_array).into_iter().flatten();
        let owner = |owner: &Value| Some(format!("{}/{}", text(owner, "/kind")?, text(owner, "/name")?));
        let is_controller = |owner: &&Value| owner.get("controller").is_some_and(|is| *is == Value::Bool(true));
        // A namespace has finalizers in its spec, beside those in its metadata.
        let of_namespace = text(object, "/kind") == Some("Namespace");
        let of_spec = of_namespace.then(|| list("/spec/finalizers")).into_iter().flatten();
        let finalizers = list("/metadata/finalizers").chain(of_spec);
        Self {
            deletion_timestamp: text(object, "/metadata/deletionTimestamp").map(str::to_owned),
            finalizers: finalizers.filter_map(|name| name.as_str().map(str::to_owned)).collect(),
            owners: list("/metadata/ownerReferences").filter_map(owner).collect(),
            controller: list("/metadata/ownerReferences").find(is_controller).and_then(owner),
        }
    }

    /// Returns true if the deletion was granted, but finalizers hold the object.
    pub(crate) fn is_held(&self) -> bool {
        self.deletion_timestamp.is_some() && !self.finalizers.is_empty()
    }

    /// Returns the end of a sentence that begins with the object, if its deletion has begun.
    pub(crate) fn deletion(&self) -> Option<String> {
        let since = self.deletion_timestamp.as_ref()?;
        Some(match self.finalizers.is_empty() {
            true => format!("has been terminating since {since}"),
            false => {
                format!(
                    "has been terminating since {since}, and waits for its finalizers: {}",
                    self.finalizers.join(", ")
                )
            }
        })
    }

    /// Returns notes for the user who deletes the object.
    pub(crate) fn remarks(&self) -> Vec<String> {
        let mut remarks = Vec::new();
        if self.deletion_timestamp.is_none() && !self.finalizers.is_empty() {
            remarks.push(format!(
                "after its deletion the object stays until its finalizers are gone: {}",
                self.finalizers.join(", ")
            ));
        }
        if self.is_held() {
            remarks.push(
                "the controller that set a finalizer removes it when its work is done: check that it runs".to_owned(),
            );
        }
        if let Some(controller) = &self.controller {
            remarks.push(format!("its owner {controller} may create it again"));
        }
        remarks
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
        assert_eq!(pod.remarks().len(), 2, "{pod:?}");
        let namespace = TargetState::from_object(&json!({"kind": "Namespace", "spec": {"finalizers": ["kubernetes"]},
            "metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}}));
        assert!(namespace.is_held(), "{namespace:?}");
        let going = TargetState::from_object(
            &json!({"kind": "Pod", "metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}}),
        );
        assert_eq!(
            (going.is_held(), going.deletion().as_deref()),
            (false, Some("has been terminating since 2026-01-01T00:00:00Z"))
        );
    }
}

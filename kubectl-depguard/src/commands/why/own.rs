//! What the object itself says of its deletion: that it has begun, what holds it, and who would make it anew.

use serde::Serialize;
use serde_json::Value;

use super::text;

/// State of an object, as its metadata has it.
#[derive(Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Own {
    /// Since when it is being deleted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) deletion_timestamp: Option<String>,
    /// What must be done before it is gone.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) finalizers: Vec<String>,
    /// Its owners: `ReplicaSet/web`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) owners: Vec<String>,
    /// The one of them that controls it.
    #[serde(skip)]
    controller: Option<String>,
}

impl Own {
    pub(crate) fn of(object: &Value) -> Self {
        let list = |pointer: &str| object.pointer(pointer).and_then(Value::as_array).into_iter().flatten();
        let owner = |owner: &Value| Some(format!("{}/{}", text(owner, "/kind")?, text(owner, "/name")?));
        let is_controller = |owner: &&Value| owner.get("controller").is_some_and(|is| *is == Value::Bool(true));
        // A namespace has finalizers of its own beside those that any object may have.
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

    /// Whether its deletion was granted, and does not end.
    pub(crate) fn is_held(&self) -> bool {
        self.deletion_timestamp.is_some() && !self.finalizers.is_empty()
    }

    /// The end of a sentence that begins with the object, where its deletion has begun.
    pub(crate) fn deletion(&self) -> Option<String> {
        let since = self.deletion_timestamp.as_ref()?;
        Some(match self.finalizers.is_empty() {
            true => format!("is being deleted since {since}"),
            false => {
                format!("is being deleted since {since}, and held by its finalizers: {}", self.finalizers.join(", "))
            }
        })
    }

    /// What whoever deletes it is to know.
    pub(crate) fn remarks(&self) -> Vec<String> {
        let mut remarks = Vec::new();
        if self.deletion_timestamp.is_none() && !self.finalizers.is_empty() {
            remarks
                .push(format!("once deleted it stays until its finalizers are gone: {}", self.finalizers.join(", ")));
        }
        if self.is_held() {
            remarks.push(
                "whoever put a finalizer there takes it away once its work is done: see whether it runs".to_owned(),
            );
        }
        if let Some(controller) = &self.controller {
            remarks.push(format!("its owner {controller} may make it anew"));
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
        let pod = Own::of(&json!({"kind": "Pod", "spec": {"finalizers": ["not/one"]}, "metadata": {
            "finalizers": ["a/b"], "ownerReferences": [{"kind": "ReplicaSet", "name": "web", "controller": true}],
        }}));
        assert_eq!((pod.is_held(), pod.finalizers.as_slice()), (false, &["a/b".to_owned()][..]));
        assert_eq!(pod.remarks().len(), 2, "{pod:?}");
        let namespace = Own::of(&json!({"kind": "Namespace", "spec": {"finalizers": ["kubernetes"]},
            "metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}}));
        assert!(namespace.is_held(), "{namespace:?}");
        let going = Own::of(&json!({"kind": "Pod", "metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}}));
        assert_eq!(
            (going.is_held(), going.deletion().as_deref()),
            (false, Some("is being deleted since 2026-01-01T00:00:00Z"))
        );
    }
}

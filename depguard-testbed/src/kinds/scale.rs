//! Subresource `/scale`: the number of replicas of an object, as autoscaling shows it for any kind.

use serde_json::{Value, json};

use crate::protocol::json::{map_at, text};
use crate::protocol::status::{ApiError, ApiResult};

/// Name of the subresource.
pub(crate) const SCALE: &str = "scale";
const KIND: &str = "Scale";
const API_VERSION: &str = "autoscaling/v1";

/// Paths of an object's fields that its scale shows.
#[derive(Clone, Debug)]
pub(crate) struct Paths {
    spec: Vec<String>,
    status: Vec<String>,
    selector: Option<Vec<String>>,
}

impl Paths {
    /// Reads the paths from `subresources.scale` of a definition.
    pub(crate) fn parse(scale: &Value) -> Option<Self> {
        let path = |field| text(scale, field).map(split);
        Some(Self {
            spec: path("/specReplicasPath")?,
            status: path("/statusReplicasPath")?,
            selector: path("/labelSelectorPath"),
        })
    }

    /// Returns the paths of the kinds that are compiled in.
    pub(crate) fn of_replicas() -> Self {
        Self { spec: split(".spec.replicas"), status: split(".status.replicas"), selector: None }
    }

    /// Returns the scale of an object. It has nothing else of the object, not even its labels.
    pub(crate) fn show(&self, object: &Value) -> Value {
        let number = |path: &[String]| at(object, path).and_then(Value::as_i64).unwrap_or(0);
        let mut scale = json!({
            "kind": KIND, "apiVersion": API_VERSION, "metadata": {},
            "spec": {"replicas": number(&self.spec)}, "status": {"replicas": number(&self.status)},
        });
        for field in ["name", "namespace", "uid", "resourceVersion", "creationTimestamp"] {
            if let Some(value) = object["metadata"].get(field) {
                scale["metadata"][field] = value.clone();
            }
        }
        if let Some(selector) = self.selector.as_deref().and_then(|path| at(object, path)) {
            scale["status"]["selector"] = selector.clone();
        }
        scale
    }

    /// Returns the scale of an object for a client. Fails if the object has no number of replicas.
    pub(crate) fn read(&self, object: &Value) -> ApiResult<Value> {
        if at(object, &self.spec).is_none() {
            let path = self.spec.join(".");
            return Err(ApiError::internal(&format!("the spec replicas field \".{path}\" does not exist")));
        }
        Ok(self.show(object))
    }

    /// Returns the object with the number that a change of its scale sets.
    pub(crate) fn change(&self, old: &Value, change: impl Fn(&Value) -> ApiResult<Value>) -> ApiResult<Value> {
        let scale = change(&self.show(old))?;
        let Some(replicas) = scale.pointer("/spec/replicas").and_then(Value::as_i64) else {
            return Err(ApiError::bad_request("spec.replicas of the scale is not a number"));
        };
        let mut object = old.clone();
        if let Some((last, parents)) = self.spec.split_last() {
            let parents: Vec<&str> = parents.iter().map(String::as_str).collect();
            map_at(&mut object, &parents).insert(last.clone(), json!(replicas));
        }
        let version = text(&scale, "/metadata/resourceVersion").unwrap_or_default();
        object["metadata"]["resourceVersion"] = json!(version);
        Ok(object)
    }
}

/// Returns the kind and version of the subresource's own objects.
pub(crate) const fn type_of_scale() -> (&'static str, &'static str) {
    (KIND, API_VERSION)
}

fn split(path: &str) -> Vec<String> {
    path.trim_start_matches('.').split('.').map(str::to_owned).collect()
}

fn at<'a>(object: &'a Value, path: &[String]) -> Option<&'a Value> {
    path.iter().try_fold(object, |here, step| here.get(step))
}

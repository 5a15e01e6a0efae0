//! What is left of an object whose tenant has more than its allowance.

use std::collections::BTreeSet;

use depguard_core::api;
use serde_json::{Map, Value, json};

/// What says which object it is, and which state of it.
const METADATA: [&str; 7] =
    ["name", "namespace", "uid", "generation", "resourceVersion", "creationTimestamp", "deletionTimestamp"];
/// What says where it lies.
const ANNOTATIONS: [&str; 2] = [api::CLUSTER_ANNOTATION, api::PATH_ANNOTATION];

/// An object down to its identity, and what other objects it speaks of: of a rule the kinds, each once, and what happens
/// where it can't be followed; of an APIBinding its APIExport; of a lock what it holds; and
/// whether it was accepted. A rule is not valid any more.
pub(super) fn shortened(object: &Value) -> Value {
    let mut short = picked(object, &["apiVersion", "kind"]);
    let mut metadata = object.get("metadata").map(|metadata| picked(metadata, &METADATA)).unwrap_or_default();
    if let Some(annotations) = object.pointer("/metadata/annotations") {
        metadata.insert("annotations".to_owned(), Value::Object(picked(annotations, &ANNOTATIONS)));
    }
    short.insert("metadata".to_owned(), Value::Object(metadata));
    if let Some(spec) = object.get("spec") {
        short.insert("spec".to_owned(), Value::Object(outlined(spec)));
    }
    // A lock's is short, and compared as a whole with what is to be said.
    let is_lock = object.pointer("/spec/targets").is_some();
    let status = if is_lock { object.get("status").cloned() } else { accepted(object) };
    short.extend(status.map(|status| ("status".to_owned(), status)));
    Value::Object(short)
}

/// What stands for all rules of a workspace that speak of the same kinds as this one, of which only that is left.
pub(super) fn nameless(short: &Value) -> Option<Value> {
    let spec = short.get("spec").filter(|spec| spec.get("dependencies").is_some())?;
    let annotations = short.pointer("/metadata/annotations");
    Some(json!({"metadata": {"name": "(further rules)", "annotations": annotations}, "spec": spec}))
}

/// A status that tells of nothing but whether the object is accepted.
fn accepted(object: &Value) -> Option<Value> {
    let conditions = object.pointer("/status/conditions")?.as_array()?;
    let accepted = conditions.iter().find(|condition| condition.get("type").is_some_and(|of| of == "Accepted"))?;
    Some(json!({"conditions": [picked(accepted, &["type", "status", "reason", "observedGeneration"])]}))
}

fn outlined(spec: &Value) -> Map<String, Value> {
    let mut short = picked(spec, &["failurePolicy", "reference"]);
    // Of a lock all that is not only said.
    short.extend(picked(spec, &["targets", "operations", "fields", "holder", "expiresAt", "ttl", "duringTeardown"]));
    if let Some(dependent) = spec.get("dependent") {
        let kind = picked(dependent, &["apiExportName", "apiExportRef", "group", "resource"]);
        short.insert("dependent".to_owned(), Value::Object(kind));
    }
    if let Some(dependencies) = spec.get("dependencies").and_then(Value::as_array) {
        let mut known = BTreeSet::new();
        let kinds = dependencies
            .iter()
            .map(|dependency| Value::Object(picked(dependency, &["apiExportRef", "group", "resource", "onDelete"])));
        let kinds = kinds.filter(|kind| known.insert(kind.to_string())).collect();
        short.insert("dependencies".to_owned(), Value::Array(kinds));
    }
    short
}

fn picked(object: &Value, fields: &[&str]) -> Map<String, Value> {
    let all = fields.iter().filter_map(|field| Some(((*field).to_owned(), object.get(*field)?.clone())));
    all.collect()
}

//! Shortens the objects of a tenant that exceeds its allowance.

use std::collections::BTreeSet;

use depguard_core::api;
use serde_json::{Map, Value, json};

/// Metadata fields that identify the object and its state.
const METADATA: [&str; 7] =
    ["name", "namespace", "uid", "generation", "resourceVersion", "creationTimestamp", "deletionTimestamp"];
/// Annotations that tell where the object lies.
const ANNOTATIONS: [&str; 2] = [api::CLUSTER_ANNOTATION, api::PATH_ANNOTATION];

/// Reduces an object to its identity, its acceptance, and the objects that it names: of a rule the kinds, each once,
/// and the actions if the rule can't be followed; of an APIBinding its APIExport; of a lock all fields that decide. A
/// shortened rule is no longer valid.
pub(super) fn shortened(object: &Value) -> Value {
    let mut short = picked(object, &["apiVersion", "kind"]);
    let mut metadata = object.get("metadata").map(|metadata| picked(metadata, &METADATA)).unwrap_or_default();
    if let Some(annotations) = object.pointer("/metadata/annotations") {
        metadata.insert("annotations".to_owned(), Value::Object(picked(annotations, &ANNOTATIONS)));
    }
    short.insert("metadata".to_owned(), Value::Object(metadata));
    if let Some(spec) = object.get("spec") {
        short.insert("spec".to_owned(), Value::Object(decisive_fields(spec)));
    }
    // A lock's status is short, and is compared as a whole with the status to be written.
    let is_lock = object.pointer("/spec/targets").is_some();
    let status = if is_lock { object.get("status").cloned() } else { accepted(object) };
    short.extend(status.map(|status| ("status".to_owned(), status)));
    Value::Object(short)
}

/// Returns the stand-in for all rules of a workspace that name the same kinds as this shortened one.
pub(super) fn nameless(short: &Value) -> Option<Value> {
    let spec = short.get("spec").filter(|spec| spec.get("dependencies").is_some())?;
    let annotations = short.pointer("/metadata/annotations");
    Some(json!({"metadata": {"name": "(further rules)", "annotations": annotations}, "spec": spec}))
}

/// Returns a status that shows only if the object is accepted.
fn accepted(object: &Value) -> Option<Value> {
    let conditions = object.pointer("/status/conditions")?.as_array()?;
    let accepted = conditions.iter().find(|condition| condition.get("type").is_some_and(|of| of == "Accepted"))?;
    Some(json!({"conditions": [picked(accepted, &["type", "status", "reason", "observedGeneration"])]}))
}

/// Returns the fields of a spec that decide where the object applies.
fn decisive_fields(spec: &Value) -> Map<String, Value> {
    let mut short = picked(spec, &["failurePolicy", "reference"]);
    // Of a lock, all fields are kept that decide.
    short.extend(picked(spec, &["targets", "operations", "fields", "holder", "expiresAt", "ttl", "duringTeardown"]));
    if let Some(dependent) = spec.get("dependent") {
        let kind = picked(dependent, &["apiExportName", "apiExportRef", "group", "resource"]);
        short.insert("dependent".to_owned(), Value::Object(kind));
    }
    if let Some(dependencies) = spec.get("dependencies").and_then(Value::as_array) {
        let mut known = BTreeSet::new();
        let fields = ["apiExportRef", "group", "resource", "onDelete", "onMissing"];
        let kinds = dependencies.iter().map(|dependency| Value::Object(picked(dependency, &fields)));
        let kinds = kinds.filter(|kind| known.insert(kind.to_string())).collect();
        short.insert("dependencies".to_owned(), Value::Array(kinds));
    }
    short
}

fn picked(object: &Value, fields: &[&str]) -> Map<String, Value> {
    let all = fields.iter().filter_map(|field| Some(((*field).to_owned(), object.get(*field)?.clone())));
    all.collect()
}

//! Completion of objects: what an API server adds to them before it stores them.

use depguard_core::Group;
use serde_json::{Map, Value};

use crate::cluster::documents::{Document, text};
use crate::cluster::object_record::ObjectType;

/// Completion of the objects of one type.
#[derive(Debug)]
pub(super) struct Completion {
    steps: Vec<&'static Step>,
    /// Schema with defaults, from the definition of the type.
    schema: Option<Value>,
}

/// Field that Kubernetes fills in if a manifest leaves it out: the kind that has it, its path, and the origin of its value.
#[derive(Debug)]
struct Step(&'static str, &'static str, &'static str, From);

/// Origin of a value.
#[derive(Debug)]
enum From {
    Text(&'static str),
    /// Another field of the same object.
    Field(&'static str),
}
use self::From::{Field, Text};

/// Fields that rules of the packs read. Those of a kind are filled in one after the other.
const STEPS: &[Step] = &[
    Step("", "Pod", "spec.serviceAccountName", Field("spec.serviceAccount")),
    Step("", "Pod", "spec.serviceAccountName", Text("default")),
    Step("", "Pod", "status.phase", Text("Pending")),
    Step("", "PodTemplate", "template.spec.serviceAccountName", Field("template.spec.serviceAccount")),
    Step("", "ReplicationController", TEMPLATE, Field(OLD_TEMPLATE)),
    Step("", "PersistentVolume", "spec.persistentVolumeReclaimPolicy", Text("Retain")),
    Step("", "PersistentVolume", "status.phase", Text("Pending")),
    Step("", "PersistentVolumeClaim", "spec.dataSourceRef", Field("spec.dataSource")),
    Step("", "PersistentVolumeClaim", "status.phase", Text("Pending")),
    Step("apps", "DaemonSet", TEMPLATE, Field(OLD_TEMPLATE)),
    Step("apps", "Deployment", TEMPLATE, Field(OLD_TEMPLATE)),
    Step("apps", "ReplicaSet", TEMPLATE, Field(OLD_TEMPLATE)),
    Step("apps", "StatefulSet", TEMPLATE, Field(OLD_TEMPLATE)),
    Step("batch", "Job", TEMPLATE, Field(OLD_TEMPLATE)),
    Step(
        "batch",
        "CronJob",
        "spec.jobTemplate.spec.template.spec.serviceAccountName",
        Field("spec.jobTemplate.spec.template.spec.serviceAccount"),
    ),
    Step("rbac.authorization.k8s.io", "ClusterRoleBinding", "roleRef.apiGroup", Text("rbac.authorization.k8s.io")),
    Step("rbac.authorization.k8s.io", "RoleBinding", "roleRef.apiGroup", Text("rbac.authorization.k8s.io")),
];
const TEMPLATE: &str = "spec.template.spec.serviceAccountName";
/// Former name of the same field, which API servers still take.
const OLD_TEMPLATE: &str = "spec.template.spec.serviceAccount";

impl Completion {
    /// Returns the completion of objects of a type; `None` if an API server adds nothing to them.
    pub(super) fn of(object_type: &ObjectType, definitions: &[Document]) -> Option<Self> {
        let ObjectType { api_version, kind, .. } = object_type;
        let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
        let steps: Vec<_> = STEPS.iter().filter(|step| step.0 == group && step.1 == kind).collect();
        let mut schemas = definitions.iter().filter_map(|definition| schema(&definition.value, group, kind, version));
        let schema = schemas.find(|schema| has_default(schema)).cloned();
        (!steps.is_empty() || schema.is_some()).then_some(Self { steps, schema })
    }

    pub(super) fn complete(&self, object: &mut Value) {
        for Step(_, _, path, from) in &self.steps {
            let value = match from {
                Text(text) => Some(Value::from(*text)),
                Field(other) => object.pointer(&format!("/{}", other.replace('.', "/"))).cloned(),
            };
            if let Some(value) = value.filter(|value| !is_absent(value)) {
                fill(object, path, value);
            }
        }
        if let Some(schema) = &self.schema {
            fill_defaults(object, schema);
        }
    }
}

/// Returns the schema of a kind in one version, if the definition is that kind's.
fn schema<'d>(definition: &'d Value, group: &str, kind: &str, version: &str) -> Option<&'d Value> {
    let spec = definition.get("spec")?;
    let is_of = |own: &str| Group::parse(own).is_ok_and(|own| own.as_str() == group);
    if !is_of(text(spec, "group")?) || text(spec.get("names")?, "kind")? != kind {
        return None;
    }
    let mut versions = spec.get("versions")?.as_array()?.iter();
    let schema = versions.find(|own| text(own, "name") == Some(version))?.get("schema")?;
    Some(schema.get("openAPIV3Schema").unwrap_or(schema))
}

fn has_default(schema: &Value) -> bool {
    match schema {
        Value::Object(fields) => fields.contains_key("default") || fields.values().any(has_default),
        Value::Array(items) => items.iter().any(has_default),
        _ => false,
    }
}

/// Returns true for a value that counts as left out.
fn is_absent(value: &Value) -> bool {
    value.is_null() || value == ""
}

/// Fills in a field, and the objects around it, unless it has a value.
fn fill(object: &mut Value, path: &str, value: Value) {
    let mut here = object;
    for name in path.split('.') {
        if here.is_null() {
            *here = Value::Object(Map::new());
        }
        let Some(fields) = here.as_object_mut() else { return };
        here = fields.entry(name).or_insert(Value::Null);
    }
    if is_absent(here) {
        *here = value;
    }
}

/// Fills in the defaults of a schema. A null that the schema doesn't allow counts as left out.
fn fill_defaults(value: &mut Value, schema: &Value) {
    match value {
        Value::Object(fields) => {
            let properties = schema.get("properties").and_then(Value::as_object);
            for (name, property) in properties.into_iter().flatten() {
                let is_nullable = property.get("nullable") == Some(&Value::Bool(true));
                let is_given = fields.get(name).is_some_and(|value| is_nullable || !value.is_null());
                if let Some(default) = property.get("default").filter(|_| !is_given) {
                    fields.insert(name.clone(), default.clone());
                }
            }
            for (name, value) in fields {
                let property = properties.and_then(|properties| properties.get(name));
                if let Some(property) = property.or_else(|| schema.get("additionalProperties")) {
                    fill_defaults(value, property);
                }
            }
        }
        Value::Array(items) => {
            if let Some(schema) = schema.get("items") {
                items.iter_mut().for_each(|item| fill_defaults(item, schema));
            }
        }
        _ => {}
    }
}

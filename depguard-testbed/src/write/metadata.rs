//! Checks of metadata.

use serde_json::Value;

use crate::protocol::json::{array, finalizers, is_terminating, text};
use crate::protocol::status::{ApiError, ApiResult, Cause};
use crate::request::act::Act;

pub(crate) fn check_finalizers(act: &Act<'_>, name: &str, old: &Value, new: &Value) -> ApiResult<()> {
    let added: Vec<&Value> = finalizers(new).iter().filter(|finalizer| !finalizers(old).contains(finalizer)).collect();
    if !is_terminating(old) || added.is_empty() {
        return Ok(());
    }
    let added: Vec<String> = added.into_iter().map(Value::to_string).collect();
    let why = format!(
        "Forbidden: no new finalizers can be added if the object is being deleted, found new finalizers []string{{{}}}",
        added.join(", ")
    );
    let cause = Cause::new("FieldValueForbidden", "metadata.finalizers", &why);
    Err(ApiError::invalid(&act.resource.group, &act.resource.kind, name, &[cause]))
}

/// Drops empty fields of the metadata. A JSON patch cannot add to a field that was dropped.
pub(crate) fn tidy(object: &mut Value) {
    let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) else { return };
    metadata.retain(|_, value| match value {
        Value::Null => false,
        Value::Array(items) => !items.is_empty(),
        Value::Object(fields) => !fields.is_empty(),
        _ => true,
    });
}

/// Refuses owner references that are incomplete, and more than one controller.
pub(crate) fn check_owners(act: &Act<'_>, name: &str, object: &Value) -> ApiResult<()> {
    let references = array(object, "/metadata/ownerReferences");
    let mut causes = Vec::new();
    for reference in references {
        for field in ["apiVersion", "kind", "name", "uid"] {
            if text(reference, &format!("/{field}")).is_none() {
                let at = format!("metadata.ownerReferences.{field}");
                causes.push(Cause::new("FieldValueInvalid", &at, "Invalid value: \"\": must not be empty"));
            }
        }
    }
    let controllers = references.iter().filter(|reference| reference["controller"] == true);
    let controllers: Vec<String> = controllers
        .map(|reference| {
            let said = |pointer| text(reference, pointer).unwrap_or_default();
            format!("{}/{}", said("/kind"), said("/name"))
        })
        .collect();
    if let [first, second, ..] = controllers.as_slice() {
        let why = format!(
            "Invalid value: Only one reference can have Controller set to true. Found \"true\" in references for {first} \
             and {second}"
        );
        causes.push(Cause::new("FieldValueInvalid", "metadata.ownerReferences", &why));
    }
    if causes.is_empty() {
        return Ok(());
    }
    Err(ApiError::invalid(&act.resource.group, &act.resource.kind, name, &causes))
}

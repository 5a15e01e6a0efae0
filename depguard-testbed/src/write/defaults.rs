//! Fields that the server sets in certain kinds, and fields that nobody may change.

use serde_json::{Value, json};

use crate::controllers::{bindings, definitions, workspaces};
use crate::protocol::json::{add_finalizer, map_at, text};
use crate::protocol::status::{ApiError, ApiResult, Cause};
use crate::request::act::Act;

pub(crate) fn on_create(act: &Act<'_>, object: &mut Value) -> ApiResult<()> {
    let name = text(object, "/metadata/name").unwrap_or_default().to_owned();
    match (act.resource.group.as_str(), act.resource.plural.as_str()) {
        ("", "namespaces") => {
            object["spec"]["finalizers"] = json!(["kubernetes"]);
            object["status"] = json!({"phase": "Active"});
            map_at(object, &["metadata", "labels"]).insert("kubernetes.io/metadata.name".to_owned(), json!(name));
        }
        ("apiextensions.k8s.io", "customresourcedefinitions") => add_finalizer(object, definitions::FINALIZER),
        ("apis.kcp.io", "apibindings") => {
            bindings::check_export(act, object)?;
            add_finalizer(object, bindings::FINALIZER);
            object["status"] = json!({"phase": "Binding"});
        }
        ("tenancy.kcp.io", "workspaces") => {
            add_finalizer(object, workspaces::FINALIZER);
            object["status"] = json!({"phase": "Scheduling"});
        }
        ("core.kcp.io", "logicalclusters") => {
            return Err(act.forbidden(&name, "LogicalCluster cannot be created"));
        }
        _ => {}
    }
    on_write(act, object);
    Ok(())
}

/// Sets the defaults of every write.
pub(crate) fn on_write(act: &Act<'_>, object: &mut Value) {
    if act.resource.is("admissionregistration.k8s.io", "validatingwebhookconfigurations") {
        default_webhooks(object);
    }
}

/// Refuses a change of fields that are immutable.
pub(crate) fn on_update(act: &Act<'_>, old: &Value, new: &Value) -> ApiResult<()> {
    let field = match act.resource.plural.as_str() {
        "apibindings" if act.resource.group == "apis.kcp.io" => "reference",
        "apiresourceschemas" if act.resource.group == "apis.kcp.io" => "",
        _ => return Ok(()),
    };
    let pointer = if field.is_empty() { "/spec".to_owned() } else { format!("/spec/{field}") };
    if old.pointer(&pointer) == new.pointer(&pointer) {
        return Ok(());
    }
    let name = text(old, "/metadata/name").unwrap_or_default();
    let field = pointer.trim_start_matches('/').replace('/', ".");
    let cause = Cause::new("FieldValueInvalid", &field, "Invalid value: field is immutable");
    Err(ApiError::invalid(&act.resource.group, &act.resource.kind, name, &[cause]))
}

/// Sets the defaults that an API server writes into webhook configurations. A client that applies a configuration and
/// reads it back must cope with them.
fn default_webhooks(object: &mut Value) {
    let Some(webhooks) = object.get_mut("webhooks").and_then(Value::as_array_mut) else {
        return;
    };
    for webhook in webhooks.iter_mut().filter_map(Value::as_object_mut) {
        for (field, value) in [
            ("failurePolicy", json!("Fail")),
            ("matchPolicy", json!("Equivalent")),
            ("namespaceSelector", json!({})),
            ("objectSelector", json!({})),
            ("timeoutSeconds", json!(10)),
        ] {
            webhook.entry(field).or_insert(value);
        }
        for rule in webhook.get_mut("rules").and_then(Value::as_array_mut).into_iter().flatten() {
            if rule.is_object() && rule.get("scope").is_none() {
                rule["scope"] = json!("*");
            }
        }
    }
}

//! Fields that the server sets in certain kinds, and fields that nobody may change.

use serde_json::{Value, json};

use crate::protocol::json::{add_finalizer, map_at, text};
use crate::protocol::status::{ApiError, ApiResult, Cause};
use crate::request::act::Act;
use crate::request::view::{Export, stored_export};
use crate::world::ROOT;

/// Finalizer that holds a terminating CRD until its objects are gone.
pub(crate) const DEFINITION_FINALIZER: &str = "customresourcecleanup.apiextensions.k8s.io";
/// Finalizer that holds a terminating binding until its objects are gone.
pub(crate) const BINDING_FINALIZER: &str = "apis.kcp.io/apibinding-finalizer";
/// Finalizer that holds a terminating workspace until its logical cluster is gone.
pub(crate) const WORKSPACE_FINALIZER: &str = "core.kcp.io/logicalcluster";

pub(crate) fn on_create(act: &Act<'_>, object: &mut Value) -> ApiResult<()> {
    let name = text(object, "/metadata/name").unwrap_or_default().to_owned();
    match (act.resource.group.as_str(), act.resource.plural.as_str()) {
        ("", "namespaces") => {
            object["spec"]["finalizers"] = json!(["kubernetes"]);
            object["status"] = json!({"phase": "Active"});
            map_at(object, &["metadata", "labels"]).insert("kubernetes.io/metadata.name".to_owned(), json!(name));
        }
        ("apiextensions.k8s.io", "customresourcedefinitions") => add_finalizer(object, DEFINITION_FINALIZER),
        ("apis.kcp.io", "apibindings") => {
            check_export(act, object)?;
            add_finalizer(object, BINDING_FINALIZER);
            object["status"] = json!({"phase": "Binding"});
        }
        ("tenancy.kcp.io", "workspaces") => {
            add_finalizer(object, WORKSPACE_FINALIZER);
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

/// Refuses a binding to a missing export of another workspace. An export of the same workspace may be created later.
fn check_export(act: &Act<'_>, binding: &Value) -> ApiResult<()> {
    let Some(path) = text(binding, "/spec/reference/export/path") else { return Ok(()) };
    let export = text(binding, "/spec/reference/export/name").unwrap_or_default();
    let found = |cluster| stored_export(act.world, &Export { cluster, name: export.to_owned() });
    if path == ROOT || act.world.cluster_of(path).and_then(found).is_some() {
        return Ok(());
    }
    let why = format!("unable to create APIBinding: no permission to bind to export {path}:{export}");
    Err(act.forbidden(text(binding, "/metadata/name").unwrap_or_default(), &why))
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

//! Server-side apply, as far as depguard uses it. Fields that a manager applied before and applies no longer are
//! removed; the others are merged. Fields never conflict: the server acts as if `force` were set.

use std::sync::Arc;

use serde_json::{Map, Value, json};

use crate::protocol::json::{array, map_at, now, text};
use crate::protocol::status::{ApiError, ApiResult, Cause};
use crate::request::act::Act;
use crate::write;

/// Lists whose items are identified by a key. Every other list is replaced as a whole.
const KEYED: &[(&str, &str)] =
    &[("webhooks", "name"), ("matchConditions", "name"), ("conditions", "type"), ("ownerReferences", "uid")];

pub(crate) async fn apply(
    act: &Act<'_>,
    name: &str,
    subresource: Option<&str>,
    patch: &Value,
) -> ApiResult<(u16, Arc<Value>)> {
    let Some(manager) = act.manager else {
        let why = "Required value: is required for apply patch";
        let cause = Cause::new("FieldValueRequired", "fieldManager", why);
        return Err(ApiError::invalid("meta.k8s.io", "PatchOptions", "", &[cause]));
    };
    let (kind, version) = (text(patch, "/kind"), text(patch, "/apiVersion"));
    if kind != Some(&act.resource.kind) || version != Some(&act.resource.api_version()) {
        let (kind, version) = (kind.unwrap_or_default(), version.unwrap_or_default());
        return Err(ApiError::bad_request(format!("invalid object type: {version}, Kind={kind}")));
    }
    let mut applied = patch.clone();
    map_at(&mut applied, &["metadata"]).insert("name".to_owned(), json!(name));
    let owned = owned_fields(&applied);
    if act.world.store.get(&act.key(name)).is_none() {
        if subresource.is_some() {
            return Err(act.not_found(name));
        }
        if let Some(denied) = &act.no_creation {
            return Err(denied.clone());
        }
        let created = write::create(act, with_manager(applied.clone(), act, manager, subresource, &owned)).await;
        match created {
            Err(error) if error.status["reason"] == "AlreadyExists" => {}
            created => return created.map(|object| (201, object)),
        }
    }
    let updated = write::update(act, name, subresource, |old| {
        let mut object = old.clone();
        if let Some(before) = fields_before(old, manager, subresource) {
            let others: Vec<&Value> = fields_of_others(old, manager, subresource).collect();
            remove_abandoned(&mut object, before, &owned, &others);
        }
        merge(&mut object, &applied, "");
        if applied.pointer("/metadata/resourceVersion").is_none() {
            map_at(&mut object, &["metadata"]).insert("resourceVersion".to_owned(), json!(""));
        }
        Ok(with_manager(object, act, manager, subresource, &owned))
    });
    Ok((200, updated.await?))
}

/// Records which fields the manager owns. Updates the time only if that changed.
fn with_manager(mut object: Value, act: &Act<'_>, manager: &str, subresource: Option<&str>, owned: &Value) -> Value {
    let mut entries: Vec<Value> = array(&object, "/metadata/managedFields").to_vec();
    let mine = |entry: &Value| is_managers(entry, manager, subresource);
    if entries.iter().any(|entry| mine(entry) && entry["fieldsV1"] == *owned) {
        return object;
    }
    entries.retain(|entry| !mine(entry));
    let mut entry = json!({
        "manager": manager, "operation": "Apply", "apiVersion": act.resource.api_version(),
        "time": now(), "fieldsType": "FieldsV1", "fieldsV1": owned,
    });
    if let Some(subresource) = subresource {
        entry["subresource"] = json!(subresource);
    }
    entries.push(entry);
    map_at(&mut object, &["metadata"]).insert("managedFields".to_owned(), Value::Array(entries));
    object
}

fn is_managers(entry: &Value, manager: &str, subresource: Option<&str>) -> bool {
    entry["manager"] == manager && entry["operation"] == "Apply" && text(entry, "/subresource") == subresource
}

fn fields_before<'a>(object: &'a Value, manager: &str, subresource: Option<&str>) -> Option<&'a Value> {
    let entries = array(object, "/metadata/managedFields");
    entries.iter().find(|entry| is_managers(entry, manager, subresource)).map(|entry| &entry["fieldsV1"])
}

fn fields_of_others<'a>(
    object: &'a Value,
    manager: &'a str,
    subresource: Option<&'a str>,
) -> impl Iterator<Item = &'a Value> {
    let entries = array(object, "/metadata/managedFields").iter();
    entries.filter(move |entry| !is_managers(entry, manager, subresource)).map(|entry| &entry["fieldsV1"])
}

/// Returns the `fieldsV1` of an applied object: `f:<field>`, and `k:{"name":"x"}` in keyed lists.
fn owned_fields(applied: &Value) -> Value {
    let mut fields = fields_of(applied, "");
    for field in ["f:apiVersion", "f:kind"] {
        map_at(&mut fields, &[]).remove(field);
    }
    if let Some(metadata) = fields.get_mut("f:metadata").and_then(Value::as_object_mut) {
        for field in ["f:name", "f:namespace", "f:resourceVersion", "f:uid"] {
            metadata.remove(field);
        }
        if metadata.is_empty() {
            map_at(&mut fields, &[]).remove("f:metadata");
        }
    }
    fields
}

fn fields_of(value: &Value, field: &str) -> Value {
    match (value, key_of_list(field)) {
        (Value::Object(members), _) => {
            members.iter().map(|(name, value)| (format!("f:{name}"), fields_of(value, name))).collect()
        }
        (Value::Array(items), Some(key)) => {
            items.iter().map(|item| (item_key(item, key), fields_of(item, ""))).collect()
        }
        _ => json!({}),
    }
}

/// Removes the fields that this manager owned before and owns no longer, unless another manager owns them.
fn remove_abandoned(object: &mut Value, before: &Value, now: &Value, others: &[&Value]) {
    let Some(before) = before.as_object() else {
        return;
    };
    for (step, inner) in before {
        let theirs: Vec<&Value> = others.iter().filter_map(|other| other.get(step)).collect();
        let now = now.get(step);
        if now.is_none() && theirs.is_empty() {
            remove_child(object, step);
        } else if let Some(child) = child_mut(object, step) {
            remove_abandoned(child, inner, now.unwrap_or(&Value::Null), &theirs);
        }
    }
}

fn child_mut<'a>(object: &'a mut Value, step: &str) -> Option<&'a mut Value> {
    if let Some(field) = step.strip_prefix("f:") {
        return object.get_mut(field);
    }
    object.as_array_mut()?.iter_mut().find(|item| is_item(item, step))
}

fn remove_child(object: &mut Value, step: &str) {
    match object {
        Value::Object(fields) => {
            fields.remove(step.trim_start_matches("f:"));
        }
        Value::Array(items) => items.retain(|item| !is_item(item, step)),
        _ => {}
    }
}

fn is_item(item: &Value, step: &str) -> bool {
    KEYED.iter().any(|(_, key)| item.get(*key).is_some() && item_key(item, key) == step)
}

fn item_key(item: &Value, key: &str) -> String {
    let mut one = Map::new();
    one.insert(key.to_owned(), item[key].clone());
    format!("k:{}", Value::Object(one))
}

fn key_of_list(field: &str) -> Option<&'static str> {
    KEYED.iter().find(|(list, _)| *list == field).map(|(_, key)| *key)
}

fn merge(into: &mut Value, applied: &Value, field: &str) {
    match (&mut *into, applied) {
        (Value::Object(fields), Value::Object(applied)) => {
            for (name, value) in applied {
                merge(fields.entry(name.clone()).or_insert(Value::Null), value, name);
            }
        }
        (Value::Array(items), Value::Array(applied)) if key_of_list(field).is_some() => {
            let key = key_of_list(field).unwrap_or_default();
            for item in applied {
                match items.iter_mut().find(|known| known[key] == item[key]) {
                    Some(known) => merge(known, item, ""),
                    None => items.push(item.clone()),
                }
            }
        }
        _ => *into = applied.clone(),
    }
}

//! Lists as tables: the server evaluates the columns that the schema prints.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use serde_json::{Value, json};

use crate::kinds::Resource;
use crate::protocol::json::{seconds, text};
use crate::read::form::Include;
use crate::store::Object;

const NAME: &str = "Name must be unique within a namespace. Is required when creating resources, although some \
resources may allow a client to request the generation of an appropriate name automatically. Name is primarily intended \
for creation idempotence and configuration definition. Cannot be updated. More info: \
https://kubernetes.io/docs/concepts/overview/working-with-objects/names#names";

/// Returns the text of a `metav1.Table` of the objects.
pub(crate) fn render(resource: &Resource, metadata: &Value, objects: &[Arc<Object>], include: Include) -> String {
    let columns = columns(resource);
    let mut definitions = vec![json!({
        "name": "Name", "type": "string", "format": "name", "description": NAME, "priority": 0,
    })];
    definitions.extend(columns.iter().map(|column| {
        let default = format!("Custom resource definition column (in JSONPath format): {}", path_of(column));
        json!({
            "name": column["name"], "type": column["type"],
            "format": text(column, "/format").unwrap_or_default(),
            "description": text(column, "/description").unwrap_or(&default),
            "priority": column["priority"].as_u64().unwrap_or(0),
        })
    }));
    let rows: Vec<String> = rows(resource, &columns, objects, include).collect();
    format!(
        "{{\"kind\":\"Table\",\"apiVersion\":\"meta.k8s.io/v1\",\"metadata\":{metadata},\"columnDefinitions\":{},\
         \"rows\":[{}]}}\n",
        Value::Array(definitions),
        rows.join(","),
    )
}

/// Returns the schema's columns, or the age if there are none.
fn columns(resource: &Resource) -> Vec<Value> {
    let declared = resource.columns();
    if !declared.is_empty() {
        return declared.to_vec();
    }
    let description = "CreationTimestamp is a timestamp representing the server time when this object was created.";
    vec![json!({
        "name": "Age", "type": "date", "description": description, "jsonPath": ".metadata.creationTimestamp",
    })]
}

fn rows(
    resource: &Resource,
    columns: &[Value],
    objects: &[Arc<Object>],
    include: Include,
) -> impl Iterator<Item = String> {
    let mut hasher = DefaultHasher::new();
    columns.iter().for_each(|column| (column["type"].as_str(), path_of(column)).hash(&mut hasher));
    // An age differs each time, so its cells can't be kept.
    let lasting = columns.iter().all(|column| column["type"] != "date");
    let known = hasher.finish();
    let (kind, version) = (json!(resource.kind), json!(resource.api_version()));
    objects.iter().map(move |object| {
        let make = |value: &Value| cells(columns, value);
        let cells = if lasting { object.cells(known, make) } else { make(&object.value()).into() };
        let shown = match include {
            Include::Nothing => "null".to_owned(),
            Include::Object => format!("{{\"apiVersion\":{version},\"kind\":{kind},{}}}", object.text().members()),
            Include::Metadata => format!(
                "{{\"kind\":\"PartialObjectMetadata\",\"apiVersion\":\"meta.k8s.io/v1\",{}}}",
                object.text().metadata()
            ),
        };
        format!("{{\"cells\":{cells},\"object\":{shown}}}")
    })
}

fn cells(columns: &[Value], object: &Value) -> String {
    let name = object["metadata"]["name"].clone();
    let cells = columns.iter().map(|column| cell(column, object));
    Value::from_iter([name].into_iter().chain(cells)).to_string()
}

/// Returns the first result of the column's path, if it has the column's type.
fn cell(column: &Value, object: &Value) -> Value {
    let Some(found) = first(object, path_of(column)) else {
        return Value::Null;
    };
    let is_right = match column["type"].as_str() {
        Some("integer") => found.is_i64() || found.is_u64(),
        Some("number") => found.is_number(),
        Some("boolean") => found.is_boolean(),
        Some("date") => return found.as_str().map_or(Value::Null, |time| json!(age(time))),
        _ => {
            return match found {
                Value::Null => Value::Null,
                Value::String(text) => json!(text),
                other => json!(other.to_string()),
            };
        }
    };
    if is_right { found.clone() } else { Value::Null }
}

fn path_of(column: &Value) -> &str {
    text(column, "/jsonPath").unwrap_or_default()
}

/// Returns the first result of a path of names, `[*]`, `[0]`, `['name']` and `[?(@.type=="Ready")]`.
fn first<'a>(value: &'a Value, path: &str) -> Option<&'a Value> {
    let path = path.trim_start_matches('.');
    if path.is_empty() {
        return Some(value);
    }
    if let Some((filter, rest)) = path.strip_prefix("[?(@.").and_then(|rest| rest.split_once(")]")) {
        let (field, expected) = filter.split_once("==")?;
        let expected = expected.trim().trim_matches(['"', '\'']);
        let is_match = |item: &&Value| first(item, field.trim()).is_some_and(|found| found == expected);
        return value.as_array()?.iter().filter(is_match).find_map(|item| first(item, rest));
    }
    if let Some((index, rest)) = path.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        return match index {
            "*" => value.as_array()?.iter().find_map(|item| first(item, rest)),
            quoted if quoted.starts_with('\'') => first(value.get(quoted.trim_matches('\''))?, rest),
            index => first(value.as_array()?.get(index.parse::<usize>().ok()?)?, rest),
        };
    }
    let end = path.find(['.', '[']).unwrap_or(path.len());
    let (name, rest) = path.split_at(end);
    first(value.get(name)?, rest)
}

/// Returns the age like `kubectl`, but coarser.
fn age(time: &str) -> String {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
    let Some(then) = seconds(time) else { return "<invalid>".to_owned() };
    match now.saturating_sub(then) {
        passed @ 0..120 => format!("{passed}s"),
        passed @ 120..7_200 => format!("{}m", passed / 60),
        passed @ 7_200..172_800 => format!("{}h", passed / 3_600),
        passed => format!("{}d", passed / 86_400),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_column_may_pick_an_item_of_a_list_by_one_of_its_fields() {
        let object = json!({"status": {"conditions": [
            {"type": "Accepted", "status": "False"}, {"type": "Enforced", "status": "True"},
        ]}});
        let found = |path| first(&object, path).and_then(Value::as_str);
        assert_eq!(found(".status.conditions[?(@.type==\"Enforced\")].status"), Some("True"));
        assert_eq!(found(".status.conditions[?(@.type=='Accepted')].status"), Some("False"));
        assert_eq!(found(".status.conditions[?(@.type==\"Programmed\")].status"), None);
    }
}

//! Structural schemas, which API servers take, from the schemas that wire types derive.

use schemars::generate::SchemaSettings;
use schemars::transform::{RecursiveTransform, Transform};
use schemars::{Schema, SchemaGenerator};
use serde_json::{Map, Value, json};

/// Returns the structural schema of a wire type from its `json_schema`.
///
/// There are no defaults in it: a field that an API server fills in makes a stored rule unreadable for a webhook that
/// is older than this field.
pub(super) fn structural(json_schema: impl FnOnce(&mut SchemaGenerator) -> Schema) -> Value {
    let settings = SchemaSettings::default().with(|settings| settings.inline_subschemas = true);
    let mut schema = json_schema(&mut settings.into_generator());
    RecursiveTransform(simplify).transform(&mut schema);
    schema.to_value()
}

fn simplify(schema: &mut Schema) {
    let Some(fields) = schema.as_object_mut() else { return };
    drop_null(fields);
    // Structural schemas have none of these, and API servers prune unknown fields anyway.
    fields.retain(|key, value| match key.as_str() {
        "default" | "uniqueItems" | "writeOnly" => false,
        "additionalProperties" => *value != json!(false),
        "minLength" => *value != json!(0),
        _ => true,
    });
    if let Some(Value::String(description)) = fields.get_mut("description") {
        *description = plain(description);
    }
    enumerate(fields);
}

/// Removes null from the allowed values: API servers drop a null where it is not allowed.
fn drop_null(fields: &mut Map<String, Value>) {
    let is_null = |schema: &Value| schema.get("type") == Some(&json!("null"));
    if let Some(Value::Array(either)) = fields.remove("anyOf")
        && let Some(Value::Object(value)) = either.into_iter().find(|schema| !is_null(schema))
    {
        // The field's own description stands before the type's.
        for (key, value) in value {
            fields.entry(key).or_insert(value);
        }
    }
    if let Some(Value::Array(types)) = fields.get("type")
        && let Some(only) = types.iter().find(|name| **name != "null").cloned()
    {
        fields.insert("type".to_owned(), only);
    }
    if let Some(Value::Array(values)) = fields.get_mut("enum") {
        values.retain(|value| !value.is_null());
    }
}

/// Writes documented variants as one list of values, and what each means into the description.
fn enumerate(fields: &mut Map<String, Value>) {
    let Some(Value::Array(variants)) = fields.remove("oneOf") else { return };
    let text = |of: &Value, key: &str| of.get(key).and_then(Value::as_str).unwrap_or_default().to_owned();
    let told = |variant: &Value| format!("\n- {}: {}", text(variant, "const"), plain(&text(variant, "description")));
    let own = fields.get("description").and_then(Value::as_str).unwrap_or_default();
    let description = own.to_owned() + &variants.iter().map(told).collect::<String>();
    let values: Vec<_> = variants.iter().map(|variant| text(variant, "const")).collect();
    let more = [("type", json!("string")), ("enum", json!(values)), ("description", json!(description))];
    fields.extend(more.map(|(key, value)| (key.to_owned(), value)));
}

/// Returns a doc comment as one line, without the marks of code.
fn plain(text: &str) -> String {
    text.replace('`', "").split_whitespace().collect::<Vec<_>>().join(" ")
}

//! Small structural check of objects whose kind has an OpenAPI schema: unknown fields are pruned, and plain errors are
//! refused. CEL rules are not evaluated.

use regex::Regex;
use serde_json::{Map, Value, json};

use crate::kinds::Resource;
use crate::protocol::status::{ApiError, ApiResult, Cause};

const METADATA: [&str; 3] = ["apiVersion", "kind", "metadata"];

/// Prunes and defaults the object, then checks it.
pub(crate) fn check(resource: &Resource, object: &mut Value, name: &str) -> ApiResult<()> {
    let Some(schema) = resource.schema() else {
        return Ok(());
    };
    prune(schema, object, true);
    let mut causes = Vec::new();
    validate(schema, object, &mut Vec::new(), &mut causes);
    if causes.is_empty() {
        return Ok(());
    }
    Err(ApiError::invalid(&resource.group, &resource.kind, name, &causes))
}

fn prune(schema: &Value, value: &mut Value, is_object_root: bool) {
    let preserve = schema["x-kubernetes-preserve-unknown-fields"] == true;
    match value {
        Value::Object(fields) => {
            let known = schema["properties"].as_object();
            let others = &schema["additionalProperties"];
            if others.is_object() {
                fields.values_mut().for_each(|value| prune(others, value, false));
                return;
            }
            let rooted = is_object_root || schema["x-kubernetes-embedded-resource"] == true;
            fields.retain(|name, _| {
                preserve
                    || others == true
                    || known.is_some_and(|known| known.contains_key(name))
                    || rooted && METADATA.contains(&name.as_str())
            });
            let Some(known) = known else { return };
            default(known, fields);
            for (name, value) in fields.iter_mut() {
                let is_own_metadata = rooted && name == "metadata";
                if let Some(schema) = known.get(name)
                    && !is_own_metadata
                {
                    prune(schema, value, false);
                }
            }
        }
        Value::Array(items) => items.iter_mut().for_each(|item| prune(&schema["items"], item, false)),
        _ => {}
    }
}

fn default(known: &Map<String, Value>, fields: &mut Map<String, Value>) {
    for (name, schema) in known {
        if let Some(default) = schema.get("default")
            && !fields.contains_key(name)
        {
            fields.insert(name.clone(), default.clone());
        }
    }
}

fn validate(schema: &Value, value: &Value, path: &mut Vec<String>, causes: &mut Vec<Cause>) {
    if value.is_null() && schema["nullable"] == true {
        return;
    }
    let field = || {
        if path.is_empty() { "<nil>".to_owned() } else { path.join(".").replace(".[", "[") }
    };
    let mut invalid = |said: String| {
        causes.push(Cause { reason: "FieldValueInvalid", field: field(), message: format!("Invalid value: {said}") });
    };
    if let Some(expected) = schema["type"].as_str()
        && schema["x-kubernetes-int-or-string"] != true
        && !has_type(value, expected)
    {
        let is = type_of(value);
        let message = format!("Invalid value: \"{is}\": {} in body must be of type {expected}: \"{is}\"", field());
        causes.push(Cause { reason: "FieldValueTypeInvalid", field: field(), message });
        return;
    }
    if let Some(allowed) = schema["enum"].as_array()
        && !allowed.contains(value)
    {
        let allowed: Vec<String> = allowed.iter().map(Value::to_string).collect();
        let message = format!("Unsupported value: {value}: supported values: {}", allowed.join(", "));
        causes.push(Cause { reason: "FieldValueNotSupported", field: field(), message });
        return;
    }
    match value {
        Value::String(text) => validate_text(schema, text, &mut invalid, &field()),
        Value::Number(number) => {
            let number = number.as_f64().unwrap_or(f64::NAN);
            if schema["minimum"].as_f64().is_some_and(|least| number < least) {
                invalid(format!(
                    "{value}: {} in body should be greater than or equal to {}",
                    field(),
                    schema["minimum"]
                ));
            }
            if schema["maximum"].as_f64().is_some_and(|most| number > most) {
                invalid(format!("{value}: {} in body should be less than or equal to {}", field(), schema["maximum"]));
            }
        }
        Value::Array(items) => {
            if schema["minItems"].as_u64().is_some_and(|least| (items.len() as u64) < least) {
                invalid(format!(
                    "{}: {} in body should have at least {} items",
                    items.len(),
                    field(),
                    schema["minItems"]
                ));
            }
            if schema["maxItems"].as_u64().is_some_and(|most| items.len() as u64 > most) {
                let message = format!("Too many: {}: must have at most {} items", items.len(), schema["maxItems"]);
                causes.push(Cause { reason: "FieldValueTooMany", field: field(), message });
                return;
            }
            for (index, item) in items.iter().enumerate() {
                path.push(format!("[{index}]"));
                validate(&schema["items"], item, path, causes);
                path.pop();
            }
        }
        Value::Object(fields) => validate_object(schema, fields, path, causes),
        _ => {}
    }
}

fn validate_object(schema: &Value, fields: &Map<String, Value>, path: &mut Vec<String>, causes: &mut Vec<Cause>) {
    for required in schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str) {
        if !fields.contains_key(required) {
            path.push(required.to_owned());
            let field = path.join(".").replace(".[", "[");
            causes.push(Cause { reason: "FieldValueRequired", field, message: "Required value".to_owned() });
            path.pop();
        }
    }
    for (name, value) in fields {
        if path.is_empty() && METADATA.contains(&name.as_str()) {
            continue;
        }
        let others = &schema["additionalProperties"];
        let schema = schema["properties"].get(name).unwrap_or(others);
        path.push(name.clone());
        validate(schema, value, path, causes);
        path.pop();
    }
}

fn validate_text(schema: &Value, text: &str, invalid: &mut impl FnMut(String), field: &str) {
    let length = text.chars().count() as u64;
    let quoted = json!(text);
    if schema["minLength"].as_u64().is_some_and(|least| length < least) {
        invalid(format!("{quoted}: {field} in body should be at least {} chars long", schema["minLength"]));
    }
    if schema["maxLength"].as_u64().is_some_and(|most| length > most) {
        invalid(format!("{quoted}: {field} in body should be at most {} chars long", schema["maxLength"]));
    }
    if let Some(pattern) = schema["pattern"].as_str()
        && !Regex::new(pattern).is_ok_and(|pattern| pattern.is_match(text))
    {
        invalid(format!("{quoted}: {field} in body should match '{pattern}'"));
    }
}

fn has_type(value: &Value, expected: &str) -> bool {
    match expected {
        "object" => value.is_object(),
        "array" => value.is_array(),
        "string" => value.is_string(),
        "boolean" => value.is_boolean(),
        "integer" => value.as_f64().is_some_and(|number| number.fract() == 0.0),
        "number" => value.is_number(),
        _ => true,
    }
}

fn type_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(number) if number.is_f64() => "number",
        Value::Number(_) => "integer",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

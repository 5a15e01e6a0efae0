//! Fields of a schema that may refer: strings, and objects with a name.

use serde_json::{Map, Value};

use super::conventions::NEVER;
use crate::engine::rule_draft::segment;

/// String or object, or a list or map of these.
pub(super) struct Field<'s> {
    /// Name of the property.
    pub(super) name: &'s str,
    /// Name of the property around it.
    pub(super) around: &'s str,
    /// Path of the string or object.
    pub(super) path: String,
    /// Path of the object that has the property.
    pub(super) base: String,
    pub(super) schema: &'s Value,
    /// All properties of the object that has the property, including this one.
    pub(super) beside: &'s Map<String, Value>,
    /// True if the property is a list or a map.
    pub(super) many: bool,
}

/// Visits all fields that an object's owner writes: nothing in `status`, and nothing in any metadata.
pub(super) fn each<'s>(schema: &'s Value, visit: &mut dyn FnMut(&Field<'s>)) {
    let Some(properties) = properties(schema) else { return };
    for (name, schema) in properties {
        if !["apiVersion", "kind", "status"].contains(&name.as_str()) {
            property(name, schema, "", properties, "", visit);
        }
    }
}

fn property<'s>(
    name: &'s str,
    schema: &'s Value,
    base: &str,
    beside: &'s Map<String, Value>,
    around: &'s str,
    visit: &mut dyn FnMut(&Field<'s>),
) {
    if NEVER.contains(&name) {
        return;
    }
    let mut path = format!("{base}{}", segment(name));
    let (mut schema, mut many) = (schema, false);
    while let Some(inner) = element(schema) {
        (schema, many) = (inner, true);
        path.push_str("[*]");
    }
    visit(&Field { name, around, path: path.clone(), base: base.to_owned(), schema, beside, many });
    let Some(inside) = properties(schema) else { return };
    for (inner, schema) in inside {
        property(inner, schema, &path, inside, name, visit);
    }
}

/// Returns the schema of a list's or map's elements.
fn element(schema: &Value) -> Option<&Value> {
    let of_list = schema.get("items").filter(|_| schema.get("type").and_then(Value::as_str) == Some("array"));
    let of_map = schema.get("additionalProperties").filter(|_| schema.get("properties").is_none());
    of_list.or(of_map).filter(|inner| inner.is_object())
}

/// Returns the properties of an object.
pub(super) fn properties(schema: &Value) -> Option<&Map<String, Value>> {
    schema.get("properties")?.as_object()
}

/// Returns true if a field is a string that may hold any name.
pub(super) fn is_name(schema: &Value) -> bool {
    is_text(schema) && schema.get("enum").is_none() && schema.get("format").is_none()
}

/// Returns true if a field is a string.
pub(super) fn is_text(schema: &Value) -> bool {
    schema.get("type").and_then(Value::as_str) == Some("string")
}

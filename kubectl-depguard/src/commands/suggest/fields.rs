//! The fields of a schema that may refer: strings, and objects that hold a name.

use serde_json::{Map, Value};

use super::conventions::NEVER;
use crate::draft::segment;

/// No more `[*]` than a path may have.
const MOST_WILDCARDS: usize = depguard_core::FieldPath::MAX_WILDCARDS;

/// A string, an object, or lists and maps of them.
pub(super) struct Field<'s> {
    /// The property's name, without the lists and maps that it is.
    pub(super) name: &'s str,
    /// The name of the property around it.
    pub(super) around: &'s str,
    /// Leads to the string, or to the object.
    pub(super) path: String,
    /// The path of the object that it is a property of.
    pub(super) base: String,
    pub(super) schema: &'s Value,
    /// The properties beside it, and itself.
    pub(super) beside: &'s Map<String, Value>,
    /// Whether it is a list or a map.
    pub(super) many: bool,
}

/// All fields of an object that its owner writes: nothing of `status`, and nothing of any metadata.
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
    if path.matches("[*]").count() > MOST_WILDCARDS {
        return;
    }
    visit(&Field { name, around, path: path.clone(), base: base.to_owned(), schema, beside, many });
    let Some(inside) = properties(schema) else { return };
    for (inner, schema) in inside {
        property(inner, schema, &path, inside, name, visit);
    }
}

/// What a list or a map holds.
fn element(schema: &Value) -> Option<&Value> {
    let of_list = schema.get("items").filter(|_| schema.get("type").and_then(Value::as_str) == Some("array"));
    let of_map = schema.get("additionalProperties").filter(|_| schema.get("properties").is_none());
    of_list.or(of_map).filter(|inner| inner.is_object())
}

/// The properties of an object.
pub(super) fn properties(schema: &Value) -> Option<&Map<String, Value>> {
    schema.get("properties")?.as_object()
}

/// Whether a field is a string that may hold any name.
pub(super) fn is_name(schema: &Value) -> bool {
    is_text(schema) && schema.get("enum").is_none() && schema.get("format").is_none()
}

/// Whether a field is a string.
pub(super) fn is_text(schema: &Value) -> bool {
    schema.get("type").and_then(Value::as_str) == Some("string")
}

//! Validation of a rule's text against the schema of DependencyRules, like a strict API server's: it finds unknown
//! fields, missing fields, and fields of another type. It finds all at once, while reading a rule stops at the first.

use serde_json::{Map, Value};

use super::nearest;

/// Deviation from the schema.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Flaw {
    /// Path of the field: `spec.dependencies[0].fieldRef.pth`.
    pub(super) field: String,
    /// True if the schema has no such field; otherwise the field is missing, or of another type.
    pub(super) is_unknown: bool,
    /// True if the schema requires the field, and the object lacks it.
    pub(super) is_missing: bool,
    pub(super) message: String,
}

/// Returns the flaws of an object, and the object without its unknown fields.
pub(super) fn check(object: &Value, schema: &Value) -> (Value, Vec<Flaw>) {
    let mut object = object.clone();
    let mut walk = SchemaVisitor { root: schema, flaws: Vec::new() };
    walk.check(&mut object, schema, "");
    (object, walk.flaws)
}

struct SchemaVisitor<'s> {
    root: &'s Value,
    flaws: Vec<Flaw>,
}

impl SchemaVisitor<'_> {
    fn check(&mut self, value: &mut Value, schema: &Value, field: &str) {
        let required = schema.get("type").and_then(Value::as_str).unwrap_or_default();
        match (required, value) {
            ("object", Value::Object(fields)) => self.check_fields(fields, schema, field),
            ("array", Value::Array(items)) => {
                let Some(schema) = schema.get("items") else { return };
                for (index, item) in items.iter_mut().enumerate() {
                    self.check(item, schema, &format!("{field}[{index}]"));
                }
            }
            ("string", Value::String(text)) => self.check_choice(text, schema, field),
            ("boolean", Value::Bool(_)) | ("integer", Value::Number(_)) | ("", _) => {}
            (_, value) => {
                let is = match value {
                    Value::Null => "empty",
                    Value::Bool(_) => "true or false",
                    Value::Number(_) => "a number",
                    Value::String(_) => "a text",
                    Value::Array(_) => "a list",
                    Value::Object(_) => "a map",
                };
                let (required, todo) = match required {
                    "object" => ("a map", "write its fields below it, indented"),
                    "array" => ("a list", "begin each entry with `- `"),
                    "boolean" => ("true or false", "write one of them, without quotes"),
                    "integer" => ("a whole number", "write one, without quotes"),
                    _ => ("a text", "write one, in quotes"),
                };
                self.flaw(field, false, format!("{field} is {is}, but must be {required}: {todo}"));
            }
        }
    }

    fn check_fields(&mut self, fields: &mut Map<String, Value>, schema: &Value, at: &str) {
        let inner = |name: &str| if at.is_empty() { name.to_owned() } else { format!("{at}.{name}") };
        // An API server treats an empty field as an absent one.
        fields.retain(|_, value| !value.is_null());
        let required = schema.get("required").and_then(Value::as_array).into_iter().flatten();
        for name in required.filter_map(Value::as_str).filter(|name| !fields.contains_key(*name)) {
            let (field, message) = (inner(name), format!("{} is missing: write it", inner(name)));
            self.flaws.push(Flaw { field, is_unknown: false, is_missing: true, message });
        }
        if let Some(schema) = schema.get("additionalProperties") {
            for (name, value) in fields {
                self.check(value, schema, &inner(name));
            }
            return;
        }
        let Some(known) = schema.get("properties").and_then(Value::as_object) else { return };
        let unknown: Vec<_> = fields.keys().filter(|name| !known.contains_key(*name)).cloned().collect();
        for name in unknown {
            fields.remove(&name);
            let todo = match (nearest::name(&name, known.keys().map(String::as_str)), place_of(self.root, &name, "")) {
                (Some(nearest), _) => format!("write `{nearest}` if you mean that, or remove it"),
                (None, Some(place)) => format!("write it as {place}"),
                (None, None) => "remove it, or see docs/rules.md for all fields".to_owned(),
            };
            self.flaw(&inner(&name), true, format!("there is no field {}: {todo}", inner(&name)));
        }
        for (name, value) in fields {
            if let Some(schema) = known.get(name) {
                self.check(value, schema, &inner(name));
            }
        }
    }

    fn check_choice(&mut self, text: &str, schema: &Value, field: &str) {
        let Some(choices) = schema.get("enum").and_then(Value::as_array) else { return };
        let choices: Vec<_> = choices.iter().filter_map(Value::as_str).collect();
        if !choices.contains(&text) {
            let all = choices.join(", ");
            self.flaw(field, false, format!("{field} is `{text}`: write one of {all}"));
        }
    }

    fn flaw(&mut self, field: &str, is_unknown: bool, message: String) {
        self.flaws.push(Flaw { field: field.to_owned(), is_unknown, is_missing: false, message });
    }
}

/// Returns the path at which the schema has a field of that name, the first from the top: the field was written at the
/// wrong depth.
fn place_of(schema: &Value, name: &str, at: &str) -> Option<String> {
    if let Some(items) = schema.get("items") {
        return place_of(items, name, &format!("{at}[]"));
    }
    let known = schema.get("properties").and_then(Value::as_object)?;
    let inner = |name: &str| if at.is_empty() { name.to_owned() } else { format!("{at}.{name}") };
    if known.contains_key(name) {
        return Some(inner(name));
    }
    known
        .iter()
        .filter(|(field, _)| *field != "status")
        .find_map(|(field, schema)| place_of(schema, name, &inner(field)))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::commands::lint::reading::schema;

    fn flaws(object: &Value) -> Vec<String> {
        check(object, schema()).1.into_iter().map(|flaw| flaw.message).collect()
    }

    #[test]
    fn every_flaw_is_told_with_what_to_do() {
        let rule = json!({"metadata": {"name": "r"}, "extra": 1, "spec": {
            "onDelete": "Warn",
            "failurePolicy": "fail",
            "dependent": {"group": "a", "version": 1, "kind": "A", "resource": null, "selector": {"matchLabels": {"x": 1}}},
            "dependencies": [
                {"group": "b", "version": "v1", "resource": "bs", "fieldRef": {"pth": ".spec.b", "keys": "yes"}},
                "b",
            ],
        }});
        let found = flaws(&rule);
        for expected in [
            "there is no field extra: remove it, or see docs/rules.md for all fields",
            "there is no field spec.onDelete: write it as spec.dependencies[].onDelete",
            "spec.failurePolicy is `fail`: write one of Fail, Ignore",
            "spec.dependent.version is a number, but must be a text: write one, in quotes",
            "spec.dependent.resource is missing: write it",
            "spec.dependent.selector.matchLabels.x is a number, but must be a text: write one, in quotes",
            "there is no field spec.dependencies[0].fieldRef.pth: write `path` if you mean that, or remove it",
            "spec.dependencies[0].fieldRef.keys is a text, but must be true or false: write one of them, without quotes",
            "spec.dependencies[1] is a text, but must be a map: write its fields below it, indented",
        ] {
            assert!(found.iter().any(|found| found == expected), "{expected} in {found:#?}");
        }
        assert_eq!(found.len(), 9);
    }

    #[test]
    fn what_is_left_has_no_unknown_field() {
        let rule = json!({"metadata": {"name": "r", "labels": {"a": "b"}}, "spec": {"onDelet": 1}, "x": {}});
        let (left, _) = check(&rule, schema());
        assert_eq!(left, json!({"metadata": {"name": "r", "labels": {"a": "b"}}, "spec": {}}));
    }
}

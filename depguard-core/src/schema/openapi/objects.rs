//! Check of an object against the schema of its kind.

use serde_json::{Map, Value};

use crate::model::field_path::Segment;
use crate::schema::openapi::{EMBEDDED, Schema, every_object_s, flag, is_open, missing};

impl Schema {
    /// Returns why an object doesn't fit: the first of its fields that the schema does not have, so that an API server
    /// drops it; `None` if it has all of them.
    pub fn unknown_field(&self, object: &Value) -> Option<String> {
        self.unknown(object, &self.root, true, "")
    }

    fn unknown(&self, value: &Value, node: &Value, at_root: bool, so_far: &str) -> Option<String> {
        let node = self.resolve(node);
        match value {
            Value::Object(fields) => {
                fields.iter().find_map(|(name, value)| self.unknown_at(name, value, node, at_root, so_far))
            }
            Value::Array(items) => {
                let inner = node.get("items")?;
                let mut items = items.iter().enumerate();
                items.find_map(|(index, item)| self.unknown(item, inner, false, &format!("{so_far}[{index}]")))
            }
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => None,
        }
    }

    fn unknown_at(&self, name: &str, value: &Value, node: &Value, at_root: bool, so_far: &str) -> Option<String> {
        let properties = node.get("properties").and_then(Value::as_object);
        let own = properties.and_then(|properties: &Map<String, Value>| properties.get(name));
        let known = if at_root || flag(node, EMBEDDED) { every_object_s(name, own) } else { None };
        let others = node.get("additionalProperties");
        let step = Segment::Name(name.to_owned());
        match known.or(own).or(others.filter(|others| others.is_object())) {
            Some(inner) => self.unknown(value, inner, false, &format!("{so_far}{step}")),
            None if is_open(node) || others == Some(&Value::Bool(true)) => None,
            None => Some(missing(node, properties, &step, so_far)),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_first_field_that_the_schema_lacks_is_told_and_a_field_that_may_be_there_is_not() {
        let text = json!({"type": "string"});
        let root = json!({"type": "object", "properties": {
            "metadata": {"type": "object"},
            "spec": {"type": "object", "properties": {
                "port": {"type": "object", "properties": {"name": text}},
                "crew": {"type": "array", "items": {"type": "object", "properties": {"name": text}}},
                "berths": {"type": "object", "additionalProperties": {"type": "object", "properties": {"pier": text}}},
                "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": true, "properties": {
                    "port": {"type": "object", "properties": {"name": text}},
                }},
                "any": {"type": "object", "additionalProperties": true},
                "either": {"x-kubernetes-int-or-string": true},
                "inner": {"type": "object", "x-kubernetes-embedded-resource": true, "properties": {}},
                "again": {"$ref": "#/components/schemas/Port"},
            }},
        }});
        let port =
            json!({"type": "object", "properties": {"name": text, "next": {"$ref": "#/components/schemas/Port"}}});
        let schema = Schema { root, components: json!({"Port": port}).as_object().cloned().unwrap() };
        for (object, expected) in [
            (json!({"apiVersion": "v1", "kind": "A", "metadata": {"name": "a", "labels": {"x/y": "z"}}}), None),
            (
                json!({"spec": {"port": {"name": "p"}, "crew": [{"name": "c"}, {}], "berths": {"a.b": {"pier": "1"}}}}),
                None,
            ),
            (json!({"spec": {"free": {"x": {"y": 1}}, "any": {"x": {"y": 1}}, "either": 7}}), None),
            (
                json!({"spec": {"inner": {"kind": "B", "metadata": {"name": "b"}}, "again": {"next": {"next": {"name": "n"}}}}}),
                None,
            ),
            // The types of values are not checked.
            (json!({"spec": {"port": ["p"], "crew": "c"}}), None),
            (json!([1]), None),
            (json!({"spek": {}}), Some("the object has no field `spek`: it has `metadata`, `spec`")),
            (json!({"metadata": {"lables": {}}}), Some("`.metadata` has no field `lables`: it has ")),
            (json!({"spec": {"Port": {}}}), Some("`.spec` has no field `Port`: it has ")),
            (
                json!({"spec": {"port": {"name": "p", "zone": "z"}}}),
                Some("`.spec.port` has no field `zone`: it has `name`"),
            ),
            (json!({"spec": {"crew": [{"name": "c"}, {"nam": "d"}]}}), Some("`.spec.crew[1]` has no field `nam`")),
            (json!({"spec": {"berths": {"a.b": {"peer": "1"}}}}), Some("`.spec.berths['a.b']` has no field `peer`")),
            (json!({"spec": {"free": {"port": {"zone": "z"}}}}), Some("`.spec.free.port` has no field `zone`")),
            (json!({"spec": {"inner": {"spec": {}}}}), Some("`.spec.inner` has no field `spec`: it has none")),
            (json!({"spec": {"again": {"next": {"nam": "n"}}}}), Some("`.spec.again.next` has no field `nam`")),
            (
                json!({"spec": {"port": {"name": {"first": "p"}}}}),
                Some("`.spec.port.name` is of type string, and has no field"),
            ),
        ] {
            let found = schema.unknown_field(&object);
            match expected {
                None => assert_eq!(found, None, "{object}"),
                Some(why) => {
                    assert!(found.as_deref().is_some_and(|found| found.starts_with(why)), "{object}: {found:?}");
                }
            }
        }
    }
}

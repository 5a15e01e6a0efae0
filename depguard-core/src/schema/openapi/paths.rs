//! Enumeration of a schema's paths.

use serde_json::{Map, Value};

use crate::model::field_path::{FieldPath, Segment};
use crate::schema::openapi::{ExpectedType, Schema, SchemaSearch, every_object_s};

/// Maximum number of paths that are returned.
const MAX_PATHS: usize = 10_000;
/// Maximum number of nodes that are visited: a schema may refer to itself.
const MAX_PLACES: usize = 50_000;
/// Maximum depth of a path.
const MAX_DEPTH: usize = 24;

impl Schema {
    /// Returns the paths at which the expected value may be, those of the upper levels first. Items of lists and values
    /// of maps are written as `[*]`. Returns at most 10,000 paths, and only paths that a rule can hold.
    pub fn paths(&self, expected: ExpectedType) -> Vec<FieldPath> {
        let mut found = Vec::new();
        let mut search = SchemaSearch { schema: self, open: false, never: None };
        let mut level = vec![(String::new(), &self.root)];
        let mut places = 0;
        for depth in 0..MAX_DEPTH {
            let mut next = Vec::new();
            for (so_far, node) in level {
                for (step, inner) in self.steps(node, depth == 0) {
                    places += 1;
                    let so_far = format!("{so_far}{step}");
                    // A path with too many wildcards, or of too great a length, stays so deeper down.
                    let (Ok(path), true) = (FieldPath::parse(&so_far), places < MAX_PLACES) else { continue };
                    if search.leaf(inner, expected, &so_far) {
                        found.push(path);
                    }
                    if found.len() >= MAX_PATHS {
                        return found;
                    }
                    next.push((so_far, inner));
                }
            }
            level = next;
        }
        found
    }

    /// Returns the nodes one step below a node, each with the step as a path writes it.
    fn steps<'s>(&'s self, node: &'s Value, at_root: bool) -> Vec<(String, &'s Value)> {
        let node = self.resolve(node);
        let properties = node.get("properties").and_then(Value::as_object).into_iter().flat_map(Map::iter);
        let properties = properties.map(|(name, own)| {
            let known = if at_root { every_object_s(name, Some(own)) } else { None };
            (Segment::Name(name.clone()).to_string(), known.unwrap_or(own))
        });
        let others = node.get("additionalProperties").filter(|others| others.is_object());
        let all = others.or(node.get("items")).map(|inner| ("[*]".to_owned(), inner));
        properties.chain(all).collect()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::schema::openapi::SchemaFit;

    fn schema(root: Value, components: &Value) -> Schema {
        Schema { root, components: components.as_object().cloned().unwrap() }
    }

    #[test]
    fn every_path_that_is_told_fits() {
        let schema = schema(
            json!({"type": "object", "properties": {"metadata": {"type": "object"}, "spec": {"properties": {
                "vpcRef": {"properties": {"name": {"type": "string"}, "port": {"type": "integer"}}},
                "networks": {"type": "array", "items": {"properties": {"vpc": {"type": "string"}}}},
                "zones": {"type": "array", "items": {"type": "string"}},
                "by/name": {"additionalProperties": {"properties": {"vpc": {"type": "string"}}}},
            }}}}),
            &json!({}),
        );
        let paths = schema.paths(ExpectedType::Names);
        for path in &paths {
            assert_eq!(schema.fit(path, ExpectedType::Names), SchemaFit::Fits, "{path}");
        }
        let paths: Vec<_> = paths.iter().map(ToString::to_string).filter(|path| path.starts_with(".spec")).collect();
        let expected =
            [".spec.zones", ".spec.networks[*].vpc", ".spec.vpcRef.name", ".spec.zones[*]", ".spec['by/name'][*].vpc"];
        let sorted = |mut paths: Vec<String>| {
            paths.sort();
            paths
        };
        assert_eq!(sorted(paths), sorted(expected.map(str::to_owned).to_vec()));
        assert!(schema.paths(ExpectedType::Map).contains(&FieldPath::parse(".metadata.labels").unwrap()));
    }

    #[test]
    fn a_schema_that_holds_itself_has_paths_without_end_of_which_some_are_told() {
        let own = json!({"$ref": "#/components/schemas/A"});
        let fields: Map<_, _> = (0..40).map(|number| (format!("f{number}"), own.clone())).collect();
        let mut all = fields.clone();
        all.insert("name".to_owned(), json!({"type": "string"}));
        let schema = schema(own, &json!({"A": {"type": "object", "properties": all}}));
        let paths = schema.paths(ExpectedType::Text);
        assert!(paths.len() > 40 && paths.len() <= MAX_PATHS, "{}", paths.len());
    }
}

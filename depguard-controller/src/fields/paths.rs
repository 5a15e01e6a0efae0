//! All paths that a schema has.

use depguard_core::FieldPath;
use serde_json::{Map, Value};

use super::{Schema, Walk, Wanted, every_object_s};

/// The paths that are told.
const MOST_PATHS: usize = 10_000;
/// The places that are looked at on the way: a schema may refer to itself.
const MOST_PLACES: usize = 50_000;
/// How deep is looked.
const DEPTH: usize = 24;

impl Schema {
    /// The paths at which what is wanted may stand, those of the upper levels first: with `[*]` for what lists and maps
    /// hold. At most 10,000, and none that a rule couldn't hold.
    pub fn paths(&self, wanted: Wanted) -> Vec<FieldPath> {
        let mut found = Vec::new();
        let mut walk = Walk { schema: self, open: false, never: None };
        let mut level = vec![(String::new(), &self.root)];
        let mut places = 0;
        for depth in 0..DEPTH {
            let mut next = Vec::new();
            for (walked, node) in level {
                for (step, inner) in self.steps(node, depth == 0) {
                    places += 1;
                    let walked = format!("{walked}{step}");
                    // What has too many wildcards, or is too long, has so deeper down as well.
                    let (Ok(path), true) = (FieldPath::parse(&walked), places < MOST_PLACES) else { continue };
                    if walk.leaf(inner, wanted, &walked) {
                        found.push(path);
                    }
                    if found.len() >= MOST_PATHS {
                        return found;
                    }
                    next.push((walked, inner));
                }
            }
            level = next;
        }
        found
    }

    /// What is one step below a node, and how a path says that step.
    fn steps<'s>(&'s self, node: &'s Value, at_root: bool) -> Vec<(String, &'s Value)> {
        let node = self.resolve(node);
        let properties = node.get("properties").and_then(Value::as_object).into_iter().flat_map(Map::iter);
        let properties = properties.map(|(name, own)| {
            let known = if at_root { every_object_s(name, Some(own)) } else { None };
            (super::shown_name(name), known.unwrap_or(own))
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
    use crate::fields::Fit;

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
        let paths = schema.paths(Wanted::Names);
        for path in &paths {
            assert_eq!(schema.fit(path, Wanted::Names), Fit::Fits, "{path}");
        }
        let paths: Vec<_> = paths.iter().map(ToString::to_string).filter(|path| path.starts_with(".spec")).collect();
        let expected =
            [".spec.zones", ".spec.networks[*].vpc", ".spec.vpcRef.name", ".spec.zones[*]", ".spec['by/name'][*].vpc"];
        let sorted = |mut paths: Vec<String>| {
            paths.sort();
            paths
        };
        assert_eq!(sorted(paths), sorted(expected.map(str::to_owned).to_vec()));
        assert!(schema.paths(Wanted::Map).contains(&FieldPath::parse(".metadata.labels").unwrap()));
    }

    #[test]
    fn a_schema_that_holds_itself_has_paths_without_end_of_which_some_are_told() {
        let own = json!({"$ref": "#/components/schemas/A"});
        let fields: Map<_, _> = (0..40).map(|number| (format!("f{number}"), own.clone())).collect();
        let mut all = fields.clone();
        all.insert("name".to_owned(), json!({"type": "string"}));
        let schema = schema(own, &json!({"A": {"type": "object", "properties": all}}));
        let paths = schema.paths(Wanted::Text);
        assert!(paths.len() > 40 && paths.len() <= MOST_PATHS, "{}", paths.len());
    }
}

//! Kubernetes' own kinds, from its OpenAPI, as CustomResourceDefinitions; and the fields of them that may name an object.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

/// Endings of the names of fields that may name an object; an `s` may follow.
pub(crate) const ENDINGS: [&str; 13] = [
    "name",
    "ref",
    "reference",
    "class",
    "secret",
    "claim",
    "account",
    "endpoint",
    "volume",
    "driver",
    "provisioner",
    "attacher",
    "subdomain",
];

/// Kind of which the API server stores objects, in its newest stable version.
struct Stored<'o> {
    group: &'o str,
    kind: &'o str,
    version: String,
    plural: &'o str,
    scope: &'static str,
}

/// Returns a definition for each kind that has a stable version and can be deleted by name.
pub(crate) fn definitions(openapi: &Value) -> Vec<Value> {
    let schemas = openapi["definitions"].as_object().unwrap();
    let mut named = BTreeMap::new();
    for (name, schema) in schemas {
        for gvk in schema["x-kubernetes-group-version-kind"].as_array().into_iter().flatten() {
            named.insert([&gvk["group"], &gvk["version"], &gvk["kind"]].map(|part| part.as_str().unwrap()), name);
        }
    }
    let definition = |stored: Stored<'_>| {
        let Stored { group, kind, version, plural, scope } = stored;
        let name = named[&[group, version.as_str(), kind]];
        let schema = expanded(schemas, &schemas[name], &mut vec![name.as_str()]);
        json!({
            "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
            "metadata": {"name": format!("{plural}.{group}")},
            "spec": {"group": group, "scope": scope, "names": {"kind": kind, "plural": plural}, "versions": [
                {"name": version, "served": true, "storage": true, "schema": {"openAPIV3Schema": schema}},
            ]},
        })
    };
    stored(openapi).into_values().map(definition).collect()
}

fn stored(openapi: &Value) -> BTreeMap<(&str, &str), Stored<'_>> {
    let mut all: BTreeMap<_, Stored<'_>> = BTreeMap::new();
    for (path, operations) in openapi["paths"].as_object().unwrap() {
        let Some(plural) = path.strip_suffix("/{name}").and_then(|path| path.rsplit('/').next()) else { continue };
        let gvk = &operations["delete"]["x-kubernetes-group-version-kind"];
        let [Some(group), Some(version), Some(kind)] = ["group", "version", "kind"].map(|part| gvk[part].as_str())
        else {
            continue;
        };
        let Some(number) = number(version) else { continue };
        let scope = if path.contains("{namespace}") { "Namespaced" } else { "Cluster" };
        let stored = Stored { group, kind, version: version.to_owned(), plural, scope };
        let known = all.entry((group, kind)).or_insert(Stored { version: String::new(), ..stored });
        if Some(number) > self::number(&known.version) {
            known.version = version.to_owned();
        }
    }
    all
}

/// Returns the number of a stable version.
fn number(version: &str) -> Option<u32> {
    version.strip_prefix('v')?.parse().ok()
}

/// Returns a schema with all references in it resolved, and cut off where it contains itself.
fn expanded<'s>(schemas: &'s Map<String, Value>, schema: &'s Value, within: &mut Vec<&'s str>) -> Value {
    let alternatives = schema["allOf"].as_array().into_iter().flatten();
    let reference = [schema].into_iter().chain(alternatives).find_map(|schema| schema["$ref"].as_str());
    if let Some(name) = reference.map(|reference| reference.rsplit('/').next().unwrap()) {
        if within.contains(&name) {
            return json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
        }
        within.push(name);
        let mut found = expanded(schemas, &schemas[name], within);
        found["title"] = json!(name);
        within.pop();
        return found;
    }
    if schema["format"] == "int-or-string" {
        return json!({"x-kubernetes-int-or-string": true});
    }
    let Some(of_type) = schema["type"].as_str() else { return json!({"x-kubernetes-preserve-unknown-fields": true}) };
    let mut result = json!({"type": of_type});
    for key in ["format", "x-kubernetes-list-map-keys", "x-kubernetes-patch-merge-key"] {
        if let Some(value) = schema.get(key) {
            result[key] = value.clone();
        }
    }
    if let Some(fields) = schema["properties"].as_object() {
        let fields = fields.iter().map(|(name, field)| (name.clone(), expanded(schemas, field, within)));
        result["properties"] = Value::Object(fields.collect());
    }
    for key in ["items", "additionalProperties"] {
        if schema[key].is_object() {
            result[key] = expanded(schemas, &schema[key], within);
        }
    }
    result
}

/// Returns the paths of a definition's fields that may name an object, by their own names: strings, and lists and maps
/// of them, outside of `metadata` and of a `status`. The `name` by which elements of a list are told apart is none, unless
/// the elements are references.
pub(crate) fn candidates(definition: &Value) -> Vec<String> {
    let mut found = Vec::new();
    walk(&definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"], "", false, &mut found);
    found
}

fn walk(schema: &Value, path: &str, is_keyed: bool, found: &mut Vec<String>) {
    for (name, field) in schema["properties"].as_object().into_iter().flatten() {
        let is_meta = name == "metadata" || (name == "status" && field["type"] == "object");
        if is_meta || (path.is_empty() && ["apiVersion", "kind"].contains(&name.as_str())) {
            continue;
        }
        if is_keyed && name == "name" && !schema["title"].as_str().unwrap_or_default().ends_with("Reference") {
            continue;
        }
        let is_plain = name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
        let path = if is_plain { format!("{path}.{name}") } else { format!("{path}['{name}']") };
        let element = ["items", "additionalProperties"].into_iter().find(|key| field[key].is_object());
        let value = element.map_or(field, |key| &field[key]);
        if value["properties"].is_object() {
            let below = if element.is_some() { format!("{path}[*]") } else { path };
            let is_keyed = field["x-kubernetes-list-map-keys"] == json!(["name"])
                || field["x-kubernetes-patch-merge-key"] == "name";
            walk(value, &below, is_keyed && element == Some("items"), found);
        } else if value["type"] == "string" && value["format"].is_null() && is_name(name) {
            found.push(path);
        }
    }
}

fn is_name(field: &str) -> bool {
    let field = field.to_lowercase();
    ENDINGS
        .iter()
        .any(|ending| field.ends_with(ending) || field.strip_suffix('s').is_some_and(|one| one.ends_with(ending)))
}

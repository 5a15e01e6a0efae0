//! `src/cluster/built_in_kinds.gz`, which is made from Kubernetes' discovery and OpenAPI documents.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};

use flate2::Compression;
use flate2::read::GzDecoder;
use flate2::write::GzEncoder;
use serde_json::{Map, Value, json};

/// File that `e2e/servers/openapi` prints.
const OPENAPI: &str = "DEPGUARD_KUBERNETES_OPENAPI";
/// Maximum size of the committed file, in bytes.
const MAX_SIZE: usize = 100 << 10;
/// Parts of a schema that tell which paths exist.
const KEPT: [&str; 7] = [
    "$ref",
    "type",
    "items",
    "additionalProperties",
    "x-kubernetes-preserve-unknown-fields",
    "x-kubernetes-int-or-string",
    "x-kubernetes-embedded-resource",
];
const GVK: &str = "x-kubernetes-group-version-kind";

#[test]
fn the_built_in_kinds_are_those_of_kubernetes_documents() {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/cluster/built_in_kinds.gz");
    let Some(openapi) = std::env::var_os(OPENAPI).map(PathBuf::from) else {
        // Written to the stream itself, the message is printed even if the test passes.
        writeln!(std::io::stderr(), "the built-in kinds are not compared: {OPENAPI} names no document").unwrap();
        return;
    };
    let text = generated(&openapi);
    if std::env::var_os("DEPGUARD_WRITE").is_some() {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
        encoder.write_all(text.as_bytes()).unwrap();
        std::fs::write(&file, encoder.finish().unwrap()).unwrap();
    }
    let committed = std::fs::read(&file).unwrap();
    assert!(committed.len() <= MAX_SIZE, "{} bytes", committed.len());
    let mut known = String::new();
    GzDecoder::new(&*committed).read_to_string(&mut known).unwrap();
    assert!(
        known == text,
        "the built-in kinds differ from {}: run `DEPGUARD_WRITE=1 cargo test -p kubectl-depguard --test it built_in`",
        openapi.display()
    );
}

/// Returns the content of the file: a line of kinds, and a line of schemas.
fn generated(openapi: &Path) -> String {
    let read = |path: &Path| -> Value { serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap() };
    let api = openapi.parent().and_then(Path::parent).unwrap();
    let discovery = api.join("discovery");
    let module = api.parent().unwrap().file_name().unwrap().to_str().unwrap();
    let (_, version) = module.split_once("@v").unwrap();
    let mut lists = vec![cut_list(&read(&discovery.join("api__v1.json")))];
    let groups = read(&discovery.join("apis.json"));
    for group in groups["groups"].as_array().unwrap() {
        for version in group["versions"].as_array().unwrap() {
            let file = format!("apis__{}.json", version["groupVersion"].as_str().unwrap().replace('/', "__"));
            lists.push(cut_list(&read(&discovery.join(file))));
        }
    }
    let schemas = schemas_of(&gvks(&lists), read(openapi)["definitions"].as_object().unwrap());
    format!("{}\n{}\n", json!({"version": version, "lists": lists}), Value::Object(schemas))
}

/// Returns the resources of a group's version that are stored. Reviews have no names and are never stored.
fn cut_list(list: &Value) -> Value {
    let stored = list["resources"].as_array().unwrap().iter().filter(|resource| {
        let can = |verb: &str| resource["verbs"].as_array().is_some_and(|verbs| verbs.iter().any(|can| can == verb));
        !resource["name"].as_str().unwrap().contains('/') && can("list") && can("get")
    });
    let fields = ["name", "kind", "namespaced", "singularName", "shortNames"];
    let resources = stored.map(|resource| {
        let kept = fields.iter().filter_map(|field| Some(((*field).to_owned(), resource.get(*field)?.clone())));
        Value::Object(kept.collect())
    });
    json!({"groupVersion": list["groupVersion"], "resources": resources.collect::<Vec<_>>()})
}

/// Returns group, version and kind of each resource.
fn gvks(lists: &[Value]) -> Vec<[&str; 3]> {
    let gvks = lists.iter().flat_map(|list| {
        let group_version = list["groupVersion"].as_str().unwrap();
        let (group, version) = group_version.split_once('/').unwrap_or(("", group_version));
        let resources = list["resources"].as_array().unwrap().iter();
        resources.map(move |resource| [group, version, resource["kind"].as_str().unwrap()])
    });
    gvks.collect()
}

/// Returns the schemas of the kinds, and all that they refer to.
fn schemas_of(kinds: &[[&str; 3]], all: &Map<String, Value>) -> Map<String, Value> {
    let mut roots = BTreeMap::new();
    for (name, schema) in all {
        for gvk in schema[GVK].as_array().into_iter().flatten() {
            if kinds.contains(&["group", "version", "kind"].map(|field| gvk[field].as_str().unwrap())) {
                roots.insert(name.clone(), json!([gvk]));
            }
        }
    }
    assert_eq!(roots.len(), kinds.len(), "a kind has no schema");
    let (mut found, mut left) = (Map::new(), roots.keys().cloned().collect::<Vec<_>>());
    while let Some(name) = left.pop() {
        if !found.contains_key(&name) {
            let mut schema = cut(&all[&name], &mut left);
            if let Some(gvk) = roots.get(&name) {
                schema[GVK] = gvk.clone();
            }
            found.insert(name, schema);
        }
    }
    found
}

/// Returns the parts of a schema that tell which paths exist, and adds the schemas to which it refers.
fn cut(schema: &Value, references: &mut Vec<String>) -> Value {
    let Some(fields) = schema.as_object() else { return schema.clone() };
    let mut kept = Map::new();
    for (field, value) in fields {
        match field.as_str() {
            "properties" => {
                let properties = value.as_object().unwrap().iter();
                let properties = properties.map(|(name, value)| (name.clone(), cut(value, references)));
                kept.insert(field.clone(), Value::Object(properties.collect()));
            }
            "$ref" => {
                let name = value.as_str().unwrap().rsplit('/').next().unwrap();
                references.push(name.to_owned());
                kept.insert(field.clone(), json!(format!("#/components/schemas/{name}")));
            }
            field if KEPT.contains(&field) => drop(kept.insert(field.to_owned(), cut(value, references))),
            _ => {}
        }
    }
    Value::Object(kept)
}

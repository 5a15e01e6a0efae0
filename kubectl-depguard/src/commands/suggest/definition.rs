//! The kinds that are given: CustomResourceDefinitions, APIResourceSchemas, and the APIExports that serve these.

use std::collections::BTreeMap;

use depguard_core::api::PATH_ANNOTATION;
use serde_json::Value;

/// A kind, as a rule names it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct KindName {
    pub(super) group: String,
    pub(super) version: String,
    pub(super) kind: String,
    pub(super) resource: String,
    pub(super) namespaced: bool,
}

/// The APIExport that serves a kind.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Export {
    pub(super) name: String,
    /// The path of its workspace, where that is known.
    pub(super) workspace: Option<String>,
}

/// A kind with its schema.
#[derive(Debug, Clone)]
pub(super) struct Definition {
    pub(super) name: KindName,
    pub(super) export: Option<Export>,
    pub(super) schema: Value,
}

/// The definitions among some objects, each kind once, in the version that is stored or else the first that is served.
/// `workspaces` says of exports, by name, where they are, before their own annotation does.
pub(super) fn definitions<'v>(
    objects: impl Iterator<Item = &'v Value> + Clone,
    workspaces: &BTreeMap<String, String>,
) -> Vec<Definition> {
    let exports: Vec<_> = objects.clone().filter(|object| text(object, "kind") == Some("APIExport")).collect();
    let mut found: BTreeMap<(String, String), Definition> = BTreeMap::new();
    for object in objects {
        let schema_name = match text(object, "kind") {
            Some("CustomResourceDefinition") => None,
            Some("APIResourceSchema") => object.pointer("/metadata/name").and_then(Value::as_str),
            _ => continue,
        };
        let Some((name, schema)) = read(object) else { continue };
        let export = exports.iter().find(|export| serves(export, &name, schema_name)).and_then(|export| {
            let name = export.pointer("/metadata/name")?.as_str()?.to_owned();
            let annotations = export.pointer("/metadata/annotations");
            let said = annotations.and_then(|all| text(all, PATH_ANNOTATION)).map(str::to_owned);
            Some(Export { workspace: workspaces.get(&name).cloned().or(said), name })
        });
        let key = (name.group.clone(), name.resource.clone());
        // Of several schemas of one kind, the export serves one.
        if export.is_some() || !found.contains_key(&key) {
            found.insert(key, Definition { name, export, schema });
        }
    }
    found.into_values().collect()
}

fn read(object: &Value) -> Option<(KindName, Value)> {
    let spec = object.get("spec")?;
    let versions = spec.get("versions")?.as_array()?;
    let is = |version: &&Value, what: &str| version.get(what) == Some(&Value::Bool(true));
    let version = (versions.iter().find(|version| is(version, "storage")))
        .or_else(|| versions.iter().find(|version| is(version, "served")))?;
    let schema = version.get("schema")?;
    let schema = schema.get("openAPIV3Schema").unwrap_or(schema).clone();
    let names = spec.get("names")?;
    let name = KindName {
        group: text(spec, "group")?.to_owned(),
        version: text(version, "name")?.to_owned(),
        kind: text(names, "kind")?.to_owned(),
        resource: text(names, "plural")?.to_owned(),
        namespaced: text(spec, "scope")? == "Namespaced",
    };
    Some((name, schema))
}

/// Whether an APIExport serves a kind: by the name of its schema, in the way of either version of the API.
fn serves(export: &Value, name: &KindName, schema: Option<&str>) -> bool {
    let list = |field: &str| {
        export.get("spec").and_then(|spec| spec.get(field)).and_then(Value::as_array).map_or(&[][..], Vec::as_slice)
    };
    let named = |resource: &Value| match (schema, text(resource, "schema")) {
        (Some(schema), Some(wanted)) => schema == wanted,
        _ => text(resource, "group") == Some(&name.group) && text(resource, "name") == Some(&name.resource),
    };
    list("resources").iter().any(named)
        || list("latestResourceSchemas").iter().any(|wanted| schema.is_some() && wanted.as_str() == schema)
}

fn text<'v>(object: &'v Value, field: &str) -> Option<&'v str> {
    object.get(field)?.as_str()
}

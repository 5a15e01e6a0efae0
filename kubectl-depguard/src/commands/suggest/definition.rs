//! Definitions of kinds: CustomResourceDefinitions, APIResourceSchemas, and the APIExports that serve the latter.

use std::collections::BTreeMap;

use depguard_core::api::PATH_ANNOTATION;
use serde_json::Value;

use crate::cluster::documents::name_of;
use crate::cluster::kinds::KindInfo;
use crate::cluster::rules::ReadFailure;

/// Kind, as a rule names it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct KindName {
    pub(super) group: String,
    pub(super) version: String,
    pub(super) kind: String,
    pub(super) resource: String,
    pub(super) namespaced: bool,
}

impl KindName {
    /// Names a kind of Kubernetes.
    pub(super) fn from_kind(kind: &KindInfo) -> Self {
        Self {
            group: kind.gvr.group.to_string(),
            version: kind.gvr.version.to_string(),
            kind: kind.kind.clone(),
            resource: kind.gvr.resource.to_string(),
            namespaced: kind.namespaced == Some(true),
        }
    }
}

/// APIExport that serves a kind.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Export {
    pub(super) name: String,
    /// Path of the export's workspace, if it is known.
    pub(super) workspace: Option<String>,
}

/// Kind with its schema.
#[derive(Debug, Clone)]
pub(super) struct Definition {
    pub(super) name: KindName,
    pub(super) export: Option<Export>,
    pub(super) schema: Value,
    /// Objects that made the definition, such as a CompositeResourceDefinition: objects of the kind need them, too.
    pub(super) owners: Vec<DefinitionOwner>,
}

/// Object that made a definition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct DefinitionOwner {
    pub(super) group: String,
    pub(super) kind: String,
    pub(super) name: String,
}

/// Returns true for an object that [`definitions`] reads.
pub(super) fn is_of_definitions(object: &Value) -> bool {
    matches!(text(object, "kind"), Some("CustomResourceDefinition" | "APIResourceSchema" | "APIExport"))
}

/// Returns the definitions among some objects, each kind once, in the stored version or otherwise in the first served
/// one, and the definitions that can't be read. `workspaces` gives the paths of exports by name; it takes precedence
/// over an export's own annotation.
pub(super) fn definitions<'v>(
    objects: impl Iterator<Item = &'v Value> + Clone,
    workspaces: &BTreeMap<String, String>,
) -> (Vec<Definition>, Vec<ReadFailure>) {
    let exports: Vec<_> = objects.clone().filter(|object| text(object, "kind") == Some("APIExport")).collect();
    let mut found: BTreeMap<(String, String), Definition> = BTreeMap::new();
    let mut missing = Vec::new();
    for object in objects {
        let schema_name = match text(object, "kind") {
            Some("CustomResourceDefinition") => None,
            Some("APIResourceSchema") => object.pointer("/metadata/name").and_then(Value::as_str),
            _ => continue,
        };
        let Some((name, schema)) = read(object) else {
            missing.push(unread(object));
            continue;
        };
        let export = exports.iter().find(|export| serves(export, &name, schema_name)).and_then(|export| {
            let name = export.pointer("/metadata/name")?.as_str()?.to_owned();
            let annotations = export.pointer("/metadata/annotations");
            let said = annotations.and_then(|all| text(all, PATH_ANNOTATION)).map(str::to_owned);
            Some(Export { workspace: workspaces.get(&name).cloned().or(said), name })
        });
        let key = (name.group.clone(), name.resource.clone());
        // If a kind has several schemas, the export serves one of them.
        if export.is_some() || !found.contains_key(&key) {
            found.insert(key, Definition { name, export, schema, owners: owners(object) });
        }
    }
    (found.into_values().collect(), missing)
}

/// Labels by which kro says which ResourceGraphDefinition made a definition: of its releases, and of those that follow.
const LABELS_OF_KRO: [&str; 2] =
    ["kro.run/resource-graph-definition-name", "internal.kro.run/resource-graph-definition-name"];

/// Returns the objects that made a definition: its controller by an ownerReference or, if kro made the definition, the
/// ResourceGraphDefinition that a label names.
fn owners(object: &Value) -> Vec<DefinitionOwner> {
    let owners = object.pointer("/metadata/ownerReferences").and_then(Value::as_array);
    let controllers = owners.into_iter().flatten().filter(|owner| owner.get("controller") == Some(&Value::Bool(true)));
    let owner = |owner: &Value| {
        let (group, _) = text(owner, "apiVersion")?.split_once('/')?;
        let [kind, name] = [text(owner, "kind")?, text(owner, "name")?].map(str::to_owned);
        Some(DefinitionOwner { group: group.to_owned(), kind, name })
    };
    let mut owners: Vec<_> = controllers.filter_map(owner).collect();
    let labels = object.pointer("/metadata/labels");
    if let Some(name) = labels.and_then(|labels| LABELS_OF_KRO.iter().find_map(|label| text(labels, label))) {
        let [group, kind, name] = ["kro.run", "ResourceGraphDefinition", name].map(str::to_owned);
        let graph = DefinitionOwner { group, kind, name };
        if !owners.contains(&graph) {
            owners.push(graph);
        }
    }
    owners
}

/// Describes a definition that can't be read, so that its kind is missing.
fn unread(object: &Value) -> ReadFailure {
    let why = "its spec names no kind, or no served version with a schema";
    ReadFailure::new(format!("the definition {}", name_of(object)), why)
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

/// Returns true if an APIExport serves a kind: by the name of the schema, in either version of the API.
fn serves(export: &Value, name: &KindName, schema: Option<&str>) -> bool {
    let list = |field: &str| {
        export.get("spec").and_then(|spec| spec.get(field)).and_then(Value::as_array).map_or(&[][..], Vec::as_slice)
    };
    let named = |resource: &Value| match (schema, text(resource, "schema")) {
        (Some(schema), Some(served)) => schema == served,
        _ => text(resource, "group") == Some(&name.group) && text(resource, "name") == Some(&name.resource),
    };
    list("resources").iter().any(named)
        || list("latestResourceSchemas").iter().any(|served| schema.is_some() && served.as_str() == schema)
}

fn text<'v>(object: &'v Value, field: &str) -> Option<&'v str> {
    object.get(field)?.as_str()
}

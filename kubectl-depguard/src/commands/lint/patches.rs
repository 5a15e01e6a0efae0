//! JSON patches of definitions that make lookups cheap.

use std::collections::BTreeMap;
use std::sync::Arc;

use depguard_core::FieldPath;
use depguard_core::schema::MAX_SELECTABLE;
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Value, json};

use super::subject::Subject;

/// Patch of one definition.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub(crate) struct Patch {
    /// `CustomResourceDefinition` or `APIResourceSchema`.
    pub(crate) kind: String,
    pub(crate) name: String,
    /// True if the definition can't be changed, so that a new one is needed.
    pub(crate) immutable: bool,
    /// Operations of the JSON patch (RFC 6902).
    pub(crate) patch: Vec<Value>,
}

/// Fields to make selectable, by definition and version, in the order of the rules that need them.
#[derive(Debug, Default)]
pub(super) struct Patches(BTreeMap<(String, String), SelectableFields>);

/// Fields to make selectable in one definition.
#[derive(Debug)]
struct SelectableFields {
    definition: Arc<Subject>,
    versions: BTreeMap<String, Vec<FieldPath>>,
}

impl Patches {
    /// Adds a field. Returns false if the version has no room for it.
    pub(super) fn add(&mut self, definition: &Arc<Subject>, version: &str, path: &FieldPath) -> bool {
        let key = (definition.kind().to_owned(), definition.name().to_owned());
        let new = || SelectableFields { definition: Arc::clone(definition), versions: BTreeMap::new() };
        let fields = self.0.entry(key).or_insert_with(new).versions.entry(version.to_owned()).or_default();
        if fields.contains(path) {
            return true;
        }
        let there = version_of(&definition.value, version).map_or(0, |(_, version)| selectable(version).unwrap_or(0));
        let has_room = there.saturating_add(fields.len()) < MAX_SELECTABLE;
        if has_room {
            fields.push(path.clone());
        }
        has_room
    }

    /// Returns the patches, one for each definition.
    pub(super) fn finish(self) -> Vec<Patch> {
        let patches = self.0.into_iter().map(|((kind, name), SelectableFields { definition, versions })| {
            let operations =
                versions.iter().flat_map(|(version, fields)| operations(&definition.value, version, fields));
            Patch { immutable: kind == "APIResourceSchema", patch: operations.collect(), kind, name }
        });
        patches.filter(|patch| !patch.patch.is_empty()).collect()
    }
}

/// Returns the operations for one version. They begin with a test that the version is still at the same index.
fn operations(definition: &Value, version: &str, fields: &[FieldPath]) -> Vec<Value> {
    let Some((index, found)) = version_of(definition, version).filter(|_| !fields.is_empty()) else {
        return Vec::new();
    };
    let at = format!("/spec/versions/{index}");
    let field = |path: &FieldPath| json!({"jsonPath": path.to_string()});
    let mut operations = vec![json!({"op": "test", "path": format!("{at}/name"), "value": version})];
    if selectable(found).is_some() {
        let add = |path| json!({"op": "add", "path": format!("{at}/selectableFields/-"), "value": field(path)});
        operations.extend(fields.iter().map(add));
    } else {
        let all: Vec<_> = fields.iter().map(field).collect();
        operations.push(json!({"op": "add", "path": format!("{at}/selectableFields"), "value": all}));
    }
    operations
}

fn version_of<'v>(definition: &'v Value, name: &str) -> Option<(usize, &'v Value)> {
    let versions = definition.pointer("/spec/versions")?.as_array()?;
    versions.iter().enumerate().find(|(_, version)| version.get("name").and_then(Value::as_str) == Some(name))
}

/// Returns the number of a version's selectable fields; `None` if the version has no such list.
fn selectable(version: &Value) -> Option<usize> {
    version.get("selectableFields").and_then(Value::as_array).map(Vec::len)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn patched(versions: &Value, fields: &[&str]) -> (Vec<bool>, Vec<Value>) {
        let object =
            json!({"kind": "CustomResourceDefinition", "metadata": {"name": "vms"}, "spec": {"versions": versions}});
        let definition = Arc::new(Subject::stored(object));
        let mut patches = Patches::default();
        let path = |field: &&str| FieldPath::parse(field).unwrap();
        let room = fields.iter().map(|field| patches.add(&definition, "v1", &path(field))).collect();
        (room, patches.finish().pop().map(|patch| patch.patch).unwrap_or_default())
    }

    #[test]
    fn a_patch_makes_the_list_or_goes_on_with_it() {
        let (_, patch) = patched(&json!([{"name": "v1alpha1"}, {"name": "v1"}]), &[".spec.a", ".spec.b", ".spec.a"]);
        assert_eq!(
            json!(patch),
            json!([
                {"op": "test", "path": "/spec/versions/1/name", "value": "v1"},
                {"op": "add", "path": "/spec/versions/1/selectableFields",
                    "value": [{"jsonPath": ".spec.a"}, {"jsonPath": ".spec.b"}]},
            ])
        );
        let (_, patch) = patched(&json!([{"name": "v1", "selectableFields": [{"jsonPath": ".spec.x"}]}]), &[".spec.a"]);
        assert_eq!(
            json!(patch),
            json!([
                {"op": "test", "path": "/spec/versions/0/name", "value": "v1"},
                {"op": "add", "path": "/spec/versions/0/selectableFields/-", "value": {"jsonPath": ".spec.a"}},
            ])
        );
    }

    #[test]
    fn a_version_gets_eight_at_most() {
        let there: Vec<_> = (0..7).map(|number| json!({"jsonPath": format!(".spec.f{number}")})).collect();
        let (room, patch) = patched(&json!([{"name": "v1", "selectableFields": there}]), &[".spec.a", ".spec.b"]);
        assert_eq!(room, [true, false]);
        assert_eq!(patch.len(), 2);
    }
}

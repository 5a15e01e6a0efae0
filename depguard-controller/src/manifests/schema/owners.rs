//! The API of GlobalOwners and GroupOwners: their CustomResourceDefinitions.
//!
//! What the published API has is here as it is there; what is beyond it is optional.

use serde_json::{Value, json};

use super::spec::{NAMESPACE, RESOURCE, choice, selector, string};
use crate::manifests::definition::{Definition, column, condition_column, object_schema, status_schema};
use crate::manifests::with;
use crate::owners::api::{GLOBAL_OWNERS, GROUP, GROUP_OWNERS, MAX_GROUPS, MAX_NAMES, Names, VERSION};

/// `v1`, or a group and a version.
const API_VERSION: &str = r"^([a-z0-9]([-a-z0-9.]*[a-z0-9])?/)?v[1-9][0-9]*([a-z]+[1-9][0-9]*)?$";
const OBJECT_NAME: &str = r"^[^/%]+$";

/// The CustomResourceDefinitions of both kinds.
pub fn owner_crds() -> Vec<Value> {
    vec![
        crd(
            GLOBAL_OWNERS,
            "GlobalOwner adopts objects of many kinds, group by group. Deleted, it removes them in the order of its \
             groups.",
            vec![column("Phase", "string", ".status.phase"), column("Remaining", "integer", ".status.remaining")],
            json!({"spec": global_spec(), "status": global_status()}),
        ),
        crd(
            GROUP_OWNERS,
            "GroupOwner owns the objects of one group of a GlobalOwner, by owner references. depguard makes and removes \
             it; nobody else should.",
            vec![
                column("Resource", "string", ".spec.childResource.resource"),
                column("Owned", "integer", ".status.owned"),
                column("Phase", "string", ".status.phase"),
            ],
            json!({"spec": group_spec(), "status": group_status()}),
        ),
    ]
}

fn crd(names: Names, description: &str, mut columns: Vec<Value>, own: Value) -> Value {
    columns.push(condition_column("Ready", "Ready"));
    let definition = Definition {
        group: GROUP,
        version: VERSION,
        kind: names.kind,
        plural: names.plural,
        short: None,
        scope: "Cluster",
        columns,
        subresources: Some(json!({"status": {}})),
        schema: object_schema(names.kind, description, &["metadata", "spec"], own),
    };
    definition.crd()
}

fn global_spec() -> Value {
    json!({
        "type": "object",
        "description": "What is adopted, and how it is removed.",
        "required": ["childResources"],
        "properties": {
            "selector": selector("Counts for each entry that has no selector of its own. Empty: every object."),
            "childResources": {
                "type": "array",
                "description": "The groups of objects. Their order is that of their removal, the first one first.",
                "maxItems": MAX_GROUPS,
                "items": child_resource(),
            },
            "order": choice(&["Listed", "ByRules"],
                "In which order groups are removed: as they are listed (Listed, also if left out), or as \
                DependencyRules say, what refers to something before what it refers to (ByRules)."),
            "deletionPolicy": choice(&["Delete", "Orphan"],
                "What happens to the objects when the GlobalOwner is deleted: they are removed (Delete, also if left \
                out), or released (Orphan)."),
        },
    })
}

fn group_spec() -> Value {
    json!({
        "type": "object",
        "description": "The group.",
        "required": ["childResource"],
        "properties": {
            "selector": selector("The labels by which its objects are selected."),
            "childResource": child_resource(),
        },
    })
}

fn child_resource() -> Value {
    json!({
        "type": "object",
        "description": "One group: objects of one resource.",
        "required": ["apiVersion", "resource"],
        "properties": {
            "apiVersion": string(1, 317, API_VERSION, "The resource's group and version, such as v1 or apps/v1."),
            "resource": string(1, 253, RESOURCE, "The resource's plural name, such as configmaps."),
            "names": {
                "type": "array",
                "description": "The names of the objects. Left out: whatever they are called.",
                "maxItems": MAX_NAMES,
                "items": string(1, 253, OBJECT_NAME, "A name."),
            },
            "namespace": string(1, 63, NAMESPACE, "The namespace that the objects lie in. Left out: in any, or in none."),
            "selector": selector("The labels of the objects, instead of spec.selector."),
        },
        "x-kubernetes-validations": [{
            "rule": "!has(self.selector) || (!has(self.names) && !has(self.namespace))",
            "message": "a selector, or names and namespace: write one or the other",
        }],
    })
}

fn global_status() -> Value {
    let own = json!({
            "phase": {"type": "string", "description": "Owning, Removing or Releasing."},
            "wave": {"type": "integer", "format": "int32", "description": "Which wave is being removed, from 1 on."},
            "waves": {"type": "integer", "format": "int32", "description": "How many waves there are."},
            "remaining": {
                "type": "integer",
                "format": "int64",
                "description": "Objects that are owned; while it is being removed, those of the wave that are still there.",
            },
            "stuckCount": {"type": "integer", "format": "int64", "description": "How many objects are stuck."},
            "plan": {
                "type": "array",
                "description": "In which order the groups would be removed, or are: wave by wave.",
                "items": {
                    "type": "object",
                    "required": ["wave"],
                    "properties": {
                        "wave": {"type": "integer", "format": "int32", "description": "Which one, from 1 on."},
                        "groups": {
                            "type": "array",
                            "description": "The groups that are removed at once.",
                            "items": {
                                "type": "object",
                                "properties": {
                                    "groupOwner": {"type": "string", "description": "The GroupOwner's name."},
                                    "resource": {"type": "string", "description": "The resource and its API group."},
                                    "objects": {
                                        "type": "integer",
                                        "format": "int64",
                                        "description": "How many objects it owns.",
                                    },
                                },
                            },
                        },
                    },
                },
            },
            "stuck": {
                "type": "array",
                "description": "Objects whose removal was refused, or does not end: the first few.",
                "items": with(owned_resource(), "description", json!("One of them, and why.")),
            },
            "leftBehindCount": left_behind_count(),
            "leftBehind": left_behind(),
    });
    status_schema("What the controller made of it.", "Accepted, Adopted, Ordered and Ready.", own)
}

fn group_status() -> Value {
    let own = json!({
            "phase": {
                "type": "string",
                "description": "Owning; Removing: it owns all that was selected when its removal began; Released or Empty: \
                                nothing refers to it any more.",
            },
            "owned": {"type": "integer", "format": "int64", "description": "How many objects it owns."},
            "ownedResources": {
                "type": "array",
                "description": "What it owns: of many objects the first.",
                "items": owned_resource(),
            },
            "leftBehindCount": left_behind_count(),
            "leftBehind": left_behind(),
    });
    status_schema("What the group owns.", "Adopted and Ready.", own)
}

fn left_behind_count() -> Value {
    json!({
        "type": "integer",
        "format": "int64",
        "description": "How many objects are selected and stay, as they came after their group had begun to go.",
    })
}

fn left_behind() -> Value {
    json!({"type": "array", "description": "These objects: the first few.", "items": owned_resource()})
}

fn owned_resource() -> Value {
    let text = |description: &str| json!({"type": "string", "description": description});
    json!({
        "type": "object",
        "description": "An object.",
        "properties": {
            "apiVersion": text("Its group and version."),
            "kind": text("Its kind."),
            "name": text("Its name."),
            "namespace": text("Its namespace."),
            "message": text("What keeps it."),
        },
    })
}

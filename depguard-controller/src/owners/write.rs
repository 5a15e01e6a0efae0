//! What is written: each write is one request, and doing it again does no harm.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use depguard_core::GroupVersionResource;
use depguard_kcp::Metadata;
use serde_json::{Value, json};

use super::api::{FINALIZER, GLOBAL_OWNERS, GROUP_OWNERS, Names};
use super::observed::{GlobalOwner, GroupOwner, Object, Role, is_done};
use super::removal::LeftBehind;

/// Where ClusterRoles are.
pub(crate) const ROLES: &str = "/apis/rbac.authorization.k8s.io/v1/clusterroles";
const EVENTS: &str = "/api/v1/namespaces/default/events";

/// What follows from a look at the cluster.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Next {
    /// What can be written now, in any order, and at once.
    pub(crate) writes: Vec<Write>,
    /// What must be listed before anything more is decided.
    pub(crate) lists: BTreeSet<GroupVersionResource>,
    /// What is waited for, by the keys by which it is remembered.
    pub(crate) waits: BTreeSet<String>,
    /// The groups that were looked at before they go: by UID, each with the objects that it did not own yet.
    pub(crate) looks: BTreeMap<String, BTreeSet<String>>,
    /// What the GlobalOwner's status is to be.
    pub(crate) status: Option<Value>,
}

/// One write.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Write {
    /// Puts depguard's finalizer on a GlobalOwner.
    Finalize(Finalizers),
    /// Takes it away.
    Unfinalize(Finalizers),
    /// Makes a GroupOwner.
    CreateGroup(Value),
    /// Makes a GroupOwner say what its GlobalOwner says.
    UpdateGroup {
        /// Its name.
        name: String,
        /// Its UID.
        uid: String,
        /// Its spec.
        spec: Value,
        /// The place of its group in the list.
        index: usize,
    },
    /// Writes a GroupOwner's status: the whole object, in the state that was read.
    MarkGroup {
        /// Its UID.
        uid: String,
        /// The whole.
        object: Value,
    },
    /// Deletes a GroupOwner.
    DeleteGroup {
        /// Its name.
        name: String,
        /// Its UID.
        uid: String,
        /// Whether the garbage collector is to leave what refers to it alone.
        orphan: bool,
    },
    /// Makes a ClusterRole.
    CreateRole(Value),
    /// Gives a ClusterRole its rules and its label back.
    UpdateRole {
        /// Its name.
        name: String,
        /// Its UID.
        uid: String,
        /// The whole, as it should be.
        wanted: Value,
    },
    /// Deletes a ClusterRole.
    DeleteRole {
        /// Its name.
        name: String,
        /// Its UID.
        uid: String,
    },
    /// Makes a GroupOwner an owner of an object.
    Adopt {
        /// The object's resource.
        resource: GroupVersionResource,
        /// The object, as it was seen.
        object: Arc<Object>,
        /// The GroupOwner's name.
        group: String,
        /// The GroupOwner's UID.
        group_uid: String,
    },
    /// Makes a GroupOwner an object's owner no more.
    Release {
        /// The object's resource.
        resource: GroupVersionResource,
        /// The object, as it was seen.
        object: Arc<Object>,
        /// The GroupOwner's name.
        group: String,
        /// The GroupOwner's UID.
        group_uid: String,
    },
    /// Deletes an object, in the state that was seen.
    DeleteObject {
        /// Its resource.
        resource: GroupVersionResource,
        /// The object, as it was seen.
        object: Arc<Object>,
    },
    /// Writes a GlobalOwner's status: the whole object, in the state that was read.
    Status(Value),
    /// Tells of something.
    Event(Value),
}

/// A GlobalOwner's finalizers, as they were seen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Finalizers {
    name: String,
    uid: String,
    resource_version: String,
    known: Vec<String>,
}

/// How an API server is asked for a write.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Request {
    /// POST
    Create {
        /// Of the collection.
        path: String,
        /// What.
        body: Value,
    },
    /// PUT
    Replace {
        /// Of the object.
        path: String,
        /// What.
        body: Value,
    },
    /// PATCH, as a JSON patch.
    Patch {
        /// Of the object.
        path: String,
        /// Its operations.
        body: Value,
    },
    /// DELETE
    Delete {
        /// Of the object.
        path: String,
        /// The metav1.DeleteOptions.
        body: Value,
    },
}

impl Finalizers {
    /// Those of a GlobalOwner.
    pub(crate) fn of(owner: &GlobalOwner) -> Self {
        let resource_version = owner.object.pointer("/metadata/resourceVersion").and_then(Value::as_str);
        Self {
            name: owner.name.clone(),
            uid: owner.uid.clone(),
            resource_version: resource_version.unwrap_or_default().to_owned(),
            known: owner.finalizers.clone(),
        }
    }
}

impl Write {
    /// A GroupOwner's deletion.
    pub(crate) fn delete_group(group: &GroupOwner, orphan: bool) -> Self {
        Self::DeleteGroup { name: group.name.clone(), uid: group.uid.clone(), orphan }
    }

    /// A ClusterRole's deletion.
    pub(crate) fn delete_role(role: &Role) -> Self {
        Self::DeleteRole { name: role.name.clone(), uid: role.uid.clone() }
    }

    /// A GroupOwner with this phase in its status, and what it leaves behind.
    pub(crate) fn mark_group(group: &GroupOwner, phase: &str, left_behind: &LeftBehind) -> Self {
        let mut object = group.object.clone();
        if let Some(fields) = object.as_object_mut() {
            let status = fields.entry("status").or_insert_with(|| json!({}));
            if let Some(status) = status.as_object_mut() {
                status.insert("phase".to_owned(), json!(phase));
                status.extend(left_behind.fields());
                // It was marked so as nothing refers to it.
                if is_done(Some(phase)) {
                    status.insert("owned".to_owned(), json!(0));
                    status.remove("ownedResources");
                }
            }
        }
        Self::MarkGroup { uid: group.uid.clone(), object }
    }

    /// What it is about, by which it is remembered that it failed: a UID, or a name where there is none yet.
    pub(crate) fn key(&self) -> String {
        let of = |pointer: &str, object: &Value| {
            object.pointer(pointer).and_then(Value::as_str).unwrap_or_default().to_owned()
        };
        match self {
            Self::Finalize(finalizers) | Self::Unfinalize(finalizers) => finalizers.uid.clone(),
            Self::CreateGroup(object) => {
                let [group, _] = Self::creation_keys(&of("/metadata/name", object));
                group
            }
            Self::CreateRole(object) => {
                let [_, role] = Self::creation_keys(&of("/metadata/name", object));
                role
            }
            Self::UpdateGroup { uid, .. }
            | Self::MarkGroup { uid, .. }
            | Self::DeleteGroup { uid, .. }
            | Self::UpdateRole { uid, .. }
            | Self::DeleteRole { uid, .. } => uid.clone(),
            Self::Adopt { object, .. } | Self::Release { object, .. } | Self::DeleteObject { object, .. } => {
                object.uid().to_owned()
            }
            Self::Status(object) => Self::status_key(&of("/metadata/uid", object)),
            Self::Event(_) => "event".to_owned(),
        }
    }

    /// The key of a GlobalOwner's status.
    pub(crate) fn status_key(uid: &str) -> String {
        format!("status {uid}")
    }

    /// The keys of a GroupOwner and a role of this name, while they are not there.
    pub(crate) fn creation_keys(name: &str) -> [String; 2] {
        [format!("group {name}"), format!("role {name}")]
    }

    /// The request that does it. Each that changes or deletes something holds only for what was seen: by UID, and where
    /// it matters by state.
    pub(crate) fn request(&self) -> Request {
        match self {
            Self::Finalize(Finalizers { name, uid, resource_version, known }) => {
                let add = match known.is_empty() {
                    true => json!({"op": "add", "path": "/metadata/finalizers", "value": [FINALIZER]}),
                    false => json!({"op": "add", "path": "/metadata/finalizers/-", "value": FINALIZER}),
                };
                // Where there is none yet no list can be tested, and what others wrote in between would be replaced.
                patch(GLOBAL_OWNERS.path(name), uid, [unchanged(resource_version), add])
            }
            Self::Unfinalize(Finalizers { name, uid, known, .. }) => {
                let others: Vec<_> = known.iter().filter(|finalizer| *finalizer != FINALIZER).collect();
                let operations = [
                    json!({"op": "test", "path": "/metadata/finalizers", "value": known}),
                    json!({"op": "replace", "path": "/metadata/finalizers", "value": others}),
                ];
                patch(GLOBAL_OWNERS.path(name), uid, operations)
            }
            Self::CreateGroup(body) => Request::Create { path: GROUP_OWNERS.collection(), body: body.clone() },
            Self::UpdateGroup { name, uid, spec, index } => {
                let annotation = super::api::INDEX.replace('/', "~1");
                let operations = [
                    json!({"op": "add", "path": "/spec", "value": spec}),
                    json!({"op": "add", "path": format!("/metadata/annotations/{annotation}"), "value": index.to_string()}),
                ];
                patch(GROUP_OWNERS.path(name), uid, operations)
            }
            Self::MarkGroup { object, .. } => status(GROUP_OWNERS, object),
            Self::DeleteGroup { name, uid, orphan } => {
                delete(GROUP_OWNERS.path(name), uid, None, if *orphan { "Orphan" } else { "Background" })
            }
            Self::CreateRole(body) => Request::Create { path: ROLES.to_owned(), body: body.clone() },
            Self::UpdateRole { name, uid, wanted } => {
                let field = |pointer: &str| wanted.pointer(pointer).cloned().unwrap_or_default();
                let operations = [
                    json!({"op": "add", "path": "/rules", "value": field("/rules")}),
                    json!({"op": "add", "path": "/metadata/labels", "value": field("/metadata/labels")}),
                ];
                patch(format!("{ROLES}/{name}"), uid, operations)
            }
            Self::DeleteRole { name, uid } => delete(format!("{ROLES}/{name}"), uid, None, "Background"),
            Self::Adopt { resource, object, group, group_uid } => {
                let reference = json!({
                    "apiVersion": Names::api_version(),
                    "kind": GROUP_OWNERS.kind,
                    "name": group,
                    "uid": group_uid,
                    "controller": false,
                    "blockOwnerDeletion": false,
                });
                let add = match object.metadata.owner_references.is_empty() {
                    true => json!({"op": "add", "path": "/metadata/ownerReferences", "value": [reference]}),
                    false => json!({"op": "add", "path": "/metadata/ownerReferences/-", "value": reference}),
                };
                patch_object(resource, &object.metadata, [add])
            }
            Self::Release { resource, object, group_uid, .. } => {
                let owners = object.metadata.owner_references.iter();
                let at = owners.enumerate().filter(|(_, owner)| owner.uid == *group_uid).map(|(index, _)| index);
                // From the last one on: each removal moves those behind it.
                let operations: Vec<_> = at
                    .map(|index| format!("/metadata/ownerReferences/{index}"))
                    .rev()
                    .flat_map(|path| {
                        let test = json!({"op": "test", "path": format!("{path}/uid"), "value": group_uid});
                        [test, json!({"op": "remove", "path": path})]
                    })
                    .collect();
                patch_object(resource, &object.metadata, operations)
            }
            Self::DeleteObject { resource, object } => {
                let Metadata { uid, resource_version, .. } = &object.metadata;
                delete(object.metadata.path(resource), uid, Some(resource_version), "Background")
            }
            Self::Status(object) => status(GLOBAL_OWNERS, object),
            Self::Event(body) => Request::Create { path: EVENTS.to_owned(), body: body.clone() },
        }
    }
}

fn patch(path: String, uid: &str, operations: impl IntoIterator<Item = Value>) -> Request {
    let test = json!({"op": "test", "path": "/metadata/uid", "value": uid});
    Request::Patch { path, body: [test].into_iter().chain(operations).collect() }
}

/// A patch of an object in the state that was seen: what others write in between is never dropped.
fn patch_object(
    resource: &GroupVersionResource,
    metadata: &Metadata,
    operations: impl IntoIterator<Item = Value>,
) -> Request {
    let test = unchanged(&metadata.resource_version);
    patch(metadata.path(resource), &metadata.uid, [test].into_iter().chain(operations))
}

fn unchanged(resource_version: &str) -> Value {
    json!({"op": "test", "path": "/metadata/resourceVersion", "value": resource_version})
}

fn delete(path: String, uid: &str, resource_version: Option<&str>, propagation: &str) -> Request {
    let mut preconditions = json!({"uid": uid});
    if let (Some(version), Some(fields)) = (resource_version, preconditions.as_object_mut()) {
        fields.insert("resourceVersion".to_owned(), json!(version));
    }
    let body = json!({
        "apiVersion": "v1",
        "kind": "DeleteOptions",
        "preconditions": preconditions,
        "propagationPolicy": propagation,
    });
    Request::Delete { path, body }
}

fn status(names: Names, object: &Value) -> Request {
    let name = object.pointer("/metadata/name").and_then(Value::as_str).unwrap_or_default();
    Request::Replace { path: format!("{}/status", names.path(name)), body: object.clone() }
}

#[cfg(test)]
mod tests;

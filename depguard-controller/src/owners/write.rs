//! Writes for owners: each is one request, and doing it again does no harm.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use depguard_core::GroupVersionResource;
use depguard_kcp::Metadata;
use serde_json::{Value, json};

use crate::owners::api::{FINALIZER, GLOBAL_OWNERS, GROUP_OWNERS, Names};
use crate::owners::removal::LeftBehind;
use crate::owners::snapshot::{GlobalOwner, GroupOwner, Object, Role, is_done};

/// Path of ClusterRoles.
pub(crate) const ROLES: &str = "/apis/rbac.authorization.k8s.io/v1/clusterroles";
const EVENTS: &str = "/api/v1/namespaces/default/events";

/// Decision that follows from a look at the cluster.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Next {
    /// Writes that can be done now, in any order, and at once.
    pub(crate) writes: Vec<Write>,
    /// Resources that must be listed before anything more is decided.
    pub(crate) lists: BTreeSet<GroupVersionResource>,
    /// Keys of the things that are waited for, by which the memory knows them.
    pub(crate) waits: BTreeSet<String>,
    /// Groups that were looked at before they go: by UID, each with the objects that it did not own yet.
    pub(crate) looks: BTreeMap<String, BTreeSet<String>>,
    /// Status that the GlobalOwner should have.
    pub(crate) status: Option<Value>,
}

/// Write of one object.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Write {
    /// Puts depguard's finalizer on a GlobalOwner.
    Finalize(Finalizers),
    /// Takes depguard's finalizer off a GlobalOwner.
    Unfinalize(Finalizers),
    /// Makes a GroupOwner.
    CreateGroup(Value),
    /// Updates a GroupOwner to its entry in the GlobalOwner.
    UpdateGroup {
        /// Name of the GroupOwner.
        name: String,
        /// UID of the GroupOwner.
        uid: String,
        /// Desired spec.
        spec: Value,
        /// Index of its group in the list.
        index: usize,
    },
    /// Writes a GroupOwner's status: the whole object, in the state that was read.
    MarkGroup {
        /// UID of the GroupOwner.
        uid: String,
        /// The whole object.
        object: Value,
    },
    /// Deletes a GroupOwner.
    DeleteGroup {
        /// Name of the GroupOwner.
        name: String,
        /// UID of the GroupOwner.
        uid: String,
        /// True if the garbage collector must leave the objects that refer to it alone.
        orphan: bool,
    },
    /// Makes a ClusterRole.
    CreateRole(Value),
    /// Restores the rules and the labels of a ClusterRole.
    UpdateRole {
        /// Name of the ClusterRole.
        name: String,
        /// UID of the ClusterRole.
        uid: String,
        /// The whole role as it should be.
        desired: Value,
    },
    /// Deletes a ClusterRole.
    DeleteRole {
        /// Name of the ClusterRole.
        name: String,
        /// UID of the ClusterRole.
        uid: String,
    },
    /// Makes a GroupOwner an owner of an object.
    Adopt {
        /// Resource of the object.
        resource: GroupVersionResource,
        /// Object as it was seen.
        object: Arc<Object>,
        /// Name of the GroupOwner.
        group: String,
        /// UID of the GroupOwner.
        group_uid: String,
    },
    /// Removes a GroupOwner from the owners of an object.
    Release {
        /// Resource of the object.
        resource: GroupVersionResource,
        /// Object as it was seen.
        object: Arc<Object>,
        /// Name of the GroupOwner.
        group: String,
        /// UID of the GroupOwner.
        group_uid: String,
    },
    /// Deletes an object, in the state that was seen.
    DeleteObject {
        /// Resource of the object.
        resource: GroupVersionResource,
        /// Object as it was seen.
        object: Arc<Object>,
    },
    /// Writes a GlobalOwner's status: the whole object, in the state that was read.
    Status(Value),
    /// Creates an Event.
    Event(Value),
}

/// Finalizers of a GlobalOwner, as they were seen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Finalizers {
    name: String,
    uid: String,
    resource_version: String,
    known: Vec<String>,
}

/// Request for a write to an API server.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Request {
    /// POST
    Create {
        /// Path of the collection.
        path: String,
        /// Object to create.
        body: Value,
    },
    /// PUT
    Replace {
        /// Path of the object.
        path: String,
        /// Object that replaces it.
        body: Value,
    },
    /// PATCH, as a JSON patch.
    Patch {
        /// Path of the object.
        path: String,
        /// Operations of the patch.
        body: Value,
    },
    /// DELETE
    Delete {
        /// Path of the object.
        path: String,
        /// `metav1.DeleteOptions` of the request.
        body: Value,
    },
}

impl Finalizers {
    /// Returns the finalizers of a GlobalOwner.
    pub(crate) fn new(owner: &GlobalOwner) -> Self {
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
    /// Returns the deletion of a GroupOwner.
    pub(crate) fn delete_group(group: &GroupOwner, orphan: bool) -> Self {
        Self::DeleteGroup { name: group.name.clone(), uid: group.uid.clone(), orphan }
    }

    /// Returns the deletion of a ClusterRole.
    pub(crate) fn delete_role(role: &Role) -> Self {
        Self::DeleteRole { name: role.name.clone(), uid: role.uid.clone() }
    }

    /// Returns the write that sets a phase in a GroupOwner's status, and the objects that it leaves behind.
    pub(crate) fn mark_group(group: &GroupOwner, phase: &str, left_behind: &LeftBehind) -> Self {
        let mut object = group.object.clone();
        if let Some(fields) = object.as_object_mut() {
            let status = fields.entry("status").or_insert_with(|| json!({}));
            if let Some(status) = status.as_object_mut() {
                status.insert("phase".to_owned(), json!(phase));
                status.extend(left_behind.fields());
                // In such a phase nothing refers to the group.
                if is_done(Some(phase)) {
                    status.insert("owned".to_owned(), json!(0));
                    status.remove("ownedResources");
                }
            }
        }
        Self::MarkGroup { uid: group.uid.clone(), object }
    }

    /// Returns the key by which a failure of the write is remembered: the UID of its object, or a name if the object
    /// has no UID yet.
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

    /// Returns the key of the write of a GlobalOwner's status.
    pub(crate) fn status_key(uid: &str) -> String {
        format!("status {uid}")
    }

    /// Returns the keys of the writes that create a GroupOwner and a role of this name.
    pub(crate) fn creation_keys(name: &str) -> [String; 2] {
        [format!("group {name}"), format!("role {name}")]
    }

    /// Returns the request for the write. Each request that changes or deletes something holds only for the object that
    /// was seen: by UID, and where it matters by resource version.
    pub(crate) fn request(&self) -> Request {
        match self {
            Self::Finalize(Finalizers { name, uid, resource_version, known }) => {
                let add = match known.is_empty() {
                    true => json!({"op": "add", "path": "/metadata/finalizers", "value": [FINALIZER]}),
                    false => json!({"op": "add", "path": "/metadata/finalizers/-", "value": FINALIZER}),
                };
                // Without a list there is nothing to test in it, and finalizers that others wrote in between would be
                // replaced.
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
                let annotation = crate::owners::api::INDEX.replace('/', "~1");
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
            Self::UpdateRole { name, uid, desired } => {
                let field = |pointer: &str| desired.pointer(pointer).cloned().unwrap_or_default();
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
                // From the last reference on: each removal moves the references behind it.
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

/// Returns a patch of an object in the state that was seen: other writes in between are never dropped.
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

//! Needs of a GlobalOwner that is not being deleted: its GroupOwners and roles, and the owner references to its groups.

use std::collections::BTreeMap;
use std::sync::Arc;

use depguard_core::owners::{EMPTY, Entry, RELEASED};
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::model::names::OWNING;
use crate::owners::api::{AGGREGATE, FINALIZER, GLOBAL_OWNER, GLOBAL_OWNERS, GROUP_OWNERS, INDEX, Names};
use crate::owners::group::{Selection, group_name};
use crate::owners::removal::{LeftBehind, Memory};
use crate::owners::snapshot::{GlobalOwner, GroupOwner, Guard, Listing, Object, OwnerSnapshot};
use crate::owners::status::{self, GroupReport};
use crate::owners::write::{Finalizers, Next, Write};

/// Verbs that the controller needs for the objects of a group.
const VERBS: [&str; 5] = ["get", "list", "watch", "patch", "delete"];

/// Returns what to write next. Nothing is owned before the finalizer is there, so that a deletion of the GlobalOwner
/// leaves time to remove its objects in order.
pub(crate) fn next(observed: &OwnerSnapshot, memory: &Memory, now: Instant) -> Next {
    let owner = &observed.owner;
    let mut next = Next::default();
    let entries = match &owner.entries {
        Ok(entries) => entries,
        Err(why) => {
            let why = format!("{why}; owned objects stay as they are until this is corrected");
            next.status = Some(status::refused(observed, "Invalid", why));
            return next;
        }
    };
    match &observed.guard {
        Guard::InForce => {}
        Guard::Pending => return next,
        Guard::Missing(why) => {
            next.status = Some(status::refused(observed, "Unguarded", format!("nothing is adopted: {why}")));
            return next;
        }
    }
    if !owner.finalizers.iter().any(|finalizer| finalizer == FINALIZER) {
        next.writes.push(Write::Finalize(Finalizers::new(owner)));
    } else {
        let desired: BTreeMap<_, _> = entries
            .iter()
            .enumerate()
            .map(|(index, entry)| (group_name(&owner.name, &owner.uid, entry), (index, entry)))
            .collect();
        let mut grouped = Vec::new();
        for (name, (index, entry)) in &desired {
            let group = observed.groups.iter().find(|group| group.name == *name);
            next.writes.extend(make_group(&observed.owner, name, *index, entry, group));
            next.writes.extend(make_role(observed, name, entry));
            grouped.push(GroupReport {
                index: *index,
                entry,
                group,
                group_objects: group_objects(observed, entry, group, memory),
            });
        }
        grouped.sort_by_key(|grouped| grouped.index);
        for GroupReport { entry, group, group_objects, .. } in &grouped {
            let Some(group) = group else { continue };
            next.writes.extend(group_objects.writes(entry, group));
        }
        dismiss_all(observed, |name| desired.contains_key(name), &mut next);
        next.writes.retain(|write| !is_awaited(write, &grouped));
        // A resource that is not listed yet, as after each start, tells nothing new.
        for grouped in grouped.iter().filter(|grouped| !grouped.group_objects.is_pending) {
            next.writes.extend(status::of_group(grouped, observed));
        }
        if grouped.iter().all(|grouped| !grouped.group_objects.is_pending) {
            next.status = Some(status::of_owner(observed, &grouped));
        }
    }
    next.writes.retain(|write| memory.is_due(&write.key(), now));
    next
}

/// Returns what to write for a GlobalOwner that is gone: its objects stay, its groups and roles go.
pub(crate) fn after(observed: &OwnerSnapshot, memory: &Memory, now: Instant) -> Next {
    let mut next = Next::default();
    dismiss_all(observed, |_| false, &mut next);
    next.writes.retain(|write| memory.is_due(&write.key(), now));
    next
}

/// Relation of an object to a group of its resource.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Adoption {
    /// The group owns the object.
    Owned,
    /// The group is to own the object.
    Adopt,
    /// The group owns the object, and is to release it.
    Release,
    /// The group selects the object, and can't own it for this reason.
    NotAdopted(String),
    /// The object has nothing to do with the group.
    Stranger,
}

/// Objects of a group, by their relation to the group.
#[derive(Debug, Clone, Default)]
pub(crate) struct GroupObjects {
    pub(crate) kind: String,
    pub(crate) owned: Vec<Arc<Object>>,
    pub(crate) adopt: Vec<Arc<Object>>,
    pub(crate) release: Vec<Arc<Object>>,
    /// Objects that can't be owned, each with the reason.
    pub(crate) not_adopted: Vec<(Arc<Object>, String)>,
    /// True if the objects will be known in a moment.
    pub(crate) is_pending: bool,
    /// Reason why the objects are not known.
    pub(crate) unseen: Option<String>,
}

impl GroupObjects {
    fn writes(&self, entry: &Entry, group: &GroupOwner) -> Vec<Write> {
        let resource = &entry.resource;
        let adopt = self.adopt.iter().map(|object| Write::Adopt {
            resource: resource.clone(),
            object: Arc::clone(object),
            group: group.name.clone(),
            group_uid: group.uid.clone(),
        });
        let release = self.release.iter().map(|object| Write::Release {
            resource: resource.clone(),
            object: Arc::clone(object),
            group: group.name.clone(),
            group_uid: group.uid.clone(),
        });
        adopt.chain(release).collect()
    }
}

/// Returns the relation of an object to a group.
pub(crate) fn fate(entry: &Entry, group_uid: &str, object: &Object) -> Adoption {
    let is_owned = object.is_owned_by(group_uid);
    let is_selected = entry.selects(&object.metadata);
    match (is_owned, is_selected && !object.opted_out) {
        (true, true) => return Adoption::Owned,
        (true, false) => return Adoption::Release,
        (false, false) if is_selected || !entry.names(&object.metadata) => return Adoption::Stranger,
        (false, false) if object.opted_out => return Adoption::Stranger,
        (false, false) => {
            return Adoption::NotAdopted("is named, but does not have the labels of the selector".to_owned());
        }
        (false, true) => {}
    }
    let mut owners = object.metadata.owner_references.iter();
    match owners.find(|owner| owner.controller == Some(true)) {
        // The other controller would undo any change.
        Some(other) => Adoption::NotAdopted(format!("is controlled by {} {}", other.kind, other.name)),
        None if object.is_deleting() => Adoption::Stranger,
        None => Adoption::Adopt,
    }
}

/// Returns true if a write would release an object that is to get another of the groups as its owner first. The object
/// must have an owner at all times: a deletion of the GlobalOwner in between would otherwise leave the object behind.
fn is_awaited(write: &Write, groups: &[GroupReport<'_>]) -> bool {
    let Write::Release { resource, object, .. } = write else { return false };
    let kind = resource.group_resource();
    let mut groups = groups.iter().filter(|grouped| grouped.entry.resource.group_resource() == kind);
    groups.any(|GroupReport { entry, group, .. }| {
        let uid = group.map(|group| group.uid.as_str()).unwrap_or_default();
        fate(entry, uid, object) == Adoption::Adopt
    })
}

fn group_objects(observed: &OwnerSnapshot, entry: &Entry, group: Option<&GroupOwner>, memory: &Memory) -> GroupObjects {
    let mut group_objects = GroupObjects::default();
    let objects = match observed.listing(&entry.resource) {
        Listing::Pending => {
            group_objects.is_pending = true;
            return group_objects;
        }
        Listing::NotServed(why) | Listing::Unwatched(why) | Listing::Unreadable(why) => {
            group_objects.unseen = Some(why.clone());
            return group_objects;
        }
        Listing::Objects { kind, objects, .. } => {
            group_objects.kind.clone_from(kind);
            objects
        }
    };
    // A GroupOwner that goes takes along the objects that refer to it: nothing is given to it until a new one is there.
    let Some(group) = group.filter(|group| !group.is_deleting && !group.is_done()) else {
        group_objects.unseen = Some("its GroupOwner does not exist yet".to_owned());
        return group_objects;
    };
    for object in objects {
        match fate(entry, &group.uid, object) {
            Adoption::Owned => group_objects.owned.push(Arc::clone(object)),
            Adoption::Adopt => {
                if let Some(why) = memory.refusal(object.uid()) {
                    group_objects.not_adopted.push((Arc::clone(object), format!("could not be adopted: {why}")));
                }
                group_objects.adopt.push(Arc::clone(object));
            }
            Adoption::Release => group_objects.release.push(Arc::clone(object)),
            Adoption::NotAdopted(why) => group_objects.not_adopted.push((Arc::clone(object), why)),
            Adoption::Stranger => {}
        }
    }
    group_objects
}

/// Returns the write that makes or corrects the GroupOwner of a group; `None` if it is right.
fn make_group(
    owner: &GlobalOwner,
    name: &str,
    index: usize,
    entry: &Entry,
    group: Option<&GroupOwner>,
) -> Option<Write> {
    match group {
        None => Some(Write::CreateGroup(group_owner(owner, name, index, entry))),
        Some(group) if group.is_deleting => None,
        Some(group) if group.is_done() => Some(Write::mark_group(group, OWNING, &LeftBehind::default())),
        Some(group) if group.index != index || group.object.get("spec") != Some(&entry.group_spec) => {
            let (name, uid, spec) = (group.name.clone(), group.uid.clone(), entry.group_spec.clone());
            Some(Write::UpdateGroup { name, uid, spec, index })
        }
        Some(_) => None,
    }
}

/// Returns the write that makes the GroupOwner of an entry that has none.
pub(super) fn make_missing_group(owner: &GlobalOwner, entry: &Entry) -> Option<Write> {
    let index = owner.entries.iter().flatten().position(|known| known == entry)?;
    make_group(owner, &group_name(&owner.name, &owner.uid, entry), index, entry, None)
}

/// Returns the write that makes or corrects the role of a group; `None` if it is right.
pub(super) fn make_role(observed: &OwnerSnapshot, name: &str, entry: &Entry) -> Option<Write> {
    if observed.precreated_roles {
        return None;
    }
    let desired = role(&observed.owner, name, entry);
    match observed.roles.iter().find(|role| role.name == name) {
        None => Some(Write::CreateRole(desired)),
        Some(role) if is_as_desired(&role.object, &desired) => None,
        Some(role) => Some(Write::UpdateRole { name: role.name.clone(), uid: role.uid.clone(), desired }),
    }
}

/// Dismisses the groups and the roles whose names are not desired any more.
fn dismiss_all(observed: &OwnerSnapshot, is_wanted: impl Fn(&str) -> bool, next: &mut Next) {
    for group in observed.groups.iter().filter(|group| !is_wanted(&group.name)) {
        dismiss(observed, group, next);
    }
    for role in observed
        .roles
        .iter()
        .filter(|role| !is_wanted(&role.name) && !observed.groups.iter().any(|group| group.name == role.name))
    {
        next.writes.push(Write::delete_role(role));
    }
}

/// Releases the objects of a group that is no longer in the spec; then the group's role and its GroupOwner go.
fn dismiss(observed: &OwnerSnapshot, group: &GroupOwner, next: &mut Next) {
    let Ok(entry) = &group.entry else { return };
    let role = observed.roles.iter().find(|role| role.name == group.name);
    if group.is_done() {
        // The role goes first: it is found by its label, so the search does not need the GroupOwner.
        match role {
            Some(role) => next.writes.push(Write::delete_role(role)),
            None if group.is_deleting => {}
            None => next.writes.push(Write::delete_group(group, true)),
        }
        return;
    }
    next.writes.extend(make_role(observed, &group.name, entry));
    match observed.listing(&entry.resource) {
        Listing::Pending | Listing::Unreadable(_) => {}
        Listing::Unwatched(_) => _ = next.lists.insert(entry.resource.clone()),
        Listing::NotServed(_) => next.writes.push(Write::mark_group(group, EMPTY, &LeftBehind::default())),
        Listing::Objects { objects, consistent, .. } => {
            let owned: Vec<_> = objects.iter().filter(|object| object.is_owned_by(&group.uid)).collect();
            next.writes.extend(owned.iter().map(|object| Write::Release {
                resource: entry.resource.clone(),
                object: Arc::clone(object),
                group: group.name.clone(),
                group_uid: group.uid.clone(),
            }));
            match (owned.is_empty(), consistent) {
                (true, true) => next.writes.push(Write::mark_group(group, RELEASED, &LeftBehind::default())),
                // A watch may be behind.
                (true, false) => _ = next.lists.insert(entry.resource.clone()),
                (false, _) => {}
            }
        }
    }
}

fn group_owner(owner: &GlobalOwner, name: &str, index: usize, entry: &Entry) -> Value {
    json!({
        "apiVersion": Names::api_version(),
        "kind": GROUP_OWNERS.kind,
        "metadata": {
            "name": name,
            "labels": {GLOBAL_OWNER: owner.uid},
            "annotations": {GLOBAL_OWNER: owner.name, INDEX: index.to_string()},
            "ownerReferences": [{
                "apiVersion": Names::api_version(),
                "kind": GLOBAL_OWNERS.kind,
                "name": owner.name,
                "uid": owner.uid,
                "controller": true,
                "blockOwnerDeletion": false,
            }],
        },
        "spec": entry.group_spec,
    })
}

fn role(owner: &GlobalOwner, name: &str, entry: &Entry) -> Value {
    json!({
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRole",
        "metadata": {
            "name": name,
            "labels": {AGGREGATE: "true", GLOBAL_OWNER: owner.uid},
            "annotations": {GLOBAL_OWNER: owner.name},
        },
        "rules": [{
            "apiGroups": [entry.resource.group.as_str()],
            "resources": [entry.resource.resource.as_str()],
            "verbs": VERBS,
        }],
    })
}

fn is_as_desired(role: &Value, desired: &Value) -> bool {
    let same = |pointer: &str| role.pointer(pointer) == desired.pointer(pointer);
    same("/rules") && same("/metadata/labels")
}

#[cfg(test)]
mod tests;

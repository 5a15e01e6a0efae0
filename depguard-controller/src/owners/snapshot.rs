//! State of the cluster as one look found it, on which all decisions rest.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use depguard_core::owners::{self, DeletionPolicy, EMPTY, Entry, Order, RELEASED, SpecError};
use depguard_core::{GroupVersionResource, Rule};
use depguard_kcp::Metadata;
use serde_json::Value;

use crate::owners::api::{GLOBAL_OWNER, GROUP, GROUP_OWNERS, INDEX, OPT_OUT};
use crate::owners::group::{Selection, group_name};
use crate::owners::write::Write;
use crate::rules::written_rule::WrittenRule;

/// GlobalOwner, with all facts that matter for it.
#[derive(Debug, Clone)]
pub(crate) struct OwnerSnapshot {
    /// The GlobalOwner itself.
    pub(crate) owner: GlobalOwner,
    /// GroupOwners of this GlobalOwner, in the order of their groups.
    pub(crate) groups: Vec<GroupOwner>,
    /// ClusterRoles of the groups.
    pub(crate) roles: Vec<Role>,
    /// Objects of each resource of the groups.
    pub(crate) listings: BTreeMap<GroupVersionResource, Listing>,
    /// Selections of the GlobalOwners that stay, if this one is being deleted.
    pub(crate) others: Vec<Entry>,
    /// DependencyRules, also those that can't be used.
    pub(crate) rules: Vec<WrittenRule>,
    /// Reason why the order of the groups is not known.
    pub(crate) unordered: Option<String>,
    /// True if somebody else makes the ClusterRoles.
    pub(crate) precreated_roles: bool,
    /// State of the guard of GlobalOwners and GroupOwners against a deletion that takes all objects at once.
    pub(crate) guard: Guard,
    /// Time of the look, such as `2026-01-31T00:00:00Z`.
    pub(crate) now: String,
}

/// State of the webhook configuration that has each deletion of an owner reviewed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Guard {
    /// The configuration is in force.
    InForce,
    /// The configuration will be in force in a moment.
    Pending,
    /// The configuration is not in force, for this reason.
    Missing(String),
}

/// GlobalOwner, read from its object.
#[derive(Debug, Clone)]
pub(crate) struct GlobalOwner {
    /// Name of the GlobalOwner.
    pub(crate) name: String,
    /// UID of the GlobalOwner.
    pub(crate) uid: String,
    /// Generation of its spec.
    pub(crate) generation: i64,
    /// True if the GlobalOwner is being deleted.
    pub(crate) is_deleting: bool,
    /// True if the GlobalOwner is gone, though something that was made for it is still there.
    pub(crate) is_gone: bool,
    /// Finalizers of the GlobalOwner.
    pub(crate) finalizers: Vec<String>,
    /// Order in which its groups are removed.
    pub(crate) order: Order,
    /// Policy for its objects when it is deleted.
    pub(crate) deletion_policy: DeletionPolicy,
    /// Entries of its groups.
    pub(crate) entries: Result<Vec<Entry>, SpecError>,
    /// The whole object.
    pub(crate) object: Value,
}

/// GroupOwner, read from its object.
#[derive(Debug, Clone)]
pub(crate) struct GroupOwner {
    /// Name of the GroupOwner.
    pub(crate) name: String,
    /// UID of the GroupOwner.
    pub(crate) uid: String,
    /// Index of its group in the GlobalOwner's list.
    pub(crate) index: usize,
    /// True if it has the owner reference to its GlobalOwner. The garbage collector takes this reference away if the
    /// GlobalOwner is deleted so that its dependents stay.
    pub(crate) is_owned: bool,
    /// True if the GroupOwner is being deleted.
    pub(crate) is_deleting: bool,
    /// Value of `status.phase`.
    pub(crate) phase: Option<String>,
    /// Entry of its group.
    pub(crate) entry: Result<Entry, SpecError>,
    /// The whole object.
    pub(crate) object: Value,
}

/// ClusterRole of a group.
#[derive(Debug, Clone)]
pub(crate) struct Role {
    /// Name of the ClusterRole, the same as the GroupOwner's.
    pub(crate) name: String,
    /// UID of the ClusterRole.
    pub(crate) uid: String,
    /// The whole object.
    pub(crate) object: Value,
}

/// Objects of a resource, or the reason why they are not known.
#[derive(Debug, Clone)]
pub(crate) enum Listing {
    /// The objects are not known yet.
    Pending,
    /// The objects are known.
    Objects {
        /// Kind of the objects.
        kind: String,
        /// Objects that a group may select, and objects that some GroupOwner owns.
        objects: Vec<Arc<Object>>,
        /// True if a list in this look showed them, in all namespaces; false if a watch did, which may be behind.
        consistent: bool,
    },
    /// There is no such resource, so there can be no objects.
    NotServed(String),
    /// The objects can't be watched, for this reason. A list may still show them: it may be allowed since.
    Unwatched(String),
    /// The objects can't be read, for this reason.
    Unreadable(String),
}

/// Metadata of an object that may be owned.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Object {
    /// Metadata of the object, without its annotations.
    pub(crate) metadata: Metadata,
    /// True if an annotation says that the object stays out.
    pub(crate) opted_out: bool,
}

impl OwnerSnapshot {
    /// Returns the rules that can be used.
    pub(crate) fn usable_rules(&self) -> impl Iterator<Item = &Rule> {
        self.rules.iter().filter_map(|rule| rule.rule().ok())
    }

    /// Returns the objects of a resource.
    pub(crate) fn listing(&self, resource: &GroupVersionResource) -> &Listing {
        self.listings.get(resource).unwrap_or(&Listing::Pending)
    }

    /// Returns true if an object of the resource may belong to one of the groups.
    pub(crate) fn is_of_interest(&self, resource: &GroupVersionResource, object: &Metadata) -> bool {
        let of_groups = self.groups.iter().filter_map(|group| group.entry.as_ref().ok());
        let mut entries = self.owner.entries.iter().flatten().chain(of_groups);
        entries.any(|entry| entry.resource == *resource && (entry.selects(object) || entry.names(object)))
    }

    /// Returns the keys under which failures of writes may be remembered, for everything that exists; `None` if some
    /// objects are not known.
    pub(crate) fn keys(&self) -> Option<BTreeSet<String>> {
        let mut keys: BTreeSet<String> = self.groups.iter().map(|group| group.uid.clone()).collect();
        keys.extend(self.roles.iter().map(|role| role.uid.clone()));
        keys.insert(self.owner.uid.clone());
        keys.insert(Write::status_key(&self.owner.uid));
        for entry in self.owner.entries.iter().flatten() {
            keys.extend(Write::creation_keys(&group_name(&self.owner.name, &self.owner.uid, entry)));
        }
        for group in &self.groups {
            keys.extend(Write::creation_keys(&group.name));
        }
        for listing in self.listings.values() {
            match listing {
                Listing::Objects { objects, .. } => keys.extend(objects.iter().map(|object| object.uid().to_owned())),
                Listing::NotServed(_) => {}
                Listing::Pending | Listing::Unwatched(_) | Listing::Unreadable(_) => return None,
            }
        }
        Some(keys)
    }
}

impl GlobalOwner {
    /// Returns the phase that its status gives.
    pub(crate) fn phase(&self) -> Option<&str> {
        self.object.pointer("/status/phase").and_then(Value::as_str)
    }

    /// Returns the UID and the name of the GlobalOwner for which a GroupOwner or a role was made.
    pub(crate) fn of_made(object: &Value) -> Option<(String, String)> {
        let name = object.pointer("/metadata/annotations")?.get(GLOBAL_OWNER)?.as_str()?;
        Some((GroupOwner::global_uid(object)?.to_owned(), name.to_owned()))
    }

    /// Returns a GlobalOwner that is gone.
    pub(crate) fn gone(uid: String, name: String) -> Self {
        Self {
            name,
            uid,
            generation: 0,
            is_deleting: false,
            is_gone: true,
            finalizers: Vec::new(),
            order: Order::Listed,
            deletion_policy: DeletionPolicy::Orphan,
            entries: Ok(Vec::new()),
            object: Value::Null,
        }
    }

    /// Reads a GlobalOwner; `None` if it has no name or no UID.
    pub(crate) fn read(object: &Value) -> Option<Self> {
        let spec = object.get("spec").unwrap_or(&Value::Null);
        Some(Self {
            name: text(object, "/metadata/name")?,
            uid: text(object, "/metadata/uid")?,
            generation: object.pointer("/metadata/generation").and_then(Value::as_i64).unwrap_or_default(),
            is_deleting: object.pointer("/metadata/deletionTimestamp").is_some(),
            is_gone: false,
            finalizers: texts(object.pointer("/metadata/finalizers")),
            order: Order::from_spec(spec),
            deletion_policy: DeletionPolicy::from_owner(object),
            entries: owners::entries(spec),
            object: object.clone(),
        })
    }
}

impl GroupOwner {
    /// Returns the UID of the GlobalOwner for which an object was made.
    pub(crate) fn global_uid(object: &Value) -> Option<&str> {
        object.pointer("/metadata/labels")?.get(GLOBAL_OWNER)?.as_str()
    }

    /// Returns true if its phase says that nothing refers to it any more.
    pub(crate) fn is_done(&self) -> bool {
        is_done(self.phase.as_deref())
    }

    /// Reads a GroupOwner; `None` if it has no name or no UID.
    pub(crate) fn read(object: &Value) -> Option<Self> {
        let global_uid = Self::global_uid(object).unwrap_or_default();
        let references = object.pointer("/metadata/ownerReferences").and_then(Value::as_array);
        let mut owners = references.into_iter().flatten().filter_map(|reference| reference.get("uid")?.as_str());
        let index = object.pointer("/metadata/annotations").and_then(|all| all.get(INDEX)?.as_str()?.parse().ok());
        Some(Self {
            name: text(object, "/metadata/name")?,
            uid: text(object, "/metadata/uid")?,
            index: index.unwrap_or(usize::MAX),
            is_owned: owners.any(|uid| uid == global_uid),
            is_deleting: object.pointer("/metadata/deletionTimestamp").is_some(),
            phase: text(object, "/status/phase"),
            entry: owners::entry_of_group(object.get("spec").unwrap_or(&Value::Null)),
            object: object.clone(),
        })
    }
}

/// Returns true if a GroupOwner of this phase says that nothing refers to it any more, so that anybody may delete it.
pub(crate) fn is_done(phase: Option<&str>) -> bool {
    matches!(phase, Some(EMPTY | RELEASED))
}

impl Role {
    /// Returns the UID of the GlobalOwner for which the role was made.
    pub(crate) fn global_uid(&self) -> Option<&str> {
        GroupOwner::global_uid(&self.object)
    }

    /// Reads a role; `None` if it has no name or no UID.
    pub(crate) fn read(object: &Value) -> Option<Self> {
        let (name, uid) = (text(object, "/metadata/name")?, text(object, "/metadata/uid")?);
        Some(Self { name, uid, object: object.clone() })
    }
}

impl Object {
    /// Makes an object from its metadata.
    pub(crate) fn from_metadata(mut metadata: Metadata) -> Self {
        let opted_out = metadata.annotations.get(OPT_OUT).is_some_and(|value| value == "false");
        metadata.annotations.clear();
        Self { metadata, opted_out }
    }

    /// Returns the UID of the object.
    pub(crate) fn uid(&self) -> &str {
        &self.metadata.uid
    }

    /// Returns true if the object is being deleted.
    pub(crate) fn is_deleting(&self) -> bool {
        self.metadata.deletion_timestamp.is_some()
    }

    /// Returns true if the object has a reference to the owner with this UID.
    pub(crate) fn is_owned_by(&self, uid: &str) -> bool {
        self.metadata.owner_references.iter().any(|owner| owner.uid == uid)
    }

    /// Returns true if the object has a reference to any GroupOwner.
    pub(crate) fn is_owned(&self) -> bool {
        let is_of_group = |api_version: &str| api_version.split_once('/').is_some_and(|(group, _)| group == GROUP);
        let mut owners = self.metadata.owner_references.iter();
        owners.any(|owner| owner.kind == GROUP_OWNERS.kind && is_of_group(&owner.api_version))
    }

    /// Returns the namespace and the name, as messages show them: `default/a`, or `a`.
    pub(crate) fn display(&self) -> String {
        match &self.metadata.namespace {
            Some(namespace) => format!("{namespace}/{}", self.metadata.name),
            None => self.metadata.name.clone(),
        }
    }
}

fn text(object: &Value, pointer: &str) -> Option<String> {
    object.pointer(pointer).and_then(Value::as_str).filter(|text| !text.is_empty()).map(str::to_owned)
}

fn texts(list: Option<&Value>) -> Vec<String> {
    let texts = list.and_then(Value::as_array).into_iter().flatten();
    texts.filter_map(Value::as_str).map(str::to_owned).collect()
}

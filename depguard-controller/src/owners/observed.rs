//! What is in the cluster, as one look found it: all that is decided by.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use depguard_core::owners::{EMPTY, RELEASED};
use depguard_core::{GroupVersionResource, Rule};
use depguard_kcp::Metadata;
use serde_json::Value;

use super::api::{GLOBAL_OWNER, GROUP, GROUP_OWNERS, INDEX, OPT_OUT};
use super::removal::Order;
use super::spec::{self, DeletionPolicy, Entry, SpecError, group_name};
use super::write::Write;

/// A GlobalOwner and all that bears on it.
#[derive(Debug, Clone)]
pub(crate) struct Observed {
    /// Itself.
    pub(crate) owner: GlobalOwner,
    /// Its GroupOwners, in the order of their groups.
    pub(crate) groups: Vec<GroupOwner>,
    /// Their ClusterRoles.
    pub(crate) roles: Vec<Role>,
    /// The objects of each resource of its groups.
    pub(crate) listings: BTreeMap<GroupVersionResource, Listing>,
    /// What GlobalOwners select that are not being deleted, where this one is.
    pub(crate) others: Vec<Entry>,
    /// The DependencyRules that can be used.
    pub(crate) rules: Vec<Rule>,
    /// The names of those that can't.
    pub(crate) broken_rules: Vec<String>,
    /// Why it is not known in which order groups go.
    pub(crate) unordered: Option<String>,
    /// Whether ClusterRoles are made by somebody else.
    pub(crate) precreated_roles: bool,
    /// Whether GlobalOwners and GroupOwners are guarded against a deletion that takes all at once.
    pub(crate) guard: Guard,
    /// When it was looked: `2026-01-31T00:00:00Z`.
    pub(crate) now: String,
}

/// Whether each deletion of an owner is asked about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Guard {
    /// It is.
    InForce,
    /// It will be in a moment.
    Pending,
    /// It is not, and why.
    Missing(String),
}

/// A GlobalOwner.
#[derive(Debug, Clone)]
pub(crate) struct GlobalOwner {
    /// Its name.
    pub(crate) name: String,
    /// Its UID.
    pub(crate) uid: String,
    /// Which version of its spec it is.
    pub(crate) generation: i64,
    /// Whether it is being deleted.
    pub(crate) is_deleting: bool,
    /// Whether it is there no more, though something that was made for it is.
    pub(crate) is_gone: bool,
    /// Its finalizers.
    pub(crate) finalizers: Vec<String>,
    /// In which order its groups are removed.
    pub(crate) order: Order,
    /// What becomes of its objects.
    pub(crate) deletion_policy: DeletionPolicy,
    /// Its groups.
    pub(crate) entries: Result<Vec<Entry>, SpecError>,
    /// The whole.
    pub(crate) object: Value,
}

/// A GroupOwner.
#[derive(Debug, Clone)]
pub(crate) struct GroupOwner {
    /// Its name.
    pub(crate) name: String,
    /// Its UID.
    pub(crate) uid: String,
    /// The place of its group in the GlobalOwner's list.
    pub(crate) index: usize,
    /// Whether it has the reference to its GlobalOwner: the garbage collector takes it away when the GlobalOwner is
    /// deleted so that its dependents stay.
    pub(crate) is_owned: bool,
    /// Whether it is being deleted.
    pub(crate) is_deleting: bool,
    /// `status.phase`
    pub(crate) phase: Option<String>,
    /// Its group.
    pub(crate) entry: Result<Entry, SpecError>,
    /// The whole.
    pub(crate) object: Value,
}

/// A group's ClusterRole.
#[derive(Debug, Clone)]
pub(crate) struct Role {
    /// Its name: that of the GroupOwner.
    pub(crate) name: String,
    /// Its UID.
    pub(crate) uid: String,
    /// The whole.
    pub(crate) object: Value,
}

/// The objects of a resource.
#[derive(Debug, Clone)]
pub(crate) enum Listing {
    /// It is not known yet what there is.
    Pending,
    /// These.
    Objects {
        /// Their kind.
        kind: String,
        /// Those that a group may select, and those that some GroupOwner owns.
        objects: Vec<Arc<Object>>,
        /// Taken by a list in this look, in all namespaces; else by a watch, and maybe behind.
        consistent: bool,
    },
    /// There is no such resource, and there can be no objects.
    NotServed(String),
    /// They can't be watched, and why. A list may show them all the same: it may be allowed since.
    Unwatched(String),
    /// They can't be seen, and why.
    Unreadable(String),
}

/// An object that may be owned: what its metadata says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Object {
    /// Its metadata; of its annotations none.
    pub(crate) metadata: Metadata,
    /// Whether its annotation says that it stays out.
    pub(crate) opted_out: bool,
}

impl Observed {
    /// The objects of a group.
    pub(crate) fn listing(&self, resource: &GroupVersionResource) -> &Listing {
        self.listings.get(resource).unwrap_or(&Listing::Pending)
    }

    /// Whether an object of a resource may be of any of the groups.
    pub(crate) fn is_of_interest(&self, resource: &GroupVersionResource, object: &Metadata) -> bool {
        let of_groups = self.groups.iter().filter_map(|group| group.entry.as_ref().ok());
        let mut entries = self.owner.entries.iter().flatten().chain(of_groups);
        entries.any(|entry| entry.resource == *resource && (entry.selects(object) || entry.names(object)))
    }

    /// By what it is remembered that a write failed, of all that there is; `None`: not all of it is known.
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
    /// What its status says is done about it.
    pub(crate) fn phase(&self) -> Option<&str> {
        self.object.pointer("/status/phase").and_then(Value::as_str)
    }

    /// The UID and the name of the one that a GroupOwner, or a role, was made for.
    pub(crate) fn of_made(object: &Value) -> Option<(String, String)> {
        let name = object.pointer("/metadata/annotations")?.get(GLOBAL_OWNER)?.as_str()?;
        Some((GroupOwner::global_uid(object)?.to_owned(), name.to_owned()))
    }

    /// One that is no more.
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

    /// Reads one; `None`: it has no name or no UID.
    pub(crate) fn read(object: &Value) -> Option<Self> {
        let spec = object.get("spec").unwrap_or(&Value::Null);
        Some(Self {
            name: text(object, "/metadata/name")?,
            uid: text(object, "/metadata/uid")?,
            generation: object.pointer("/metadata/generation").and_then(Value::as_i64).unwrap_or_default(),
            is_deleting: object.pointer("/metadata/deletionTimestamp").is_some(),
            is_gone: false,
            finalizers: texts(object.pointer("/metadata/finalizers")),
            order: spec::order(spec),
            deletion_policy: spec::deletion_policy(object),
            entries: spec::entries(spec),
            object: object.clone(),
        })
    }
}

impl GroupOwner {
    /// The UID of the GlobalOwner that one was made for.
    pub(crate) fn global_uid(object: &Value) -> Option<&str> {
        object.pointer("/metadata/labels")?.get(GLOBAL_OWNER)?.as_str()
    }

    /// Whether it says that nothing refers to it any more.
    pub(crate) fn is_done(&self) -> bool {
        is_done(self.phase.as_deref())
    }

    /// Reads one; `None`: it has no name or no UID.
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
            entry: spec::entry_of_group(object.get("spec").unwrap_or(&Value::Null)),
            object: object.clone(),
        })
    }
}

/// Whether a GroupOwner of this phase says that nothing refers to it any more, so that anybody may delete it.
pub(crate) fn is_done(phase: Option<&str>) -> bool {
    matches!(phase, Some(EMPTY | RELEASED))
}

impl Role {
    /// The UID of the GlobalOwner that it was made for.
    pub(crate) fn global_uid(&self) -> Option<&str> {
        GroupOwner::global_uid(&self.object)
    }

    /// Reads one; `None`: it has no name or no UID.
    pub(crate) fn read(object: &Value) -> Option<Self> {
        let (name, uid) = (text(object, "/metadata/name")?, text(object, "/metadata/uid")?);
        Some(Self { name, uid, object: object.clone() })
    }
}

impl Object {
    /// From an object's metadata.
    pub(crate) fn of(mut metadata: Metadata) -> Self {
        let opted_out = metadata.annotations.get(OPT_OUT).is_some_and(|value| value == "false");
        metadata.annotations.clear();
        Self { metadata, opted_out }
    }

    /// Its UID.
    pub(crate) fn uid(&self) -> &str {
        &self.metadata.uid
    }

    /// Whether it is being deleted.
    pub(crate) fn is_deleting(&self) -> bool {
        self.metadata.deletion_timestamp.is_some()
    }

    /// Whether it has a reference to the owner with this UID.
    pub(crate) fn is_owned_by(&self, uid: &str) -> bool {
        self.metadata.owner_references.iter().any(|owner| owner.uid == uid)
    }

    /// Whether it has a reference to any GroupOwner.
    pub(crate) fn is_owned(&self) -> bool {
        let is_of_group = |api_version: &str| api_version.split_once('/').is_some_and(|(group, _)| group == GROUP);
        let mut owners = self.metadata.owner_references.iter();
        owners.any(|owner| owner.kind == GROUP_OWNERS.kind && is_of_group(&owner.api_version))
    }

    /// How it is called: `default/a`, or `a`.
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

//! Looks before and after the removal of a group, for selected objects that no group owns.
//!
//! Adoption takes a moment, and the controller may have been away. So before anything of a group is deleted, one list
//! shows all objects that its entry selects, and those without an owner are adopted. Then the GroupOwner is marked, and
//! from there on only owned objects go: otherwise a removal would never end while somebody goes on making objects. A
//! controller that is stopped before the mark looks again. Objects that come later stay, and the status names them.
//!
//! The controller adopts objects for this even if nothing guards them against the garbage collector: they are to go
//! anyway.

use std::collections::BTreeSet;
use std::sync::Arc;

use depguard_core::owners::Entry;
use serde_json::{Value, json};

use crate::owners::group::Selection;
use crate::owners::removal::disposition::is_anothers;
use crate::owners::removal::group_of::{GroupIndex, Membership};
use crate::owners::snapshot::{GroupOwner, Object, OwnerSnapshot};

/// Maximum number of objects left behind that a status names.
const MAX_NAMED: usize = 20;

/// Objects that came too late to be adopted: the first few, and the number of all.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct LeftBehind {
    first: Vec<Value>,
    count: u64,
}

/// Returns true if no group of the GlobalOwner owns an object, and the object would go with a group that owned it.
/// False if the object is marked to stay out, if anybody else owns it, or if a GlobalOwner that stays selects it, too.
pub(super) fn is_unowned(observed: &OwnerSnapshot, entry: &Entry, object: &Object) -> bool {
    let kind = entry.resource.group_resource();
    let mut others = observed.others.iter().filter(|other| other.resource.group_resource() == kind);
    !object.opted_out
        && !observed.groups.iter().any(|group| object.is_owned_by(&group.uid))
        && !is_anothers(object, &observed.groups)
        && !others.any(|other| other.selects(&object.metadata))
}

/// Returns the objects that go with this entry, and that nobody owns.
pub(super) fn unowned<'o>(
    observed: &OwnerSnapshot,
    groups: &GroupIndex<'_>,
    entry: &Entry,
    objects: &'o [Arc<Object>],
) -> Vec<&'o Arc<Object>> {
    let is_member = |object: &Object| matches!(groups.membership(entry, &object.metadata), Membership::Entry(own) if std::ptr::eq(own, entry));
    objects.iter().filter(|object| is_member(object) && is_unowned(observed, entry, object)).collect()
}

impl LeftBehind {
    /// Makes the record from objects of one resource.
    pub(super) fn new(entry: &Entry, kind: &str, objects: &[&Arc<Object>]) -> Self {
        let named = objects.iter().take(MAX_NAMED).map(|object| {
            let mut named = json!({"apiVersion": entry.api_version(), "kind": kind, "name": object.metadata.name});
            if let (Some(namespace), Some(fields)) = (&object.metadata.namespace, named.as_object_mut()) {
                fields.insert("namespace".to_owned(), json!(namespace));
            }
            named
        });
        Self { first: named.collect(), count: objects.len() as u64 }
    }

    /// Reads the record from a status.
    pub(super) fn read(status: Option<&Value>) -> Self {
        let field = |name: &str| status.and_then(|status| status.get(name));
        let first = field("leftBehind").and_then(Value::as_array).cloned().unwrap_or_default();
        Self { first, count: field("leftBehindCount").and_then(Value::as_u64).unwrap_or_default() }
    }

    /// Sums up the records in the statuses of these groups.
    pub(super) fn of_groups(groups: &[GroupOwner]) -> Self {
        let mut all = Self::default();
        groups.iter().for_each(|group| all.add(Self::read(group.object.get("status"))));
        all
    }

    pub(super) fn add(&mut self, mut other: Self) {
        self.count = self.count.saturating_add(other.count);
        self.first.append(&mut other.first);
        self.first.truncate(MAX_NAMED);
    }

    /// Returns true if this record names an object that `known` does not name, or counts more.
    pub(super) fn tells_more_than(&self, known: &Self) -> bool {
        self.count > known.count || self.first.iter().any(|named| !known.first.contains(named))
    }

    /// Returns the fields of a status that hold the record.
    pub(crate) fn fields(&self) -> Vec<(String, Value)> {
        match self.count {
            0 => Vec::new(),
            count => vec![("leftBehind".to_owned(), json!(self.first)), ("leftBehindCount".to_owned(), json!(count))],
        }
    }

    /// Returns a message such as `2 objects … : ConfigMap default/a, ConfigMap default/b`.
    pub(super) fn told(&self) -> String {
        let text = |named: &Value, field: &str| named.get(field).and_then(Value::as_str).unwrap_or_default().to_owned();
        let name = |named: &Value| match text(named, "namespace") {
            namespace if namespace.is_empty() => format!("{} {}", text(named, "kind"), text(named, "name")),
            namespace => format!("{} {namespace}/{}", text(named, "kind"), text(named, "name")),
        };
        let names: BTreeSet<_> = self.first.iter().map(name).collect();
        let names: Vec<_> = names.into_iter().collect();
        let (objects, stay) = if self.count == 1 { ("object", "stays") } else { ("objects", "stay") };
        format!("{} {objects} created after the removal of their group began {stay}: {}", self.count, names.join(", "))
    }
}

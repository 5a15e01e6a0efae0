//! The look before a group goes, and the one after: which objects are selected that no group owns.
//!
//! Adoption takes a moment, and the controller may have been away: so before anything of a group is deleted, all that its
//! entry selects is read by one list, and what is not owned yet is adopted. Then the GroupOwner is marked, and from there on
//! only what is owned goes, or a removal would never end where somebody goes on making objects. A controller that is
//! stopped before the mark looks again. What comes later stays, and is told of.
//!
//! Adopted like this is also what nothing guards against the garbage collector: it is to go anyway.

use std::collections::BTreeSet;
use std::sync::Arc;

use serde_json::{Value, json};

use super::fate::is_anothers;
use super::homes::{Home, Homes};
use crate::owners::observed::{GroupOwner, Object, Observed};
use crate::owners::spec::Entry;

/// The most objects left behind that a status names.
const MOST_NAMED: usize = 20;

/// Objects that came too late to be adopted: the first few of them, and how many.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct LeftBehind {
    first: Vec<Value>,
    count: u64,
}

/// Whether an object that no group of the GlobalOwner owns would go with them if one did. Not where it is marked to stay
/// out, where anybody else owns it, or where a GlobalOwner that stays selects it, too.
pub(super) fn is_unowned(observed: &Observed, entry: &Entry, object: &Object) -> bool {
    let kind = entry.resource.group_resource();
    let mut others = observed.others.iter().filter(|other| other.resource.group_resource() == kind);
    !object.opted_out
        && !observed.groups.iter().any(|group| object.is_owned_by(&group.uid))
        && !is_anothers(object, &observed.groups)
        && !others.any(|other| other.selects(&object.metadata))
}

/// The objects that go with this entry, and that nobody owns.
pub(super) fn unowned<'o>(
    observed: &Observed,
    homes: &Homes<'_>,
    entry: &Entry,
    objects: &'o [Arc<Object>],
) -> Vec<&'o Arc<Object>> {
    let is_home =
        |object: &Object| matches!(homes.home(entry, &object.metadata), Home::Entry(home) if std::ptr::eq(home, entry));
    objects.iter().filter(|object| is_home(object) && is_unowned(observed, entry, object)).collect()
}

impl LeftBehind {
    /// Of these objects of one resource.
    pub(super) fn of(entry: &Entry, kind: &str, objects: &[&Arc<Object>]) -> Self {
        let named = objects.iter().take(MOST_NAMED).map(|object| {
            let mut named = json!({"apiVersion": entry.api_version(), "kind": kind, "name": object.metadata.name});
            if let (Some(namespace), Some(fields)) = (&object.metadata.namespace, named.as_object_mut()) {
                fields.insert("namespace".to_owned(), json!(namespace));
            }
            named
        });
        Self { first: named.collect(), count: objects.len() as u64 }
    }

    /// As a status says it.
    pub(super) fn read(status: Option<&Value>) -> Self {
        let field = |name: &str| status.and_then(|status| status.get(name));
        let first = field("leftBehind").and_then(Value::as_array).cloned().unwrap_or_default();
        Self { first, count: field("leftBehindCount").and_then(Value::as_u64).unwrap_or_default() }
    }

    /// As all of these groups' statuses say it.
    pub(super) fn of_groups(groups: &[GroupOwner]) -> Self {
        let mut all = Self::default();
        groups.iter().for_each(|group| all.add(Self::read(group.object.get("status"))));
        all
    }

    pub(super) fn add(&mut self, mut other: Self) {
        self.count = self.count.saturating_add(other.count);
        self.first.append(&mut other.first);
        self.first.truncate(MOST_NAMED);
    }

    pub(super) fn count(&self) -> u64 {
        self.count
    }

    /// The fields of a status that say it.
    pub(crate) fn fields(&self) -> Vec<(String, Value)> {
        match self.count {
            0 => Vec::new(),
            count => vec![("leftBehind".to_owned(), json!(self.first)), ("leftBehindCount".to_owned(), json!(count))],
        }
    }

    /// `2 objects … : ConfigMap default/a, ConfigMap default/b`
    pub(super) fn told(&self) -> String {
        let text = |named: &Value, field: &str| named.get(field).and_then(Value::as_str).unwrap_or_default().to_owned();
        let name = |named: &Value| match text(named, "namespace") {
            namespace if namespace.is_empty() => format!("{} {}", text(named, "kind"), text(named, "name")),
            namespace => format!("{} {namespace}/{}", text(named, "kind"), text(named, "name")),
        };
        let names: BTreeSet<_> = self.first.iter().map(name).collect();
        let names: Vec<_> = names.into_iter().collect();
        let (objects, stay) = if self.count == 1 { ("object", "stays") } else { ("objects", "stay") };
        format!("{} {objects} that came after their group had begun to go {stay}: {}", self.count, names.join(", "))
    }
}

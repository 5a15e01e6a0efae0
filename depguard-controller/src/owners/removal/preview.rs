//! Preview of a GlobalOwner's removal, before the deletion: with objects from an API server or from files.

use std::collections::BTreeSet;

use depguard_core::owners::{DeletionPolicy, Entry, SpecError};
use depguard_core::{GroupVersionResource, Rule};
use depguard_kcp::Metadata;
use serde_json::Value;

use crate::owners::group::{Selection, group_name};
use crate::owners::removal::disposition::is_named;
use crate::owners::removal::order::{self, Plan};
use crate::owners::snapshot::{GlobalOwner, Object};

/// GlobalOwner, with the number of objects that would go with each group.
#[derive(Debug)]
pub struct Preview {
    owner: GlobalOwner,
    /// False for a GlobalOwner from a file.
    has_uid: bool,
    entries: Vec<Entry>,
    counts: Vec<usize>,
}

impl Preview {
    /// Reads a GlobalOwner, as an API server returns it or a file has it. `Ok(None)` if it has no name.
    pub fn from_owner(object: &Value) -> Result<Option<Self>, SpecError> {
        let has_uid = object.pointer("/metadata/uid").is_some();
        let mut object = object.clone();
        if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
            metadata.entry("uid").or_insert_with(|| "none yet".into());
        }
        let Some(owner) = GlobalOwner::read(&object) else { return Ok(None) };
        let entries = owner.entries.clone()?;
        let counts = vec![0; entries.len()];
        Ok(Some(Self { owner, has_uid, entries, counts }))
    }

    /// Returns the resources of the groups. Their objects are to be [counted](Self::count).
    pub fn resources(&self) -> BTreeSet<&GroupVersionResource> {
        self.entries.iter().map(|entry| &entry.resource).collect()
    }

    /// Counts an object of one of these resources.
    pub fn count(&mut self, resource: &GroupVersionResource, object: &Value) {
        let Some(object) = Metadata::from_object(object).map(Object::from_metadata) else { return };
        for (entry, count) in self.entries.iter().zip(&mut self.counts) {
            let name = group_name(&self.owner.name, &self.owner.uid, entry);
            let mut owners = object.metadata.owner_references.iter();
            let goes = entry.resource == *resource
                && entry.selects(&object.metadata)
                && !object.opted_out
                && owners.all(|owner| owner.controller != Some(true) || is_named(owner, &name));
            *count = count.saturating_add(usize::from(goes));
        }
    }

    /// Returns true if the objects would stay.
    pub fn is_released(&self) -> bool {
        self.owner.deletion_policy == DeletionPolicy::Orphan
    }

    /// Returns the order in which the groups would go.
    pub fn plan<'r>(&self, rules: impl IntoIterator<Item = &'r Rule>) -> Plan {
        let owner = (self.owner.name.as_str(), self.has_uid.then_some(self.owner.uid.as_str()));
        order::plan(owner, self.owner.order, &self.entries, rules, |place| self.counts.get(place).copied())
    }
}

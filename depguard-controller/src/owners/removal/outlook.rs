//! What the removal of a GlobalOwner would come to: for whoever asks before it is deleted, of an API server or of files.

use std::collections::BTreeSet;

use depguard_core::{GroupVersionResource, Rule};
use depguard_kcp::Metadata;
use serde_json::Value;

use super::fate::is_named;
use super::order::{self, Plan};
use crate::owners::observed::{GlobalOwner, Object};
use crate::owners::spec::{DeletionPolicy, Entry, SpecError, group_name};

/// A GlobalOwner as it is written, and the objects that would go with it, as they are counted.
#[derive(Debug)]
pub struct Outlook {
    owner: GlobalOwner,
    /// A file's has none.
    has_uid: bool,
    entries: Vec<Entry>,
    counts: Vec<usize>,
}

impl Outlook {
    /// Of a GlobalOwner, as an API server returns it or a file has it. `Ok(None)`: it has no name.
    pub fn of(object: &Value) -> Result<Option<Self>, SpecError> {
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

    /// The resources of its groups: their objects are to be [counted](Self::count).
    pub fn resources(&self) -> BTreeSet<&GroupVersionResource> {
        self.entries.iter().map(|entry| &entry.resource).collect()
    }

    /// Counts an object of one of these resources.
    pub fn count(&mut self, resource: &GroupVersionResource, object: &Value) {
        let Some(object) = Metadata::of(object).map(Object::of) else { return };
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

    /// Whether the objects would stay.
    pub fn is_released(&self) -> bool {
        self.owner.deletion_policy == DeletionPolicy::Orphan
    }

    /// The order in which they would go.
    pub fn plan<'r>(&self, rules: impl IntoIterator<Item = &'r Rule>) -> Plan {
        let owner = (self.owner.name.as_str(), self.has_uid.then_some(self.owner.uid.as_str()));
        order::plan(owner, self.owner.order, &self.entries, rules, |place| self.counts.get(place).copied())
    }
}

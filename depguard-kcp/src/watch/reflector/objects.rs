//! Objects of one watch, limited for each tenant by its allowance.
//!
//! As soon as a tenant exceeds its allowance, each of its objects is shortened to its identity and to the kinds that it
//! is about. A shortened object takes a fraction of the memory, and no decision treats it as complete. If even the
//! shortened objects exceed the allowance, one nameless object stands for all further objects about the same kinds. The
//! tenant stays shortened until the resource is listed anew, because the omitted parts are not known any more. If no
//! further objects were omitted, this also ends with the tenant's last object.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use depguard_core::LogicalCluster;
use serde_json::Value;

use super::allowance::{Allowance, weigh};
use super::object_text::ObjectText;
use super::shortening::{nameless, shortened};
use super::snapshot::ObjectKey;

/// Objects of one watch.
#[derive(Debug, Clone)]
pub(crate) struct Objects {
    allowance: Allowance,
    by_key: BTreeMap<ObjectKey, StoredObjects>,
    tenants: HashMap<Tenant, Holding>,
}

/// Owner of the allowance that an object counts against: a logical cluster; in a plain cluster the object's namespace,
/// or the cluster itself if the object lies in no namespace.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
#[expect(clippy::exhaustive_enums, reason = "an object lies in one of them")]
pub enum Tenant {
    /// Logical cluster.
    Workspace(LogicalCluster),
    /// Namespace of a plain cluster.
    Namespace(String),
    /// Plain cluster.
    Cluster,
}

/// Object and its sizes.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct StoredObjects {
    pub(crate) text: Arc<ObjectText>,
    /// True if its tenant exceeds the allowance.
    pub(crate) shortened: bool,
    /// Bytes of a tree of the full object, without its status.
    full: usize,
    /// Bytes of a tree of the object as it is stored: more than the text takes, and about as much as what is made of it.
    bytes: usize,
}

/// Totals of one tenant's objects.
#[derive(Debug, Clone, Default)]
struct Holding {
    objects: usize,
    full: usize,
    bytes: usize,
    shortened: bool,
    /// Kinds that further objects name, which are left out, by their JSON.
    further: BTreeMap<String, Arc<Value>>,
    further_bytes: usize,
    /// Set if even the kinds that further objects name do not all fit.
    overflown: bool,
}

/// Divisor of the allowance: this part of it is for the kinds that further objects name.
const FURTHER: usize = 4;

impl Objects {
    pub(crate) fn new(allowance: Allowance) -> Self {
        Self { allowance, by_key: BTreeMap::new(), tenants: HashMap::new() }
    }

    /// Inserts an object. Returns true if it brought news.
    pub(crate) fn insert(&mut self, key: ObjectKey, value: Arc<Value>) -> bool {
        let before = self.take(&key);
        // The controller writes an object's status, so the status does not count against the author.
        let said = value.get("status").map_or(0, weigh);
        let full = weigh(&value).saturating_sub(said);
        let tenant = Tenant::from_key(&key);
        let holding = self.tenants.entry(tenant.clone()).or_default();
        holding.objects = holding.objects.saturating_add(1);
        holding.full = holding.full.saturating_add(full);
        let within = holding.objects <= self.allowance.objects && holding.full <= self.allowance.memory;
        if !within && !holding.shortened {
            holding.shortened = true;
            self.shorten(&tenant, &key);
        }
        let Some(holding) = self.tenants.get_mut(&tenant) else { return true };
        let value = if holding.shortened { Arc::new(shortened(&value)) } else { value };
        let bytes = weigh(&value);
        if holding.shortened && holding.bytes.saturating_add(bytes) > self.allowance.memory {
            holding.objects = holding.objects.saturating_sub(1);
            holding.full = holding.full.saturating_sub(full);
            return holding.note_further(&value, self.allowance) || before.is_some();
        }
        holding.bytes = holding.bytes.saturating_add(bytes);
        let text = Arc::new(ObjectText::new(&value));
        let object = StoredObjects { text, shortened: holding.shortened, full, bytes };
        let news = before.as_ref() != Some(&object);
        self.by_key.insert(key, object);
        news
    }

    /// Removes an object. Returns true if the object was there.
    pub(crate) fn remove(&mut self, key: &ObjectKey) -> bool {
        self.take(key).is_some()
    }

    /// Takes over each equal text from `before`, so that a holder of the old text recognises the new one.
    pub(crate) fn sharing(mut self, before: &Self) -> Self {
        for (key, object) in &mut self.by_key {
            if let Some(known) = before.by_key.get(key)
                && known.text == object.text
            {
                object.text = Arc::clone(&known.text);
            }
        }
        self
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (&ObjectKey, &StoredObjects)> {
        self.by_key.iter()
    }

    /// Returns a stand-in for the objects that are left out even in shortened form.
    pub(crate) fn further(&self) -> impl Iterator<Item = &Arc<Value>> {
        self.tenants.values().flat_map(|holding| holding.further.values())
    }

    /// Returns the tenants for which even the kinds that further objects name do not all fit.
    pub(crate) fn overflown(&self) -> impl Iterator<Item = &Tenant> {
        self.tenants.iter().filter(|(_, holding)| holding.overflown).map(|(tenant, _)| tenant)
    }

    /// Returns the stand-ins of objects that are left out, by tenant.
    fn left_out(&self) -> HashMap<&Tenant, (&BTreeMap<String, Arc<Value>>, bool)> {
        let all = self.tenants.iter().map(|(tenant, holding)| (tenant, (&holding.further, holding.overflown)));
        all.filter(|(_, (further, overflown))| *overflown || !further.is_empty()).collect()
    }

    fn take(&mut self, key: &ObjectKey) -> Option<StoredObjects> {
        let object = self.by_key.remove(key)?;
        let tenant = Tenant::from_key(key);
        if let Some(holding) = self.tenants.get_mut(&tenant) {
            holding.objects = holding.objects.saturating_sub(1);
            holding.full = holding.full.saturating_sub(object.full);
            holding.bytes = holding.bytes.saturating_sub(object.bytes);
            if holding.objects == 0 && holding.further.is_empty() && !holding.overflown {
                self.tenants.remove(&tenant);
            }
        }
        Some(object)
    }

    /// Shortens all objects of a tenant. `one` is the key of one of them.
    fn shorten(&mut self, tenant: &Tenant, one: &ObjectKey) {
        let Some(holding) = self.tenants.get_mut(tenant) else { return };
        holding.bytes = 0;
        let mut beyond = Vec::new();
        let of_cluster = self.by_key.range_mut((one.0.clone(), String::new())..);
        let of_cluster = of_cluster.take_while(|((cluster, _), _)| *cluster == one.0);
        for (key, object) in of_cluster.filter(|(key, _)| Tenant::from_key(key) == *tenant) {
            let short = shortened(&object.text.read());
            object.text = Arc::new(ObjectText::new(&short));
            object.shortened = true;
            object.bytes = weigh(&short);
            if holding.bytes.saturating_add(object.bytes) > self.allowance.memory {
                holding.note_further(&short, self.allowance);
                holding.objects = holding.objects.saturating_sub(1);
                holding.full = holding.full.saturating_sub(object.full);
                beyond.push(key.clone());
            } else {
                holding.bytes = holding.bytes.saturating_add(object.bytes);
            }
        }
        for key in beyond {
            self.by_key.remove(&key);
        }
    }
}

impl Holding {
    /// Notes the kinds that an object names, which is left out. Returns true if they brought news.
    fn note_further(&mut self, short: &Value, allowance: Allowance) -> bool {
        let Some(value) = nameless(short) else { return !std::mem::replace(&mut self.overflown, true) };
        let text = value.to_string();
        if self.further.contains_key(&text) {
            return false;
        }
        let taken = self.further_bytes.saturating_add(weigh(&value)).saturating_add(text.len());
        if taken > allowance.memory / FURTHER {
            return !std::mem::replace(&mut self.overflown, true);
        }
        self.further_bytes = taken;
        self.further.insert(text, Arc::new(value));
        true
    }
}

impl Tenant {
    /// Returns the tenant of an object.
    pub fn from_key((cluster, name): &ObjectKey) -> Self {
        match (cluster, name.split_once('/')) {
            (Some(cluster), _) => Self::Workspace(cluster.clone()),
            (None, Some((namespace, _))) => Self::Namespace(namespace.to_owned()),
            (None, None) => Self::Cluster,
        }
    }
}

impl Default for Objects {
    fn default() -> Self {
        Self::new(Allowance::NONE)
    }
}

impl PartialEq for Objects {
    fn eq(&self, other: &Self) -> bool {
        self.by_key == other.by_key && self.left_out() == other.left_out()
    }
}

impl FromIterator<(ObjectKey, Arc<Value>)> for Objects {
    fn from_iter<I: IntoIterator<Item = (ObjectKey, Arc<Value>)>>(objects: I) -> Self {
        let mut all = Self::default();
        for (key, value) in objects {
            all.insert(key, value);
        }
        all
    }
}

#[cfg(test)]
mod tests;

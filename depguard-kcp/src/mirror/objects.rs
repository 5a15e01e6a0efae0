//! The objects of one watch, of which no tenant has more than its allowance.
//!
//! As soon as one has more, each of its objects is shortened to what is needed to see that it is there and what
//! it is about: that takes a fraction of the memory, and nobody decides by it as if it were all. Where even that is more
//! than the allowance, one nameless object stands for all further ones that are about the same. It stays so until the
//! resource is listed anew, since what was left out is not known any more.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use depguard_core::LogicalCluster;
use serde_json::Value;

use super::allowance::{Allowance, weigh};
use super::shortening::{nameless, shortened};
use super::state::ObjectKey;

/// The objects of one watch.
#[derive(Debug, Clone)]
pub(crate) struct Objects {
    allowance: Allowance,
    by_key: BTreeMap<ObjectKey, Held>,
    tenants: HashMap<Tenant, Holding>,
}

/// Whose allowance an object counts against: a logical cluster's; in a plain cluster that of its namespace, where it has
/// one.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
#[expect(clippy::exhaustive_enums, reason = "an object lies in one of them")]
pub enum Tenant {
    /// A logical cluster.
    Workspace(LogicalCluster),
    /// A namespace of a plain cluster.
    Namespace(String),
    /// A plain cluster.
    Cluster,
}

/// An object, and what it takes.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Held {
    pub(crate) value: Arc<Value>,
    /// Whether its tenant has more than its allowance.
    pub(crate) shortened: bool,
    /// What it takes in full, without its status.
    full: usize,
    /// What it takes as it is held.
    held: usize,
}

/// What is held of one tenant.
#[derive(Debug, Clone, Default)]
struct Holding {
    objects: usize,
    full: usize,
    held: usize,
    shortened: bool,
    /// What further objects are about that are not held, by its JSON, and what that takes.
    further: BTreeMap<String, Arc<Value>>,
    further_held: usize,
    /// There are further objects about so much that not all of it is held either.
    overflown: bool,
}

/// The part of the allowance that is for what further objects are about.
const FURTHER: usize = 4;

impl Objects {
    pub(crate) fn new(allowance: Allowance) -> Self {
        Self { allowance, by_key: BTreeMap::new(), tenants: HashMap::new() }
    }

    /// Takes an object in, and says whether that was anything new.
    pub(crate) fn insert(&mut self, key: ObjectKey, value: Arc<Value>) -> bool {
        let before = self.take(&key);
        // What the controller says of an object is not its author's.
        let said = value.get("status").map_or(0, weigh);
        let full = weigh(&value).saturating_sub(said);
        let tenant = Tenant::of(&key);
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
        let held = weigh(&value);
        if holding.shortened && holding.held.saturating_add(held) > self.allowance.memory {
            holding.objects = holding.objects.saturating_sub(1);
            holding.full = holding.full.saturating_sub(full);
            return holding.note_further(&value, self.allowance) || before.is_some();
        }
        holding.held = holding.held.saturating_add(held);
        let object = Held { value, shortened: holding.shortened, full, held };
        let news = before.as_ref() != Some(&object);
        self.by_key.insert(key, object);
        news
    }

    /// Leaves an object out, and says whether it was there.
    pub(crate) fn remove(&mut self, key: &ObjectKey) -> bool {
        self.take(key).is_some()
    }

    /// What it has of `before` that is equal, it shares with it: who remembers one knows the other.
    pub(crate) fn sharing(mut self, before: &Self) -> Self {
        for (key, object) in &mut self.by_key {
            if let Some(known) = before.by_key.get(key)
                && known.value == object.value
            {
                object.value = Arc::clone(&known.value);
            }
        }
        self
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (&ObjectKey, &Held)> {
        self.by_key.iter()
    }

    /// What those objects are about that are not even held shortened.
    pub(crate) fn further(&self) -> impl Iterator<Item = &Arc<Value>> {
        self.tenants.values().flat_map(|holding| holding.further.values())
    }

    /// The tenants of which not even all is held that further objects are about.
    pub(crate) fn overflown(&self) -> impl Iterator<Item = &Tenant> {
        self.tenants.iter().filter(|(_, holding)| holding.overflown).map(|(tenant, _)| tenant)
    }

    /// What is known of objects that are not held.
    fn not_held(&self) -> HashMap<&Tenant, (&BTreeMap<String, Arc<Value>>, bool)> {
        let all = self.tenants.iter().map(|(tenant, holding)| (tenant, (&holding.further, holding.overflown)));
        all.filter(|(_, (further, overflown))| *overflown || !further.is_empty()).collect()
    }

    fn take(&mut self, key: &ObjectKey) -> Option<Held> {
        let object = self.by_key.remove(key)?;
        let tenant = Tenant::of(key);
        if let Some(holding) = self.tenants.get_mut(&tenant) {
            holding.objects = holding.objects.saturating_sub(1);
            holding.full = holding.full.saturating_sub(object.full);
            holding.held = holding.held.saturating_sub(object.held);
            if holding.objects == 0 && holding.further.is_empty() && !holding.overflown {
                self.tenants.remove(&tenant);
            }
        }
        Some(object)
    }

    /// Shortens all that a tenant has, of which `one` is a key.
    fn shorten(&mut self, tenant: &Tenant, one: &ObjectKey) {
        let Some(holding) = self.tenants.get_mut(tenant) else { return };
        holding.held = 0;
        let mut beyond = Vec::new();
        let of_cluster = self.by_key.range_mut((one.0.clone(), String::new())..);
        let of_cluster = of_cluster.take_while(|((cluster, _), _)| *cluster == one.0);
        for (key, object) in of_cluster.filter(|(key, _)| Tenant::of(key) == *tenant) {
            object.value = Arc::new(shortened(&object.value));
            object.shortened = true;
            object.held = weigh(&object.value);
            if holding.held.saturating_add(object.held) > self.allowance.memory {
                holding.note_further(&object.value, self.allowance);
                holding.objects = holding.objects.saturating_sub(1);
                holding.full = holding.full.saturating_sub(object.full);
                beyond.push(key.clone());
            } else {
                holding.held = holding.held.saturating_add(object.held);
            }
        }
        for key in beyond {
            self.by_key.remove(&key);
        }
    }
}

impl Holding {
    /// Notes what an object is about that is not held, and says whether that was anything new.
    fn note_further(&mut self, short: &Value, allowance: Allowance) -> bool {
        let Some(value) = nameless(short) else { return !std::mem::replace(&mut self.overflown, true) };
        let text = value.to_string();
        if self.further.contains_key(&text) {
            return false;
        }
        let taken = self.further_held.saturating_add(weigh(&value)).saturating_add(text.len());
        if taken > allowance.memory / FURTHER {
            return !std::mem::replace(&mut self.overflown, true);
        }
        self.further_held = taken;
        self.further.insert(text, Arc::new(value));
        true
    }
}

impl Tenant {
    /// Whose an object is.
    pub fn of((cluster, name): &ObjectKey) -> Self {
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
        self.by_key == other.by_key && self.not_held() == other.not_held()
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

//! Values derived from the objects of a resource. A value is made anew only if its object has changed.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::object_text::ObjectText;
use super::snapshot::{ObjectKey, WatchedObject, WatchedResource};

/// Derived value of each object, beside the object.
#[derive(Debug, Clone)]
pub struct Derived<T> {
    by_key: BTreeMap<ObjectKey, (Arc<ObjectText>, T)>,
}

impl<T> Derived<T> {
    /// Derives the missing values, so that each object of `resource` has one.
    pub fn refresh(&mut self, resource: Option<&WatchedResource>, make: impl Fn(&WatchedObject) -> T) {
        let mut before = std::mem::take(&mut self.by_key);
        for (key, object) in resource.into_iter().flat_map(|resource| &resource.objects) {
            // A reflector shows the same text as long as the object stays the same.
            let known = before.remove(key).filter(|(known, _)| Arc::ptr_eq(known, &object.text));
            let made = known.unwrap_or_else(|| (Arc::clone(&object.text), make(object)));
            self.by_key.insert(key.clone(), made);
        }
    }

    /// Returns the derived values, in the order of the objects' keys.
    pub fn values(&self) -> impl Iterator<Item = &T> {
        self.by_key.values().map(|(_, made)| made)
    }

    /// Returns the value derived from the object with that key.
    pub fn get(&self, key: &ObjectKey) -> Option<&T> {
        self.by_key.get(key).map(|(_, made)| made)
    }
}

impl<T> Default for Derived<T> {
    fn default() -> Self {
        Self { by_key: BTreeMap::new() }
    }
}

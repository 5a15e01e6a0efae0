//! What is made of each object of a resource, and made anew only where that is another: a change costs one object, not all.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::Value;

use super::state::{Mirrored, MirroredObject, ObjectKey};

/// What was made of each object, beside the object.
#[derive(Debug, Clone)]
pub struct Derived<T> {
    by_key: BTreeMap<ObjectKey, (Arc<Value>, T)>,
}

impl<T> Derived<T> {
    /// Makes what is to be made, so that there is one for each object of `mirrored`.
    pub fn refresh(&mut self, mirrored: Option<&Mirrored>, make: impl Fn(&MirroredObject) -> T) {
        let mut before = std::mem::take(&mut self.by_key);
        for (key, object) in mirrored.into_iter().flat_map(|mirrored| &mirrored.objects) {
            // A mirror shows the same value as long as the object is the same.
            let known = before.remove(key).filter(|(known, _)| Arc::ptr_eq(known, &object.value));
            let made = known.unwrap_or_else(|| (Arc::clone(&object.value), make(object)));
            self.by_key.insert(key.clone(), made);
        }
    }

    /// What was made, in the order of the objects' keys.
    pub fn values(&self) -> impl Iterator<Item = &T> {
        self.by_key.values().map(|(_, made)| made)
    }

    /// What was made of the object of that key.
    pub fn get(&self, key: &ObjectKey) -> Option<&T> {
        self.by_key.get(key).map(|(_, made)| made)
    }
}

impl<T> Default for Derived<T> {
    fn default() -> Self {
        Self { by_key: BTreeMap::new() }
    }
}

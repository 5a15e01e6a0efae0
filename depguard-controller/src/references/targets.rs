//! Targets that exist, reduced to hashes of their names.

use std::collections::HashMap;
use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;

use depguard_kcp::Metadata;

use super::dependents::NamedTarget;
use super::kind_watch::Index;

/// Memory of one target: an entry of 48 bytes in `objects` and two of 16 in `anywhere`, in tables that may be half empty.
const BYTES: usize = 160;

/// Objects of one kind. Two objects are taken for one only if their hashes of 64 bits, made with a random key, are equal.
#[derive(Debug, Default)]
pub(super) struct Targets {
    keys: RandomState,
    /// Objects, by the hash of namespace and name.
    objects: HashMap<u64, Target>,
    /// Number of objects in all namespaces, by the hash of the name, and by that of name and UID.
    anywhere: HashMap<u64, u32>,
    /// Number of the last list.
    list: u32,
}

#[derive(Debug)]
struct Target {
    /// Hash of the UID.
    uid: u64,
    /// Keys in `anywhere`.
    names: [u64; 2],
    /// Number of the list that was last when the object was seen.
    list: u32,
}

impl Targets {
    /// Returns true if an object exists that is meant.
    pub(super) fn have(&self, meant: &NamedTarget) -> bool {
        let (name, uid) = (&*meant.name, meant.uid.as_deref());
        let Some(namespace) = meant.namespace.as_deref() else {
            return self.anywhere.contains_key(&self.anywhere(name, uid));
        };
        // A kind without namespaces has the object in none.
        [Some(namespace), None].into_iter().any(|namespace| {
            let known = self.objects.get(&self.keys.hash_one((namespace, name)));
            known.is_some_and(|known| uid.is_none_or(|uid| self.keys.hash_one(uid) == known.uid))
        })
    }

    fn anywhere(&self, name: &str, uid: Option<&str>) -> u64 {
        self.keys.hash_one((name, uid))
    }

    fn place(&self, object: &Metadata) -> u64 {
        self.keys.hash_one((object.namespace.as_deref(), object.name.as_str()))
    }

    fn target(&self, object: &Metadata) -> Target {
        Target {
            uid: self.keys.hash_one(object.uid.as_str()),
            names: [self.anywhere(&object.name, None), self.anywhere(&object.name, Some(&object.uid))],
            list: self.list,
        }
    }
}

/// Takes an object out of the numbers of objects in all namespaces.
fn forget(anywhere: &mut HashMap<u64, u32>, target: &Target) {
    for key in target.names {
        if let Some(count) = anywhere.get_mut(&key) {
            *count = count.saturating_sub(1);
            if *count == 0 {
                anywhere.remove(&key);
            }
        }
    }
}

impl Index for Targets {
    type Shown = Metadata;

    fn empty(&self) -> Self {
        Self::default()
    }

    fn begin_list(&mut self) {
        self.list = self.list.wrapping_add(1);
    }

    fn put(&mut self, object: Metadata) -> bool {
        let target = self.target(&object);
        let (uid, names) = (target.uid, target.names);
        let known = self.objects.insert(self.place(&object), target);
        if known.as_ref().is_some_and(|known| known.uid == uid) {
            return false;
        }
        for key in names {
            *self.anywhere.entry(key).or_default() += 1;
        }
        known.iter().for_each(|known| forget(&mut self.anywhere, known));
        true
    }

    fn remove(&mut self, object: &Metadata) -> bool {
        let (place, uid) = (self.place(object), self.keys.hash_one(object.uid.as_str()));
        if self.objects.get(&place).is_none_or(|known| known.uid != uid) {
            return false;
        }
        if let Some(known) = self.objects.remove(&place) {
            forget(&mut self.anywhere, &known);
        }
        true
    }

    fn end_list(&mut self) -> bool {
        let before = self.objects.len();
        let Self { objects, anywhere, list, .. } = self;
        objects.retain(|_, target| {
            let is_listed = target.list == *list;
            if !is_listed {
                forget(anywhere, target);
            }
            is_listed
        });
        objects.len() < before
    }

    fn bytes(&self) -> usize {
        self.objects.len().saturating_mul(BYTES)
    }
}

#[cfg(test)]
mod tests {
    use depguard_core::lookup::{ReferenceTarget, ReferencedObject};
    use serde_json::json;

    use super::*;

    /// A dependent's target exists for the count if and only if it exists for the core, which also decides for
    /// `kubectl depguard dangling`.
    #[test]
    fn a_target_exists_as_it_does_for_the_core() {
        let object = |namespace: Option<&str>, name: &str, uid: &str| json!({"metadata": {"namespace": namespace, "name": name, "uid": uid}});
        let worlds = [
            vec![],
            vec![object(None, "a", "1")],
            vec![object(Some("x"), "a", "1")],
            vec![object(Some("y"), "a", "2"), object(Some("x"), "b", "1")],
            vec![object(Some("x"), "a", "1"), object(Some("y"), "a", "2"), object(Some("y"), "b", "3")],
        ];
        let mut seen = [0; 2];
        for objects in worlds {
            let mut targets = Targets::default();
            let metadata = |object: &_| Metadata::from_object(object).unwrap();
            // One that comes and goes leaves nothing behind.
            let passing = metadata(&object(Some("z"), "a", "9"));
            targets.put(passing.clone());
            for object in &objects {
                assert!(targets.put(metadata(object)) && !targets.put(metadata(object)));
            }
            assert!(targets.remove(&passing) && !targets.remove(&passing));
            assert_eq!(targets.objects.len(), objects.len());
            for name in ["a", "b"] {
                for namespace in [None, Some("x"), Some("y"), Some("z")] {
                    for uid in [None, Some("1"), Some("2"), Some("9")] {
                        let own = |text: Option<&str>| text.map(Box::from);
                        let meant = NamedTarget { name: name.into(), namespace: own(namespace), uid: own(uid) };
                        let means = ReferenceTarget::Named {
                            name: name.into(),
                            namespace: namespace.map(Into::into),
                            uid: uid.map(Into::into),
                        };
                        let exists = objects.iter().any(|object| means.includes(&ReferencedObject::read(object)));
                        assert_eq!(targets.have(&meant), exists, "{objects:?} {meant:?}");
                        seen[usize::from(exists)] += 1;
                    }
                }
            }
        }
        assert!(seen[0] > 50 && seen[1] > 20, "{seen:?}");
    }
}

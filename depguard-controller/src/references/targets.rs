//! Targets that exist, reduced to hashes of their names.

use std::collections::hash_map::RandomState;
use std::collections::{HashMap, HashSet};
use std::hash::BuildHasher;
use std::sync::Arc;

use depguard_kcp::Metadata;

use super::dependents::NamedTarget;
use super::kind_watch::Index;
use super::space::Space;

/// Memory of one target: an entry of 64 bytes in `objects` and two of 16 in `anywhere`, in tables that may be half empty.
const BYTES: usize = 192;

/// Objects of one kind. Two objects are taken for one only if their hashes of 64 bits, made with a random key, are equal.
#[derive(Debug)]
pub(super) struct Targets {
    space: Space,
    keys: RandomState,
    /// Objects, by the hash of namespace and name.
    objects: HashMap<u64, Target>,
    /// Number of objects in all namespaces, by the hash of the name, and by that of name and UID.
    anywhere: HashMap<u64, u32>,
    /// Names of the namespaces, each kept once for all of its objects.
    namespaces: HashSet<Arc<str>>,
    /// Namespaces whose part of the space is full, so that not all of their objects are known, each with the number of the
    /// list that was last when that was seen.
    full: HashMap<Arc<str>, u32>,
    /// Number of the last list.
    list: u32,
}

/// Existence of a target, as far as the objects are known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Existence {
    Exists,
    Missing,
    /// Not all objects are known among which the target may be.
    Unknown,
}

#[derive(Debug)]
struct Target {
    /// Hash of the UID.
    uid: u64,
    /// Keys in `anywhere`.
    names: [u64; 2],
    namespace: Option<Arc<str>>,
    /// Number of the list that was last when the object was seen.
    list: u32,
}

impl Targets {
    /// Makes an empty index in this space.
    pub(super) fn new(space: &Space) -> Self {
        Self {
            space: space.clone(),
            keys: RandomState::default(),
            objects: HashMap::new(),
            anywhere: HashMap::new(),
            namespaces: HashSet::new(),
            full: HashMap::new(),
            list: 0,
        }
    }

    /// Finds out if an object exists that is meant.
    pub(super) fn find(&self, meant: &NamedTarget) -> Existence {
        let (name, uid) = (&*meant.name, meant.uid.as_deref());
        let (is_known, may_be_unknown) = match meant.namespace.as_deref() {
            None => (self.anywhere.contains_key(&self.anywhere(name, uid)), !self.full.is_empty()),
            // A kind without namespaces has the object in none.
            Some(namespace) => {
                let is_known = [Some(namespace), None].into_iter().any(|namespace| {
                    let known = self.objects.get(&self.keys.hash_one((namespace, name)));
                    known.is_some_and(|known| uid.is_none_or(|uid| self.keys.hash_one(uid) == known.uid))
                });
                (is_known, self.full.contains_key(namespace))
            }
        };
        match (is_known, may_be_unknown) {
            (true, _) => Existence::Exists,
            (false, true) => Existence::Unknown,
            (false, false) => Existence::Missing,
        }
    }

    /// Returns the part of the space that the targets and the dependents of one namespace may take together, in MiB.
    pub(super) fn tenant_mib(&self) -> usize {
        self.space.tenant_mib()
    }

    fn interned(&mut self, namespace: &str) -> Arc<str> {
        if let Some(known) = self.namespaces.get(namespace) {
            return Arc::clone(known);
        }
        let new: Arc<str> = namespace.into();
        self.namespaces.insert(Arc::clone(&new));
        new
    }

    fn anywhere(&self, name: &str, uid: Option<&str>) -> u64 {
        self.keys.hash_one((name, uid))
    }

    fn place(&self, object: &Metadata) -> u64 {
        self.keys.hash_one((object.namespace.as_deref(), object.name.as_str()))
    }

    fn target(&self, object: &Metadata, namespace: Option<Arc<str>>) -> Target {
        Target {
            namespace,
            uid: self.keys.hash_one(object.uid.as_str()),
            names: [self.anywhere(&object.name, None), self.anywhere(&object.name, Some(&object.uid))],
            list: self.list,
        }
    }
}

impl Drop for Targets {
    fn drop(&mut self) {
        for target in self.objects.values() {
            self.space.give_back(target.namespace.as_deref(), BYTES);
        }
    }
}

/// Takes an object out of the space, and out of the numbers of objects in all namespaces.
fn forget(space: &Space, anywhere: &mut HashMap<u64, u32>, target: &Target) {
    space.give_back(target.namespace.as_deref(), BYTES);
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
        Self::new(&self.space)
    }

    fn begin_list(&mut self) {
        self.list = self.list.wrapping_add(1);
    }

    fn put(&mut self, object: Metadata) -> bool {
        let namespace = object.namespace.as_deref().map(|name| self.interned(name));
        let place = self.place(&object);
        let known = self.objects.remove(&place);
        known.iter().for_each(|known| forget(&self.space, &mut self.anywhere, known));
        if !self.space.take(namespace.as_deref(), BYTES) {
            let was_full = namespace.is_some_and(|namespace| self.full.insert(namespace, self.list).is_some());
            return known.is_some() || !was_full;
        }
        let target = self.target(&object, namespace);
        let is_news = known.is_none_or(|known| known.uid != target.uid);
        for key in target.names {
            *self.anywhere.entry(key).or_default() += 1;
        }
        self.objects.insert(place, target);
        is_news
    }

    fn remove(&mut self, object: &Metadata) -> bool {
        let (place, uid) = (self.place(object), self.keys.hash_one(object.uid.as_str()));
        if self.objects.get(&place).is_none_or(|known| known.uid != uid) {
            return false;
        }
        if let Some(known) = self.objects.remove(&place) {
            forget(&self.space, &mut self.anywhere, &known);
        }
        true
    }

    fn end_list(&mut self) -> bool {
        let (before, were_full) = (self.objects.len(), self.full.len());
        let Self { space, objects, anywhere, namespaces, full, list, .. } = self;
        objects.retain(|_, target| {
            let is_listed = target.list == *list;
            if !is_listed {
                forget(space, anywhere, target);
            }
            is_listed
        });
        full.retain(|_, seen| seen == list);
        namespaces.retain(|namespace| Arc::strong_count(namespace) > 1);
        objects.len() < before || full.len() < were_full
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
            let mut targets = Targets::new(&Space::new(64 << 20));
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
                        let expected = if exists { Existence::Exists } else { Existence::Missing };
                        assert_eq!(targets.find(&meant), expected, "{objects:?} {meant:?}");
                        seen[usize::from(exists)] += 1;
                    }
                }
            }
        }
        assert!(seen[0] > 50 && seen[1] > 20, "{seen:?}");
    }

    /// One namespace has more targets than its part of the space holds: what is not known there may exist, until a list
    /// shows that there are fewer.
    #[test]
    fn beyond_its_share_only_a_namespaces_own_targets_are_unknown() {
        let space = Space::new(40 * BYTES);
        let mut targets = Targets::new(&space);
        let object = |namespace: &str, name: String| Metadata {
            name,
            namespace: Some(namespace.to_owned()),
            ..Metadata::default()
        };
        let find = |targets: &Targets, namespace: Option<&str>, name: &str| {
            targets.find(&NamedTarget { name: name.into(), namespace: namespace.map(Into::into), uid: None })
        };
        targets.begin_list();
        assert!((0..30).all(|n| targets.put(object("x", n.to_string())) == (n <= 10)));
        assert!(targets.put(object("y", "a".to_owned())) && !targets.end_list());
        assert_eq!(find(&targets, Some("x"), "9"), Existence::Exists);
        assert_eq!([Some("x"), None].map(|namespace| find(&targets, namespace, "b")), [Existence::Unknown; 2]);
        assert_eq!(["a", "b"].map(|name| find(&targets, Some("y"), name)), [Existence::Exists, Existence::Missing]);
        // What is known stays known, and makes no room for others.
        assert!(!targets.put(object("x", "9".to_owned())) && !targets.put(object("x", "b".to_owned())));

        targets.begin_list();
        assert!(!targets.put(object("x", "9".to_owned())));
        assert_eq!(find(&targets, Some("x"), "b"), Existence::Unknown);
        assert!(targets.end_list());
        assert_eq!([Some("x"), Some("y")].map(|namespace| find(&targets, namespace, "a")), [Existence::Missing; 2]);
        drop(targets);
        assert!(space.take(Some("x"), 10 * BYTES));
    }
}

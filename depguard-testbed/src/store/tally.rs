//! Counts and indexes of objects, which save reading each object: the number of objects in each place, and the objects
//! by the value of a selectable field.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use serde_json::Value;

use super::{Key, Range};
use crate::protocol::json::field_of;

/// Counts and indexes of the whole store.
#[derive(Debug, Default)]
pub(super) struct Tally {
    counts: BTreeMap<Scope, usize>,
    indexes: HashMap<(String, String), Vec<Index>>,
}

/// Group, resource, cluster and namespace.
type Scope = (String, String, String, String);

/// Keys by the value of one field.
#[derive(Debug)]
struct Index {
    field: String,
    keys: HashMap<String, BTreeSet<Key>>,
}

impl Tally {
    pub(super) fn add(&mut self, key: &Key, value: &Value) {
        *self.counts.entry(scope(key)).or_default() += 1;
        for index in self.indexes_of(key) {
            index.keys.entry(field_of(value, &index.field)).or_default().insert(key.clone());
        }
    }

    pub(super) fn remove(&mut self, key: &Key, value: &Value) {
        if let Some(count) = self.counts.get_mut(&scope(key)) {
            *count -= 1;
        }
        for index in self.indexes_of(key) {
            let found = field_of(value, &index.field);
            if let Some(keys) = index.keys.get_mut(&found) {
                keys.remove(key);
            }
        }
    }

    /// Returns the number of objects in the range.
    pub(super) fn count(&self, range: Range<'_>) -> usize {
        let start =
            |cluster: &str| (range.group.to_owned(), range.resource.to_owned(), cluster.to_owned(), String::new());
        self.counts
            .range(start(range.cluster.unwrap_or_default())..)
            .take_while(|((group, resource, cluster, _), _)| {
                group == range.group && resource == range.resource && range.cluster.is_none_or(|one| one == cluster)
            })
            .filter(|((_, _, _, namespace), _)| range.namespace.is_none_or(|one| one == namespace))
            .map(|(_, count)| count)
            .sum()
    }

    pub(super) fn has_index(&self, range: Range<'_>, field: &str) -> bool {
        self.find(range, field).is_some()
    }

    /// Returns the keys whose field has that value, if the field has an index.
    pub(super) fn keys(&self, range: Range<'_>, field: &str, value: &str) -> Option<&BTreeSet<Key>> {
        static NONE: BTreeSet<Key> = BTreeSet::new();
        Some(self.find(range, field)?.keys.get(value).unwrap_or(&NONE))
    }

    /// Begins an index with the objects that exist.
    pub(super) fn begin(
        &mut self,
        group: &str,
        resource: &str,
        field: &str,
        objects: impl Iterator<Item = (Key, String)>,
    ) {
        let mut keys: HashMap<String, BTreeSet<Key>> = HashMap::new();
        for (key, value) in objects {
            keys.entry(value).or_default().insert(key);
        }
        let index = Index { field: field.to_owned(), keys };
        self.indexes.entry((group.to_owned(), resource.to_owned())).or_default().push(index);
    }

    fn find(&self, range: Range<'_>, field: &str) -> Option<&Index> {
        let indexes = self.indexes.get(&(range.group.to_owned(), range.resource.to_owned()))?;
        indexes.iter().find(|index| index.field == field)
    }

    fn indexes_of(&mut self, key: &Key) -> impl Iterator<Item = &mut Index> {
        let of_kind = self.indexes.get_mut(&(key.group.clone(), key.resource.clone()));
        of_kind.into_iter().flatten()
    }
}

fn scope(key: &Key) -> Scope {
    (key.group.clone(), key.resource.clone(), key.cluster.clone(), key.namespace.clone())
}

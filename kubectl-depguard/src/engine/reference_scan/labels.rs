//! Index of objects by their labels: it finds the objects that a selector selects without a look at all the others.

use std::collections::HashMap;

use depguard_core::model::{GroupResource, Selector};

use super::Object;

/// Indexes of objects by kind, namespace, label and value. Objects without a namespace are in the empty one.
#[derive(Debug, Default)]
pub(super) struct Labels(HashMap<GroupResource, HashMap<String, ByLabel>>);

type ByLabel = HashMap<String, HashMap<String, Vec<usize>>>;

impl Labels {
    pub(super) fn from_objects(objects: &[Object]) -> Self {
        let mut labels = Self::default();
        for (index, object) in objects.iter().enumerate().filter(|(_, object)| !object.referent.labels.is_empty()) {
            let places = labels.0.entry(object.kind.gvr.group_resource()).or_default();
            let place = places.entry(object.namespace().unwrap_or_default().to_owned()).or_default();
            for (label, value) in &object.referent.labels {
                place.entry(label.clone()).or_default().entry(value.clone()).or_default().push(index);
            }
        }
        labels
    }

    /// Returns the objects of a kind that a selector may select in a namespace, and the cluster-scoped ones; without a
    /// namespace, in any. `None` if the selector may select objects without labels, so that the caller must look at all
    /// objects.
    pub(super) fn candidates(
        &self,
        kind: &GroupResource,
        namespace: Option<&str>,
        selector: &Selector,
    ) -> Option<Vec<usize>> {
        let (label, values) = selector.anchor()?;
        let places = self.0.get(kind);
        let places: Vec<_> = match namespace {
            None => places.into_iter().flat_map(HashMap::values).collect(),
            Some(namespace) => [namespace, ""].into_iter().filter_map(|namespace| places?.get(namespace)).collect(),
        };
        let with_label = places.into_iter().filter_map(|place| place.get(label));
        let found = with_label.flat_map(|by_value| {
            let any = values.is_empty().then(|| by_value.values());
            let one = values.iter().filter_map(|value| by_value.get(value));
            any.into_iter().flatten().chain(one)
        });
        let mut found: Vec<_> = found.flatten().copied().collect();
        // A selector may name a value twice.
        found.sort_unstable();
        found.dedup();
        Some(found)
    }
}

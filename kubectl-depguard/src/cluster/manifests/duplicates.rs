//! Objects that stand in the files more than once.

use std::collections::HashMap;
use std::sync::Arc;

use depguard_core::model::Namespace;

use crate::cluster::documents::Origin;
use crate::cluster::object_record::{ObjectRecord, ObjectType};

/// Object that differs in two places.
pub(super) struct Differing {
    pub(super) object_type: Arc<ObjectType>,
    pub(super) name: String,
    pub(super) first: Origin,
    pub(super) last: Origin,
}

/// Keeps each object once. Of several objects with the same name the last counts, as if the files were applied one by
/// one. Returns those that differ, too.
pub(super) fn once(given: Vec<ObjectRecord>, namespace: &Namespace) -> (Vec<ObjectRecord>, Vec<Differing>) {
    let (mut kept, mut differing): (Vec<usize>, _) = (Vec::with_capacity(given.len()), Vec::new());
    let mut places = HashMap::with_capacity(given.len());
    for (index, record) in given.iter().enumerate() {
        let within = if record.namespace.is_empty() { namespace.as_str() } else { &record.namespace };
        let (group, kind) = (record.object_type.group().unwrap_or_default(), record.object_type.kind.as_str());
        // Objects without a name are never duplicates of each other.
        if !record.name.is_empty()
            && let Some(place) = places.insert((group, kind, within, &*record.name), kept.len())
        {
            places.insert((group, kind, within, &*record.name), place);
            let Some(last) = kept.get_mut(place) else { continue };
            if let Some(known) = given.get(*last).filter(|known| known.text != record.text) {
                differing.push(Differing {
                    object_type: Arc::clone(&record.object_type),
                    name: record.name.to_string(),
                    first: known.origin.clone(),
                    last: record.origin.clone(),
                });
            }
            *last = index;
            continue;
        }
        kept.push(index);
    }
    drop(places);
    if kept.len() == given.len() {
        return (given, differing);
    }
    let mut given: Vec<_> = given.into_iter().map(Some).collect();
    let kept = kept.into_iter().filter_map(|index| given.get_mut(index).and_then(Option::take));
    (kept.collect(), differing)
}

//! CRDs, which are established at once, and deleted with their objects.

use serde_json::json;

use crate::kinds::storage_versions;
use crate::protocol::json::{finalizers, is_terminating, map_at, set_condition, text};
use crate::store::StoredObject;
use crate::world::World;
use crate::write::defaults::DEFINITION_FINALIZER;
use crate::write::delete::marked;

/// Writes into each CRD's status that it is served, from the moment when it exists. Deletes the objects of terminating
/// CRDs. Returns true if there is a terminating CRD.
pub(crate) fn reconcile(world: &World) -> bool {
    let mut takes_down = false;
    for definition in world.store.everywhere("apiextensions.k8s.io", "customresourcedefinitions") {
        if is_terminating(&definition.object) {
            take_down(world, &definition);
            takes_down = true;
            continue;
        }
        let names = definition.object["spec"]["names"].clone();
        let stored = storage_versions(&definition.object);
        world.edit(&definition.key, |object| {
            let status = map_at(object, &["status"]);
            status.insert("acceptedNames".to_owned(), names.clone());
            status.insert("storedVersions".to_owned(), json!(stored));
            set_condition(object, "NamesAccepted", "True", "NoConflicts", "no conflicts found");
            set_condition(
                object,
                "Established",
                "True",
                "InitialNamesAccepted",
                "the initial names have been accepted",
            );
        });
    }
    takes_down
}

/// Deletes the CRD's objects. As in Kubernetes no webhook is called, but finalizers hold.
fn take_down(world: &World, definition: &StoredObject) {
    let group = text(&definition.object, "/spec/group").unwrap_or_default();
    let plural = text(&definition.object, "/spec/names/plural").unwrap_or_default();
    for stored in world.store.in_cluster(group, plural, &definition.key.cluster) {
        // A concurrent write causes a change, and then this function runs again.
        if finalizers(&stored.object).is_empty() {
            world.store.remove(&stored.key, stored.revision).ok();
        } else if !is_terminating(&stored.object) {
            world.store.replace(stored.key, stored.revision, marked(&stored.object)).ok();
        }
    }
    if world.store.in_cluster(group, plural, &definition.key.cluster).is_empty() {
        world.finish(&definition.key, DEFINITION_FINALIZER);
    }
}

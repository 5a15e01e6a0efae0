//! The controllers that answer at once: they follow the store and put things right.

use std::sync::Arc;

use serde_json::json;
use tokio::sync::watch;

use crate::json::{is_terminating, map_at, set_condition, text};
use crate::world::World;
use crate::{Kind, bindings, workspaces};

/// Reconciles whenever something changed, until the testbed stops.
pub(crate) async fn run(world: Arc<World>, mut stopped: watch::Receiver<bool>) {
    let mut revisions = world.store.subscribe();
    loop {
        revisions.mark_unchanged();
        if world.kind == Kind::Kcp {
            workspaces::reconcile(&world);
            bindings::reconcile(&world);
        }
        establish_definitions(&world);
        tokio::select! {
            _ = stopped.changed() => break,
            _ = revisions.changed() => {}
        }
    }
}

/// A CRD is served from the moment it is there; its status says so.
fn establish_definitions(world: &World) {
    for definition in world.store.everywhere("apiextensions.k8s.io", "customresourcedefinitions") {
        if is_terminating(&definition.object) {
            continue;
        }
        let names = definition.object["spec"]["names"].clone();
        let stored: Vec<&str> = definition.object["spec"]["versions"]
            .as_array()
            .into_iter()
            .flatten()
            .filter(|version| version["storage"] == true)
            .filter_map(|version| text(version, "/name"))
            .collect();
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
}

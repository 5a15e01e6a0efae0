//! The controllers that answer at once: they follow the store and put things right.

use std::sync::Arc;

use tokio::sync::watch;

use crate::world::World;
use crate::{Kind, bindings, definitions, roles, workspaces};

/// Reconciles whenever something changed, until the testbed stops.
pub(crate) async fn run(world: Arc<World>, mut stopped: watch::Receiver<bool>) {
    let mut revisions = world.store.subscribe();
    let mut faults = world.faults.subscribe();
    loop {
        revisions.mark_unchanged();
        faults.mark_unchanged();
        if world.kind == Kind::Kcp {
            workspaces::reconcile(&world);
            bindings::reconcile(&world);
        }
        definitions::reconcile(&world);
        roles::reconcile(&world);
        tokio::select! {
            _ = stopped.changed() => break,
            _ = revisions.changed() => {}
            _ = faults.changed() => {}
            () = world.shards.next_listed() => {}
        }
    }
}

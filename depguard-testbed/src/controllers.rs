//! Controllers that act at once: they follow the store and reconcile it.

pub(crate) mod bindings;
pub(crate) mod collector;
pub(crate) mod definitions;
pub(crate) mod roles;
pub(crate) mod teardown;
pub(crate) mod workspaces;

use std::sync::Arc;

use tokio::sync::watch;

use crate::auth::rbac;
use crate::options::Kind;
use crate::store::ExpiredRevision;
use crate::world::World;

/// API groups of the objects that these controllers read.
const GROUPS: [&str; 5] = ["apis.kcp.io", "core.kcp.io", "tenancy.kcp.io", "apiextensions.k8s.io", rbac::GROUP];

/// Reconciles after each change that a controller reads, until the testbed stops.
pub(crate) async fn run(world: Arc<World>, mut stopped: watch::Receiver<bool>) {
    let mut revisions = world.store.subscribe();
    let mut faults = world.faults.subscribe();
    loop {
        #[expect(clippy::disallowed_methods, reason = "the number is copied at once")]
        let seen = *revisions.borrow_and_update();
        faults.mark_unchanged();
        if world.kind == Kind::Kcp {
            workspaces::reconcile(&world);
            bindings::reconcile(&world);
        }
        let takes_down = definitions::reconcile(&world);
        roles::reconcile(&world);
        tokio::select! {
            _ = stopped.changed() => break,
            () = changed(&world, &mut revisions, seen, takes_down) => {}
            _ = faults.changed() => {}
            () = world.shards.next_listed() => {}
        }
    }
}

/// Waits for a change after `seen` that a controller reads. With `any`, which is set while a controller deletes objects
/// of all kinds, every change counts.
async fn changed(world: &World, revisions: &mut watch::Receiver<u64>, mut seen: u64, any: bool) {
    while revisions.changed().await.is_ok() {
        match world.store.changes_since(seen) {
            Ok((changes, _)) if any && !changes.is_empty() => return,
            Ok((changes, _)) if changes.iter().any(|change| GROUPS.contains(&change.key.group.as_str())) => return,
            Ok((_, revision)) => seen = revision,
            Err(ExpiredRevision) => return,
        }
    }
}

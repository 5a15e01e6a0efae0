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
use crate::store::Change;
use crate::world::World;

/// API groups of the objects that the controllers of workspaces and bindings read.
const KCP_GROUPS: [&str; 3] = ["apis.kcp.io", "core.kcp.io", "tenancy.kcp.io"];
/// API group of CRDs.
const DEFINITIONS: &str = "apiextensions.k8s.io";

/// Controllers that read what has changed. Each looks at all of its objects, so that the others would do much for nothing.
#[derive(Clone, Copy, Debug)]
struct Due {
    bindings: bool,
    definitions: bool,
    roles: bool,
}

impl Due {
    const ALL: Self = Self { bindings: true, definitions: true, roles: true };

    /// Returns the controllers that read the changed objects. `takes_down` is set while the objects of a CRD are deleted,
    /// so that a change of any object counts.
    fn from_changes(changes: &[Change], takes_down: bool) -> Self {
        let touches = |groups: &[&str]| changes.iter().any(|change| groups.contains(&change.key.group.as_str()));
        Self {
            bindings: touches(&KCP_GROUPS),
            definitions: touches(&[DEFINITIONS]) || (takes_down && !changes.is_empty()),
            roles: touches(&[rbac::GROUP]),
        }
    }

    fn is_any(self) -> bool {
        self.bindings || self.definitions || self.roles
    }
}

/// Reconciles after each change that a controller reads, until the testbed stops.
pub(crate) async fn run(world: Arc<World>, mut stopped: watch::Receiver<bool>) {
    let mut revisions = world.store.subscribe();
    let mut faults = world.faults.subscribe();
    let (mut seen, mut due, mut takes_down) = (world.store.revision(), Due::ALL, false);
    loop {
        faults.mark_unchanged();
        if due.bindings && world.kind == Kind::Kcp {
            workspaces::reconcile(&world);
            bindings::reconcile(&world);
        }
        if due.definitions {
            takes_down = definitions::reconcile(&world);
        }
        if due.roles {
            roles::reconcile(&world);
        }
        due = tokio::select! {
            _ = stopped.changed() => break,
            due = changed(&world, &mut revisions, &mut seen, takes_down) => due,
            _ = faults.changed() => Due::ALL,
            () = world.shards.next_listed() => Due::ALL,
        };
    }
}

/// Waits for a change after `seen` that a controller reads. No change is passed over: `seen` is the last one that was
/// looked at.
async fn changed(world: &World, revisions: &mut watch::Receiver<u64>, seen: &mut u64, takes_down: bool) -> Due {
    while revisions.changed().await.is_ok() {
        let Ok((changes, revision)) = world.store.changes_since(*seen) else {
            *seen = world.store.revision();
            return Due::ALL;
        };
        *seen = revision;
        let due = Due::from_changes(&changes, takes_down);
        if due.is_any() {
            return due;
        }
    }
    Due::ALL
}

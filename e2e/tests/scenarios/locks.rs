//! Locks: no user may change or delete the locked objects.

pub(crate) mod configured;
pub(crate) mod holders;
pub(crate) mod seen;
pub(crate) mod teardown;
pub(crate) mod what;

use std::sync::Arc;

use depguard_e2e::{Cast, Depguard, Outcome, World};

/// Creates the usual cast, which has bound depguard's locks, and starts depguard.
pub(crate) async fn guarded(world: &Arc<World>) -> Outcome<(Cast, Depguard)> {
    let cast = world.cast().await?;
    world.bind_locks(&cast.consumer).await?;
    let depguard = Depguard::start(world).await?;
    Ok((cast, depguard))
}

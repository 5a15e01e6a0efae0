//! Next actions for a GlobalOwner that is being deleted: pure.
//!
//! Every look decides anew from the state of the cluster, so a controller that was stopped anywhere goes on there.
//! Finished work shows in the objects that are gone, and in the phase of each GroupOwner.
//!
//! - Groups go wave by wave. A wave begins when each group before it is marked `Empty`, and a group is marked so when a
//!   consistent list shows nothing that refers to it.
//! - A group begins by owning all that it selects: objects that are not adopted yet are adopted, and the group is
//!   marked `Removing`.
//! - When all groups are done, the status shows no wave any more. Then the GroupOwners go, then their ClusterRoles, and
//!   at last the finalizer.
//! - A GlobalOwner that is deleted so that its dependents stay is released: all its groups at once, and nothing is
//!   deleted but GroupOwners and ClusterRoles.

mod disposition;
mod failures;
mod group_of;
mod look;
mod next_actions;
pub(crate) mod order;
mod preview;
mod report;
mod waves;

use depguard_core::owners::DeletionPolicy;
use tokio::time::Instant;

use crate::model::names::{RELEASING, REMOVING};
use crate::owners::api::FINALIZER;
use crate::owners::snapshot::OwnerSnapshot;
use crate::owners::write::Next;

pub(crate) use disposition::is_anothers;
pub(crate) use failures::{Memory, WriteOutcome};
pub(crate) use look::LeftBehind;
pub use order::{Plan, PlannedGroup, PlannedWave};
pub use preview::Preview;

/// Finalizer of the garbage collector on an owner that is deleted so that its dependents stay.
const ORPHAN: &str = "orphan";

/// Returns the next actions for a GlobalOwner that is being deleted. Refused writes wait until `now` is late enough.
pub(crate) fn next(observed: &OwnerSnapshot, memory: &Memory, now: Instant) -> Next {
    if !observed.owner.finalizers.iter().any(|finalizer| finalizer == FINALIZER) {
        return Next::default();
    }
    let (phase, waves) = if is_released(observed) {
        (RELEASING, vec![waves::to_release(observed)])
    } else if let Some(why) = observed.unordered.as_deref().filter(|_| !report::is_ending(observed)) {
        return report::unordered(observed, why, memory, now);
    } else {
        (REMOVING, waves::to_remove(observed))
    };
    next_actions::next(observed, phase, &waves, memory, now)
}

/// Returns true if the objects stay. Once true, this stays true: objects that somebody asked to keep are never deleted.
///
/// The webhook notes such a deletion on the GlobalOwner before it lets the deletion through, and the policy then says
/// Orphan. The garbage collector's traces count too, but are not reliable: a collector that hasn't begun to watch
/// GroupOwners takes its finalizer away without having touched them.
fn is_released(observed: &OwnerSnapshot) -> bool {
    let owner = &observed.owner;
    owner.deletion_policy == DeletionPolicy::Orphan
        || owner.finalizers.iter().any(|finalizer| finalizer == ORPHAN)
        || observed.groups.iter().any(|group| !group.is_owned)
        || owner.phase() == Some(RELEASING)
}

#[cfg(test)]
mod tests;

//! What comes next for a GlobalOwner that is being deleted: pure.
//!
//! All is told anew from what is in the cluster, each time, so that whoever was stopped anywhere goes on there. What is
//! done already shows in what is gone, and in the phase of each GroupOwner.
//!
//! - Groups go wave by wave. A wave begins when each group before it is marked `Empty`, and a group is marked so when a
//!   consistent list shows nothing that refers to it.
//! - A group begins by owning all that it selects: what is not adopted yet is, and it is marked `Removing`.
//! - When all are done, the status shows no wave any more. Then the GroupOwners go, then their ClusterRoles, and at last the
//!   finalizer.
//! - A GlobalOwner that is deleted so that its dependents stay is released: its groups all at once, and nothing is
//!   deleted but GroupOwners and ClusterRoles.

use tokio::time::Instant;

use super::api::FINALIZER;
use super::observed::Observed;
use super::spec::DeletionPolicy;
use super::write::Next;

mod fate;
mod homes;
mod look;
mod memory;
pub(crate) mod order;
mod outlook;
mod parts;
mod step;
mod tell;

pub(crate) use fate::is_anothers;
pub(crate) use look::LeftBehind;
pub(crate) use memory::{Came, Memory};
pub(crate) use order::Order;
pub use order::{Plan, PlannedGroup, PlannedWave};
pub use outlook::Outlook;

/// The phase of a GlobalOwner whose groups are removed.
pub(crate) const REMOVING: &str = "Removing";
/// The phase of one whose groups are released.
pub(crate) const RELEASING: &str = "Releasing";
/// The garbage collector's finalizer on what is deleted so that its dependents stay.
const ORPHAN: &str = "orphan";

/// What to do about a GlobalOwner that is being deleted. What was refused waits until `now` is late enough.
pub(crate) fn next(observed: &Observed, memory: &Memory, now: Instant) -> Next {
    if !observed.owner.finalizers.iter().any(|finalizer| finalizer == FINALIZER) {
        return Next::default();
    }
    let (phase, waves) = if is_released(observed) {
        (RELEASING, vec![parts::to_release(observed)])
    } else if let Some(why) = observed.unordered.as_deref().filter(|_| !tell::is_ending(observed)) {
        return tell::unordered(observed, why, memory, now);
    } else {
        (REMOVING, parts::to_remove(observed))
    };
    step::next(observed, phase, &waves, memory, now)
}

/// Whether the objects stay. Once that was so it stays so: what was asked for to be kept is never deleted.
///
/// The webhook notes it on the GlobalOwner before a deletion is let through that asks for it, and the policy says so then.
/// What the garbage collector leaves behind counts too, but can't be relied on: one that hasn't begun to watch GroupOwners
/// takes its finalizer away without having touched them.
fn is_released(observed: &Observed) -> bool {
    let owner = &observed.owner;
    owner.deletion_policy == DeletionPolicy::Orphan
        || owner.finalizers.iter().any(|finalizer| finalizer == ORPHAN)
        || observed.groups.iter().any(|group| !group.is_owned)
        || owner.phase() == Some(RELEASING)
}

#[cfg(test)]
mod tests;

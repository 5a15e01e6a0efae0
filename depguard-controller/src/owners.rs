//! GlobalOwners: objects of many kinds under one owner, removed in order. Plain Kubernetes only.
//!
//! A round looks at all GlobalOwners, their GroupOwners and their roles by lists, and at objects by watches of their
//! metadata. Pure functions decide what to write next: `adoption`, or `removal` for a GlobalOwner that is being
//! deleted. Only refusals, waits and first looks are remembered. Each write is one request that does no harm when it is
//! done again, so a controller that is killed anywhere leaves a state from which the next one goes on.

mod adoption;
pub mod api;
mod execute;
mod group;
mod metadata_watch;
pub(crate) mod removal;
mod runner;
mod snapshot;
mod status;
pub(crate) mod webhook;
mod write;

pub use removal::{Plan, PlannedGroup, PlannedWave, Preview};
pub(crate) use runner::Owners;

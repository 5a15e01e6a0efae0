//! GlobalOwners: objects of many kinds under one owner, removed in order. Home kubernetes only.
//!
//! A round looks at all GlobalOwners, their GroupOwners and their roles by lists, and at objects by watches of their
//! metadata. From what it finds follows what to write next (`keep`, or `removal` where a GlobalOwner is being deleted):
//! pure functions, and nothing is remembered but who refused what. Each write is one request that does no harm when it is
//! done again, so that a controller that is killed anywhere goes on where another one begins.

pub mod api;
mod driver;
mod execute;
pub(crate) mod guard;
mod keep;
mod observed;
pub(crate) mod removal;
mod spec;
mod status;
mod watching;
mod write;

pub(crate) use driver::Owners;
pub(crate) use keep::OWNING;
pub use removal::{Outlook, Plan, PlannedGroup, PlannedWave};
pub use spec::SpecError;

//! References to targets that don't exist: their count for each rule that asks for one, from watches of the dependents
//! and the targets.
//!
//! Everything is counted anew after a change, at most once a second. So no count can drift, and a restart begins with
//! the right one.

mod count;
mod dependents;
mod kind_watch;
mod runner;
mod space;
mod targets;

pub(crate) use self::runner::References;

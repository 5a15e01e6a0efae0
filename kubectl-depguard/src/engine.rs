//! Computations that several commands share: references between objects, simulated deletions, locks.

pub(crate) mod locks;
pub(crate) mod members;
pub(crate) mod offline_server;
pub(crate) mod page;
pub(crate) mod reference_scan;
pub(crate) mod rule_draft;
pub(crate) mod simulated_delete;
pub mod synced_names;

//! Properties of depguard-core, and of the service around it, that hold on any input. Each target takes bytes and
//! panics if its property fails.
//!
//! `tests/targets.rs` runs the targets: on a stable compiler with random edits of good documents, and under `cargo
//! bolero` with the inputs of a coverage-guided fuzzer.

mod edit;
mod locks;
mod owners;
mod references;
mod service;
pub mod targets;

pub use edit::{Edit, edited};
pub use locks::{GOOD_LOCKS, lock};
pub use owners::{GOOD_OWNERS, owner};
pub use references::{GOOD_CHANGES, GOOD_TARGETS, change, target};
pub use service::service;

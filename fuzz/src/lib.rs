//! What must hold of depguard-core, and of the service around it, on any input: each target takes bytes and panics where it doesn't.
//!
//! `tests/targets.rs` feeds them: on a stable compiler with random edits of good documents, and under
//! `cargo bolero` with whatever a coverage-guided fuzzer comes up with.

mod edit;
mod locks;
mod owners;
mod service;
pub mod targets;

pub use edit::{Edit, edited};
pub use locks::{GOOD_LOCKS, lock};
pub use owners::{GOOD_OWNERS, owner};
pub use service::service;

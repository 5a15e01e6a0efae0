//! `kubectl depguard`: see, explain, test and plan references between objects, offline or against a live kcp or cluster.
//!
//! The binary is a few lines over [`run`], so that a test runs a command as a person does and reads what it prints.
#![cfg_attr(not(test), deny(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, clippy::panic))]

// From top to bottom: each module imports only from those below it (e2e/tests/repository/architecture.rs holds the order).

/// Command line: the list of commands, and the execution of one.
mod cli;

/// Commands, one folder or file each.
mod commands;

/// Computations that several commands share: references between objects, simulated deletions, locks.
mod engine;

/// Cluster that a command reads: an API server, or manifests read as if they were one.
mod cluster;

/// Options that commands share.
mod options;

/// Streams, formats and exit codes.
mod io;

pub use cli::{command, run};
pub use commands::report_schema;
pub use engine::synced_names;
pub use io::exit::ExitStatus;
pub use io::terminal::{Captured, Terminal};

//! `kubectl depguard`: see, explain, test and plan references between objects, offline or against a live kcp or cluster.
//!
//! The binary is a few lines over [`run`], so that a test runs a command as a person does and reads what it prints.
#![cfg_attr(not(test), deny(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, clippy::panic))]
mod answers;
mod cli;
mod commands;
mod disk;
mod draft;
mod drawing;
mod files;
mod judge;
mod kinds;
mod live;
mod locks;
mod outcome;
mod output;
mod rules;
mod scan;
mod source;
mod terminal;
mod yaml;

pub use cli::{command, run};
pub use outcome::ExitStatus;
pub use terminal::{Captured, Terminal};

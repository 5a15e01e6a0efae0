//! [openMCP](https://github.com/openmcp-project) cluster provider whose clusters are kcp workspaces.
//!
//! - [`api`]: objects on the platform cluster, as far as this provider reads and writes them
//! - [`platform`], [`workspaces`]: the two API servers on which it works
//! - [`profiles`], [`clusters`], [`access`]: its reconcilers
//! - `reconcile`: common parts of the reconcilers
//! - [`guard`]: its own webhook, with depguard's core in it
//! - [`provider`]: `init` and `run`, which put them together; [`play`] shows all of them

pub mod access;
pub mod api;
pub mod cli;
pub mod clusters;
mod error;
pub mod guard;
pub mod platform;
pub mod play;
pub mod profiles;
pub mod provider;
mod reconcile;
pub mod workspaces;

pub use error::{Error, Result};

//! An [openMCP](https://github.com/openmcp-project) cluster provider whose clusters are kcp workspaces.
//!
//! - [`api`]: what stands on the platform cluster, as far as this provider reads and writes it
//! - [`platform`], [`workspaces`]: the two API servers it works on
//! - [`profiles`], [`clusters`], [`access`]: its reconcilers
//! - `reconcile`: what those have in common
//! - [`guard`]: its own webhook, with depguard's core in it
//! - [`provider`]: `init` and `run`, which put them together; [`play`] shows all of it

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

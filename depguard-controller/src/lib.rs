//! The controller of depguard: resolves rules, installs webhook configurations, reports status.
#![cfg_attr(not(test), deny(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, clippy::panic))]
// What is public may grow, or says why it never will.
#![warn(clippy::exhaustive_enums, clippy::exhaustive_structs)]

mod asking;
mod bindings;
mod ca_bundle;
mod check;
mod checks;
#[cfg(feature = "bin")]
pub mod cli;
mod clients;
mod config;
mod configuration;
mod controller;
mod deference;
mod election;
mod enforced;
mod events;
mod exports;
mod fields;
mod findings;
pub mod fitting;
mod gate;
mod install;
mod kinds;
mod lease;
mod leftovers;
mod locks;
pub mod manifests;
mod metrics;
mod observe;
pub mod owners;
mod plan;
mod prober;
mod programmed;
mod reconcile;
mod references;
mod retries;
mod rounds;
mod runner;
mod serving;
mod sight;
mod status;
#[cfg(test)]
mod testing;
mod uninstall;
mod webhook_target;
mod written_rule;

pub use ca_bundle::CaBundleError;
pub use config::Config;
pub use controller::{Controller, StartError};
pub use locks::{VitalKind, VitalKindError};
pub use sight::look;
pub use uninstall::{Removed, Uninstall, UninstallError, Uninstalled, uninstall};
pub use webhook_target::{WebhookTarget, WebhookTargetError};

/// The page that a registry shows.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

//! The controller of depguard: resolves rules, installs webhook configurations, reports status.
#![cfg_attr(not(test), deny(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, clippy::panic))]
// Each public type may grow, or says why it never will.
#![warn(clippy::exhaustive_enums, clippy::exhaustive_structs)]

// Modules from top to bottom: each imports only from modules below it (e2e/tests/repository/architecture.rs holds the order).

/// Command line of the binary.
#[cfg(feature = "bin")]
pub mod cli;

/// The whole controller, from its start until it is stopped.
mod controller;

/// Removal of all that the controller installed, and a search for configurations that a former start left.
mod uninstall;

/// Manifests: kinds, rights and ready-made rules, as values and as YAML.
pub mod manifests;

/// Packs of ready-made rules, one file a product: data.
pub mod packs;

/// GlobalOwners: objects of many kinds under one owner, removed in order.
pub mod owners;

/// Locks: their webhook configurations, their tables, their status.
mod locks;

/// References to targets that don't exist: their count for each rule that asks for one.
mod references;

/// Rules: the plan made from all that is watched, and each rule's status, one file a condition.
mod rules;

/// Reference registers of the interlock: made, opened and cleaned.
mod interlock;

/// Probes of the installed configurations: each is in force, or not.
mod probe;

/// Rounds, requests and metrics, which rules, locks and owners have in common.
mod runtime;

/// Reading of kinds, each answer kept for a while.
mod schema;

/// Leader election.
mod leader;

mod config;

/// Names, conditions and configurations: pure.
mod model;

#[cfg(test)]
mod testing;

pub use config::Config;
pub use controller::Controller;
pub use model::configuration_drift::drift;
pub use model::vital_kind::{VitalKind, VitalKindError};
pub use model::webhook_target::{WebhookTarget, WebhookTargetError};
pub use runtime::ca_bundle::CaBundleError;
pub use runtime::start_error::StartError;
pub use schema::kind_reader::read_kind;
pub use uninstall::removal::{Removed, Uninstall, UninstallError, Uninstalled, uninstall};

/// The page that a registry shows.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

//! Support code of the scenarios in `tests/scenarios`.
//!
//! A [`Ring`] is an API server, in this process or a real one, started on free ports. A [`World`] is a set of providers
//! and a consumer on a ring; no other scenario touches them. [`Depguard`] is depguard itself; it runs in this process,
//! so that a scenario can kill its parts. `runner` runs each [`Scenario`] on each ring. If a scenario ends in a
//! refusal, `runner` runs the scenario once more without depguard: then the same deletion must go through, or the
//! refusal proved nothing.

// Modules from top to bottom: each imports only from modules below it (tests/repository/architecture.rs holds the order).

/// Runs each scenario on each ring, and prints a line for each.
pub mod runner;

/// depguard's webhook and controller, in this process.
mod depguard;

/// Providers and consumers, their kinds, objects, rules, locks and rights.
mod world;

/// API servers that scenarios run on.
mod ring;

/// Kubernetes' own end-to-end tests.
pub mod suite;

/// helm and kubectl, for the tests of the chart.
pub mod tools;

/// Pages in docs/, read as steps for a reader.
pub mod document;

/// Files that a test generates.
pub mod generated;

/// Results of checks other than scenarios.
mod tally;

/// Choice of rings, and the programs that each needs.
mod selection;

/// Certificate authorities.
mod certificate;

/// Parts of a cluster that a test plays.
pub mod played;

/// Requests to an API server.
mod api;

/// Results, and waiting for a state.
mod outcome;

pub use api::{Api, Reply, Watch, path_of};
pub use certificate::Authority;
pub use depguard::{Depguard, metrics_page, page_at};
pub use outcome::{Outcome, Stop, ensure, eventually};
pub use ring::{Outage, Ring, SecondApiServer, Shard};
pub use runner::Scenario;
pub use selection::RingKind;
pub use tally::Tally;
pub use world::{Cast, Consumer, Mode, Provider, Reference, Resource, World, locks, owners, rules};

/// The README's code, as a reader would compile it.
#[cfg(doctest)]
#[doc = include_str!("../../README.md")]
struct Readme;

/// Code of the page for those who embed depguard, compiled likewise.
#[cfg(doctest)]
#[doc = include_str!("../../docs/embedding.md")]
struct Embedding;

//! Support code of the scenarios in `tests/scenarios`.
//!
//! A [`Ring`] is an API server, in this process or a real one, started on free ports. A [`World`] is a set of providers
//! and a consumer on a ring; no other scenario touches them. [`Depguard`] is depguard itself; it runs in this process,
//! so that a scenario can kill its parts. `runner` runs each [`Scenario`] on each ring. If a scenario ends in a
//! refusal, `runner` runs the scenario once more without depguard: then the same deletion must go through, or the
//! refusal proved nothing.

mod api;
mod certificate;
mod depguard;
pub mod document;
mod outcome;
mod ring;
pub mod runner;
mod selection;
mod tally;
pub mod tools;
mod world;

pub use api::{Api, Reply, Watch};
pub use certificate::Authority;
pub use depguard::Depguard;
pub use outcome::{Outcome, Stop, ensure, eventually};
pub use ring::{Outage, Ring, Shard};
pub use runner::{Mode, Scenario};
pub use selection::RingKind;
pub use tally::Tally;
pub use world::{Cast, Consumer, Provider, Reference, Resource, World, locks, owners, rules};

/// The README's code, as a reader would compile it.
#[cfg(doctest)]
#[doc = include_str!("../../README.md")]
struct Readme;

/// Code of the page for those who embed depguard, compiled likewise.
#[cfg(doctest)]
#[doc = include_str!("../../docs/embedding.md")]
struct Embedding;

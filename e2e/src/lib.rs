//! What the scenarios in `tests/scenarios` stand on.
//!
//! A [`Ring`] is an API server, in the process or a real one, started on free ports. A
//! [`World`] is a set of providers and a consumer on it that no other scenario touches.
//! [`Depguard`] is depguard itself, run in the process so that a scenario can kill its parts.
//! `runner` runs each [`Scenario`] on each ring, and each that ends in a refusal once more
//! without depguard: then the same deletion must go through, or the refusal proved nothing.

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
pub use ring::Ring;
pub use runner::{Mode, Scenario};
pub use selection::RingKind;
pub use tally::Tally;
pub use world::{Cast, Consumer, Provider, Reference, Resource, World, locks, owners, rules};

/// The README's code, as a reader would compile it.
#[cfg(doctest)]
#[doc = include_str!("../../README.md")]
struct Readme;

/// The same of the page for those who embed depguard.
#[cfg(doctest)]
#[doc = include_str!("../../docs/embedding.md")]
struct Embedding;

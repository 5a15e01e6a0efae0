//! The admission webhook of depguard: it refuses to delete what is still referenced.
//!
//! [`ReviewService`] is a [`tower::Service`] that reviews deletions; a provider can mount it in a server of its own.
//! [`Webhook`] is that service with all that belongs around it: the rules watched, TLS with a certificate that renews
//! itself, probes, limits and an orderly end. The binary `depguard-webhook` is a [`Webhook`] with a command line.
#![cfg_attr(not(test), deny(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, clippy::panic))]
// What is public may grow, or says why it never will.
#![warn(clippy::exhaustive_enums, clippy::exhaustive_structs)]

mod activity;
mod board;
mod body;
mod bound_since;
mod budget;
#[cfg(feature = "bin")]
pub mod cli;
mod client_ca;
mod config;
mod driver;
mod export;
mod front_proxy;
mod gauges;
mod gets;
mod lanes;
mod locks;
mod lookups;
mod metrics;
mod owners;
mod pages;
mod paths;
mod port;
mod proof;
mod refusals;
mod registry;
mod rejection;
mod report;
mod respond;
mod rights;
mod rules;
mod seldom;
mod server;
mod service;
mod source;
mod tables;
mod taken;
mod tasks;
mod tls;
mod uid;
mod way;
mod webhook;

pub use budget::Room;
pub use config::Config;
pub use depguard_kcp::{Feature, Features, ReadThrough};
pub use export::ThroughExports;
pub use front_proxy::FrontProxy;
pub use paths::PathKeys;
pub use port::{Fetched, Port, Writer};
pub use rules::Rules;
pub use service::{Limits, ReviewService};
pub use tls::CertificateError;
pub use webhook::{StartError, Webhook};

/// The page that a registry shows.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

//! The admission webhook of depguard: it refuses to delete objects that are still referenced.
//!
//! [`ReviewService`] is a [`tower::Service`] that reviews deletions; a provider can mount it in a server of its own.
//! [`Webhook`] is this service with everything around it: the watch of the rules, TLS with a certificate that is
//! followed, probes, limits and an orderly end. The binary `depguard-webhook` is a [`Webhook`] with a command line.
#![cfg_attr(not(test), deny(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, clippy::panic))]
// Each public type may grow, or says why it never will.
#![warn(clippy::exhaustive_enums, clippy::exhaustive_structs)]

// Modules from top to bottom: each imports only from modules below it (e2e/tests/repository/architecture.rs holds the order).

/// Command line of the binary.
#[cfg(feature = "bin")]
pub mod cli;

/// The whole webhook: watches rules, follows the certificate, answers reviews and probes.
mod webhook;

/// Reviews: an HTTP request in, an answered AdmissionReview out.
mod service;

/// Reads for decisions, side by side and within bounds.
mod reads;

/// Request coalescing: lookups of the same dependents share one list.
mod coalesce;

/// Traces of reviews, for a collector of OpenTelemetry.
mod traces;

/// Metrics of the service and its server.
mod metrics;

/// Rules in force, kept up to date with the objects that a watch shows.
mod rules;

/// Ways to the API server: the plain cluster, kcp's front-proxy, the virtual workspaces of exports.
mod ports;

/// Server: TLS, connections, and the tasks that end with it.
mod server;

/// Limits for all reviews and all reads together.
mod limits;

mod config;

pub use config::Config;
pub use depguard_kcp::{Feature, Features, ReadThrough};
pub use limits::read_budget::BytePermit;
pub use limits::review_limits::Limits;
pub use ports::api_reader::{ApiReader, Fetched, Writer};
pub use ports::export_reader::ThroughExports;
pub use ports::front_proxy::FrontProxy;
pub use ports::own_endpoint::OwnEndpoint;
pub use rules::active_rules::Rules;
pub use server::tls::CertificateError;
pub use service::review_service::ReviewService;
pub use service::routes::PathKeys;
pub use webhook::{StartError, Webhook};

/// The page that a registry shows.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

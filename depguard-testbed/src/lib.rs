//! API server in the process that plays kcp and plain Kubernetes: over HTTPS, in memory, on a free port. It is for
//! tests of admission webhooks and controllers, and for depguard's quickstart.
//!
//! ```
//! use depguard_testbed::{Options, Testbed};
//!
//! # tokio::runtime::Runtime::new()?.block_on(async {
//! let testbed = Testbed::start(Options::kcp()).await?;
//! let kubeconfig = testbed.kubeconfig("root", "admin");
//! assert!(kubeconfig.contains(testbed.url()));
//! testbed.stop().await;
//! # Ok::<(), Box<dyn std::error::Error>>(()) })?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! [`Options`] choose what the testbed plays; [`Testbed`] is the running server; [`WebhookServer`] serves a webhook for
//! it; [`Faults`] break requests and end processes; [`LogBuffer`] keeps the log of a program under test. The README says what the testbed plays and what it leaves out, and
//! has a provider's whole test. A difference from a real server that the README doesn't name is a bug of the testbed.
// Public types may grow, or say why they never will.
#![warn(clippy::exhaustive_enums, clippy::exhaustive_structs)]

// Modules from top to bottom: each imports only from modules below it (e2e/tests/repository/architecture.rs holds the order).

/// Running testbed: starts it, fills it with objects, and stops it.
mod testbed;

/// Controllers that come with a control plane: bindings, CRDs, workspaces, aggregated roles, teardown, collector.
mod controllers;

/// Addresses of the API server and of its shards: takes a request apart and answers it.
mod api_server;

/// Changes of objects: create, update, patch, apply, delete and subresources, with all checks and webhooks.
mod write;

/// Objects as they are read: get, list and watch, selectors and tables.
mod read;

/// Rights of a requester: RBAC, access reviews, and who may grant rights.
mod auth;

/// Objects that a request is about, behind the door through which it came.
mod request;

/// State that all requests and controllers share: shards, faults, counts, audit entries.
mod world;

/// Kinds that a logical cluster serves.
mod kinds;

/// Objects and their history.
mod store;

/// Paths, tokens, statuses and replies of the Kubernetes API, and fields of its objects.
mod protocol;

/// TLS, listeners, connections to webhooks, and ports.
mod transport;

/// Options of a testbed.
mod options;

/// Log in memory, for tests.
mod log_buffer;

pub use log_buffer::LogBuffer;
pub use options::{Kind, Options};
pub use store::Event;
pub use testbed::Testbed;
pub use testbed::fill::{FillError, Place};
pub use transport::StartError;
pub use transport::ports::lasting_port;
pub use transport::webhook_server::WebhookServer;
pub use world::audit::Audit;
pub use world::faults::{Death, Fault, FaultId, Faults, Life, When, Write};
pub use world::traffic::Lists;

/// README, whose test is a doctest.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

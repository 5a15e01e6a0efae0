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
//! it; [`Faults`] break requests and end processes. The README says what the testbed plays and what it leaves out, and
//! has a provider's whole test. A difference from a real server that the README doesn't name is a bug of the testbed.
// Public types may grow, or say why they never will.
#![warn(clippy::exhaustive_enums, clippy::exhaustive_structs)]

mod access;
mod act;
mod admission;
mod apply;
mod audit;
mod authorize;
mod bindings;
mod builtin;
mod collector;
mod controllers;
mod defaults;
mod definitions;
mod delete;
mod discovery;
mod escalate;
mod evict;
mod faults;
mod fill;
mod form;
mod front;
mod identity;
mod json;
mod json_patch;
mod kinds;
mod kubeconfig;
mod list;
mod metadata;
mod names;
mod options;
mod patch;
mod pool;
mod ports;
mod rbac;
mod read;
mod reply;
mod roles;
mod routes;
mod scale;
mod schema;
mod selectors;
mod serve;
mod server;
mod shards;
mod status;
mod store;
mod table;
mod teardown;
mod testbed;
mod tls;
mod tokens;
mod traffic;
mod view;
mod watch;
mod webhook;
mod webhook_server;
mod workspaces;
mod world;
mod write;

pub use audit::Audit;
pub use faults::{Death, Fault, FaultId, Faults, Life, When, Write};
pub use fill::{FillError, Place};
pub use options::{Kind, Options};
pub use ports::lasting_port;
pub use store::Event;
pub use testbed::{StartError, Testbed};
pub use traffic::Lists;
pub use webhook_server::WebhookServer;

/// README, whose test is a doctest.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

//! An API server in the process that plays kcp and plain Kubernetes for depguard's tests and its
//! quickstart: over HTTPS, in memory, and only what depguard touches.
//!
//! ```
//! use depguard_testbed::{Options, Testbed};
//!
//! # tokio::runtime::Runtime::new()?.block_on(async {
//! let testbed = Testbed::start(Options::default()).await?;
//! let kubeconfig = testbed.kubeconfig("root", "admin");
//! assert!(kubeconfig.contains(testbed.url()));
//! testbed.stop().await;
//! # Ok::<(), Box<dyn std::error::Error>>(()) })?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Where it and a real server differ, the testbed is wrong. What it plays and what it doesn't is in
//! its README.

mod act;
mod admission;
mod apply;
mod authorize;
mod bindings;
mod builtin;
mod controllers;
mod defaults;
mod definitions;
mod delete;
mod discovery;
mod faults;
mod fill;
mod form;
mod identity;
mod json;
mod kinds;
mod kubeconfig;
mod list;
mod names;
mod patch;
mod pool;
mod rbac;
mod read;
mod reply;
mod roles;
mod routes;
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
mod traffic;
mod view;
mod watch;
mod webhook;
mod workspaces;
mod world;
mod write;

pub use faults::{Fault, FaultId, Faults, When};
pub use fill::{FillError, Place};
pub use store::Event;
pub use testbed::{Kind, Options, StartError, Testbed};
pub use traffic::Lists;

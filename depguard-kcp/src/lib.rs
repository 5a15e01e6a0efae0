//! depguard's way to kcp and Kubernetes.
//!
//! - [`Connection`]: the kubeconfig, and the shared stack of TCP, TLS and credentials made from it. A lookup uses an
//!   idle connection if there is one.
//! - [`Endpoint`]: a URL over that stack (a logical cluster, a workspace, a virtual workspace, the plain cluster), with
//!   [`Endpoint::get`] for raw pages and with JSON methods for single objects.
//! - [`Reflector`]: watched resources as one snapshot, [`Snapshot`], which is complete or says why not.
//! - [`VirtualWorkspaces`]: the endpoint of an APIExport's virtual workspace that shows a consumer, on whichever shard the
//!   consumer is.
//! - [`BoundWorkspaces`] and [`WorkspaceLookups`]: the logical clusters that claim a workspace path, and the one that
//!   the path stands for.
//! - `WatchedFile`: a value made from files, and made anew when they change.
//! - [`PathKey`]: the key that signs the URL paths at which API servers call the webhook.
//!
//! ```no_run
//! use depguard_core::{ControlPlane, LogicalCluster};
//! use depguard_kcp::{ConnectOptions, Connection};
//!
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! let connection = Connection::open(&ConnectOptions::new(ControlPlane::Kcp)).await?;
//! let cluster = connection.cluster(&LogicalCluster::parse("2x3fg5w1ik2mcnev")?);
//! let page = cluster.get("/apis/compute.example.com/v1alpha1/virtualmachines?limit=500").await?;
//! println!("{}: {} bytes", page.status(), page.body().len());
//! # Ok(())
//! # }
//! ```
//!
//! Connections and bodies are bounded: a connection takes at most 5 s to open, a body at most 64 MiB. The caller bounds
//! each request: drop its future, or use [`Endpoint::within`].
#![cfg_attr(not(test), deny(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, clippy::panic))]
// Public types may grow, or say why they never will.
#![warn(clippy::exhaustive_enums, clippy::exhaustive_structs)]

// The modules stand from top to bottom: each imports only from modules below it (e2e/tests/repository/architecture.rs holds the
// order).

/// Command lines and logs: flags and words that both binaries have in common.
#[cfg(feature = "cli")]
pub mod cli;

/// Machinery of a process: files that change, probes, metrics, the key of webhook paths.
mod process;

/// Watches: resources as one snapshot that knows how old it is, and metadata alone.
mod watch;

/// Workspaces, shards and the endpoints of APIExports.
mod tenancy;

/// Requests: one shared connection stack, endpoints over it, objects, lists.
mod http;

/// Options of both binaries: those that both must be told alike, and the memory budget of each.
mod options;

mod builder;

pub use crate::http::body_limit::{BodyBudget, UpTo};
pub use crate::http::connection::{ConnectError, ConnectOptions, Connection};
pub use crate::http::endpoint::{Endpoint, MAX_BODY, RequestError, fetched};
pub use crate::http::kubeconfig::{Impersonation, KubeconfigNames, KubeconfigOverrides};
pub use crate::http::objects::{ApiError, Cause, Preconditions, Status};
pub use crate::http::paged_list::List;
pub use crate::http::request_log::{LoggedRequest, RequestLog};
pub use crate::http::url::UrlError;
pub use crate::http::webhook_client::{CallError, Caller};
pub use crate::options::features::{Feature, Features, NotInKcp};
pub use crate::options::memory_budget::MemoryBudget;
pub use crate::options::read_through::{NoExports, ReadThrough};
#[cfg(feature = "metrics")]
pub use crate::process::certificate_expiry::{bundle_expiry, certificate_expiry};
#[cfg(feature = "metrics")]
pub use crate::process::file_watch::{FileError, Files, REREAD, WatchedFile};
#[cfg(feature = "metrics")]
pub use crate::process::lazy_gauges::{Gauges, Series, register_watches};
#[cfg(feature = "metrics")]
pub use crate::process::metrics::Metrics;
#[cfg(feature = "metrics")]
pub use crate::process::path_key::PathKeyError;
pub use crate::process::path_key::{PathKey, PathPeriod};
#[cfg(any(feature = "probes", feature = "metrics"))]
pub use crate::process::plain_http::listen;
#[cfg(feature = "probes")]
pub use crate::process::probes::{Health, Probes};
pub use crate::process::register_key::{RegisterKeySecret, StoredRegisterKey};
#[cfg(feature = "metrics")]
pub use crate::process::reload_metrics::{Reload, Reloads};
pub use crate::tenancy::shard_hosts::ShardHosts;
pub use crate::tenancy::virtual_workspaces::{VirtualWorkspace, VirtualWorkspaceError, VirtualWorkspaces};
pub use crate::tenancy::workspace_cache::{Claims, WorkspaceLookups, long_freshness};
pub use crate::tenancy::workspace_paths::{BoundWorkspaces, WorkspaceLookup};
pub use crate::watch::channel::{latest, send_if_new};
pub use crate::watch::metadata::{Metadata, MetadataEvent, MetadataForm, OwnerReference};
pub use crate::watch::reflector::{
    Allowance, Derived, Failure, ObjectKey, ObjectText, Readiness, Reflector, ReflectorOptions, Snapshot, Tenant,
    Watched, WatchedObject, WatchedResource, Watches,
};
pub use crate::watch::steady::{Form, WatchEvent, WatchFailure};

/// README, which registries show.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

//! depguard's way to kcp and Kubernetes.
//!
//! - [`Connection`]: the kubeconfig, and one shared stack of TCP, TLS and credentials made of it. Not one connection
//!   is set up for a lookup that finds an idle one.
//! - [`Endpoint`]: a URL over that stack (a logical cluster, a workspace, a virtual workspace, the plain cluster), with
//!   [`Endpoint::get`] for whoever reads raw pages and JSON helpers for whoever reads and writes single objects.
//! - [`Mirror`]: watched resources as one snapshot, [`MirrorState`], that is complete or says why it is not.
//! - [`ExportViews`]: where an APIExport's virtual workspace shows a consumer, on whichever shard it is.
//! - [`BoundWorkspaces`] and [`WorkspaceLookups`]: which logical clusters claim a workspace path, and which one of them
//!   it stands for.
//! - `Followed`: what is made of files, kept up with them as they change.
//! - [`PathKey`]: signs the URL paths at which API servers call the webhook.
//!
//! ```no_run
//! use depguard_core::{Home, LogicalCluster};
//! use depguard_kcp::{ConnectOptions, Connection};
//!
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! let connection = Connection::open(&ConnectOptions::new(Home::Kcp)).await?;
//! let cluster = connection.cluster(&LogicalCluster::parse("2x3fg5w1ik2mcnev")?);
//! let page = cluster.get("/apis/compute.example.com/v1alpha1/virtualmachines?limit=500").await?;
//! println!("{}: {} bytes", page.status(), page.body().len());
//! # Ok(())
//! # }
//! ```
//!
//! Everything here is bounded: a connection takes 5 s at most, a body 64 MiB. A request takes as long as its caller
//! lets it: drop its future, or say [`Endpoint::within`].
#![cfg_attr(not(test), deny(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, clippy::panic))]
// What is public may grow, or says why it never will.
#![warn(clippy::exhaustive_enums, clippy::exhaustive_structs)]

mod address;
mod api;
mod builder;
mod caller;
#[cfg(feature = "cli")]
pub mod cli;
mod connection;
mod endpoint;
#[cfg(feature = "metrics")]
mod expiry;
mod export_endpoints;
mod features;
#[cfg(feature = "metrics")]
mod followed;
#[cfg(feature = "metrics")]
mod gauges;
mod lookups;
mod metadata;
#[cfg(feature = "metrics")]
mod metrics;
mod mirror;
mod pages;
mod path_key;
#[cfg(any(feature = "probes", feature = "metrics"))]
mod plain;
#[cfg(feature = "probes")]
mod probes;
mod read_through;
#[cfg(feature = "metrics")]
mod reloads;
mod shard_hosts;
mod slices;
mod space;
mod stack;
mod views;
mod workspaces;

pub use address::UrlError;
pub use api::{ApiError, Cause, Preconditions, Status};
pub use caller::{CallError, Caller};
pub use connection::{ConnectError, ConnectOptions, Connection};
pub use endpoint::{Endpoint, MAX_BODY, RequestError, fetched};
#[cfg(feature = "metrics")]
pub use expiry::{bundle_expiry, certificate_expiry};
pub use features::{Feature, Features, NotInKcp};
#[cfg(feature = "metrics")]
pub use followed::{FileError, Files, Followed, REREAD};
#[cfg(feature = "metrics")]
pub use gauges::{Gauges, Series, register_watches};
pub use lookups::{Claims, WorkspaceLookups};
pub use metadata::{Metadata, MetadataEvent, OwnerReference};
#[cfg(feature = "metrics")]
pub use metrics::Metrics;
pub use mirror::{
    Allowance, Derived, Failure, Mirror, MirrorOptions, MirrorState, Mirrored, MirroredObject, ObjectKey, Readiness,
    Tenant, Watched, Watches,
};
pub use pages::List;
pub use path_key::PathKey;
#[cfg(feature = "metrics")]
pub use path_key::PathKeyError;
#[cfg(any(feature = "probes", feature = "metrics"))]
pub use plain::listen;
#[cfg(feature = "probes")]
pub use probes::{Health, Probes};
pub use read_through::{NoExports, ReadThrough};
#[cfg(feature = "metrics")]
pub use reloads::{Reload, Reloads};
pub use shard_hosts::ShardHosts;
pub use space::{Space, UpTo};
pub use views::{ExportView, ExportViews, ViewError};
pub use workspaces::{BoundWorkspaces, WorkspaceLookup};

/// The page that a registry shows.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

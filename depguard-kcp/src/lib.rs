//! depguard's way to kcp and Kubernetes: one shared connection stack with cheap handles, and watched state.
#![cfg_attr(not(test), deny(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, clippy::panic))]

mod address;
mod api;
mod connection;
mod endpoint;
mod mirror;
mod slices;
mod stack;
mod workspaces;

pub use address::UrlError;
pub use api::{ApiError, List, Preconditions, Status};
pub use connection::{ConnectError, ConnectOptions, Connection};
pub use endpoint::{Endpoint, MAX_BODY, RequestError};
pub use mirror::{
    Failure, Mirror, MirrorOptions, MirrorState, Mirrored, MirroredObject, ObjectKey, Readiness, Watched,
};
pub use workspaces::{BoundWorkspaces, WorkspaceLookup};

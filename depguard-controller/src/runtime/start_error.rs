//! Reasons for which a controller does not start.

use std::net::SocketAddr;

use depguard_kcp::{ConnectError, NoExports, NotInKcp, PathKeyError};

use crate::model::webhook_target::WebhookTargetError;
use crate::runtime::ca_bundle::CaBundleError;

/// Reason why a controller does not start.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StartError {
    /// API servers could not call the webhook.
    #[error(transparent)]
    Webhook(#[from] WebhookTargetError),
    /// This control plane has no such way to read dependents.
    #[error(transparent)]
    ReadThrough(#[from] NoExports),
    /// A feature that is to be switched on does not exist on this control plane.
    #[error(transparent)]
    Features(#[from] NotInKcp),
    /// The CA bundle can't be used.
    #[error(transparent)]
    CaBundle(#[from] CaBundleError),
    /// The path key can't be used.
    #[error(transparent)]
    PathKey(#[from] PathKeyError),
    /// The API server can't be reached as configured.
    #[error(transparent)]
    Connect(#[from] ConnectError),
    /// Probes or metrics can't be served at this address.
    #[error("cannot listen on {address}: {why}; choose another address with --{flag}")]
    Listen {
        /// Address that was given.
        address: SocketAddr,
        /// Flag of the binary that sets the address.
        flag: &'static str,
        /// Error of the operating system.
        #[source]
        why: std::io::Error,
    },
}

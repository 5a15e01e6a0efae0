//! TLS, servers and connections.

pub(crate) mod listener;
pub(crate) mod pool;
pub(crate) mod ports;
pub(crate) mod tls;
pub(crate) mod webhook_server;

/// Reason why a testbed could not be started.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StartError {
    /// The port can't be listened on.
    #[error("cannot listen on 127.0.0.1:{port}: choose another port, or 0 for any free one")]
    Listen {
        /// Requested port.
        port: u16,
        /// Error of the operating system.
        source: std::io::Error,
    },
    /// The certificate authority can't be made.
    #[error("cannot make a certificate")]
    Certificate(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// The certificates can't be served.
    #[error("cannot set up tls")]
    Tls(#[from] rustls::Error),
}

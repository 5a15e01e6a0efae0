//! Webhook of this provider: depguard's core decides which deletions must wait for others.
//!
//! A deletion comes to the server as a review. The judge lets the core decide it, with the objects on the platform
//! cluster. The configuration makes the API server ask. If anything fails on the way, the API server refuses the
//! deletion.

mod certificate;
mod configuration;
mod review;
mod rules;
mod server;

use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;

use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use tracing::info;

use crate::platform::Platform;
use crate::{Error, Result};

use certificate::Certificate;
pub use configuration::{remove, webhook_name};
use review::Judge;

/// Options of the webhook.
#[derive(Debug, Clone)]
pub struct Options {
    /// Address to listen at.
    pub listen: SocketAddr,
    /// URL by which the platform cluster's API server reaches the webhook; `None` for `https://<listen address>`.
    pub url: Option<String>,
    /// Folder with `tls.crt` and `tls.key`; `None` for a certificate that is made at the start.
    pub certificate: Option<PathBuf>,
    /// Users who may delete an object that is still in use, if the object itself says so. openMCP's scheduler deletes a
    /// Cluster while the last request for it still exists, and tries only once.
    pub overrides: Vec<String>,
}

impl Default for Options {
    fn default() -> Self {
        Self { listen: (Ipv4Addr::LOCALHOST, 0).into(), url: None, certificate: None, overrides: Vec::new() }
    }
}

/// Serves the webhook and installs its configuration, until it is told to stop.
///
/// The configuration stays, so deletions are refused until the provider is back. See [`remove`].
pub async fn run(platform: Arc<Platform>, options: Options, stop: CancellationToken) -> Result<()> {
    let rules = rules::built_in()?;
    let cannot_listen = |why| Error::Refused(format!("the webhook cannot listen on {}: {why}", options.listen));
    let listener = TcpListener::bind(options.listen).await.map_err(cannot_listen)?;
    let address = listener.local_addr().map_err(cannot_listen)?;
    let url = match options.url {
        Some(url) => url,
        None if !address.ip().is_unspecified() => format!("https://{address}"),
        None => {
            let why = format!("the webhook listens on {address}, which is not an address that API servers can call");
            return Err(Error::Refused(format!("{why}: set `--webhook-url https://<address for API servers>`")));
        }
    };
    let certificate = match options.certificate {
        Some(folder) => Certificate::read(&folder)?,
        None => Certificate::make(&url)?,
    };
    let judge = Judge::new(rules, options.overrides, platform.client());
    let tls = certificate.server()?;
    let served = server::serve(listener, tls, judge, stop.clone());
    let installed = async {
        configuration::install(&platform, &url, &certificate.authority).await?;
        info!("the webhook reviews deletions at {url}");
        Ok(())
    };
    let (installed, ()) = tokio::join!(async { installed.await.inspect_err(|_| stop.cancel()) }, served);
    installed
}

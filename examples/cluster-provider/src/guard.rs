//! This provider's own webhook: depguard's core decides which deletions wait for others.
//!
//! A deletion comes as a review to the server, the judge has the core decide it by what stands on the
//! platform cluster, and the configuration tells the API server to ask. Whatever goes wrong on the way, the API
//! server refuses the deletion.

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

/// How the webhook is served and reached.
#[derive(Debug, Clone)]
pub struct Options {
    /// Where to listen.
    pub listen: SocketAddr,
    /// Where the platform cluster's API server reaches it; `None`: `https://<where it listens>`.
    pub url: Option<String>,
    /// The folder with `tls.crt` and `tls.key`; `None`: a certificate made for the occasion.
    pub certificate: Option<PathBuf>,
    /// Users who may delete what is still in use, where the object itself says so: openMCP's scheduler deletes a Cluster
    /// while the last request for it is still there, and only once.
    pub overrides: Vec<String>,
}

impl Default for Options {
    fn default() -> Self {
        Self { listen: (Ipv4Addr::LOCALHOST, 0).into(), url: None, certificate: None, overrides: Vec::new() }
    }
}

/// Serves the webhook and installs its configuration, until told to stop.
///
/// The configuration stays then: deletions are refused until the provider is back. See [`remove`].
pub async fn run(platform: Arc<Platform>, options: Options, stop: CancellationToken) -> Result<()> {
    let rules = rules::built_in()?;
    let cannot_listen = |why| Error::Refused(format!("the webhook cannot listen at {}: {why}", options.listen));
    let listener = TcpListener::bind(options.listen).await.map_err(cannot_listen)?;
    let address = listener.local_addr().map_err(cannot_listen)?;
    let url = match options.url {
        Some(url) => url,
        None if !address.ip().is_unspecified() => format!("https://{address}"),
        None => {
            let why = format!("the webhook listens at {address}, where nobody can call it by that address");
            return Err(Error::Refused(format!("{why}: say `--webhook-url https://<where it is reached>`")));
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
        info!("deletions are reviewed at {url}");
        Ok(())
    };
    let (installed, ()) = tokio::join!(async { installed.await.inspect_err(|_| stop.cancel()) }, served);
    installed
}

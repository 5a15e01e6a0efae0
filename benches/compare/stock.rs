//! depguard's webhook, as the stock binary starts it.

use std::path::PathBuf;
use std::time::Duration;

use depguard_webhook::{Config, StartError, Webhook};

/// Settings with which a webhook is started.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    #[arg(long)]
    pub(crate) kubeconfig: PathBuf,
    /// Holds `tls.crt` and `tls.key`.
    #[arg(long)]
    pub(crate) certificates: PathBuf,
    #[arg(long)]
    pub(crate) port: u16,
}

pub(crate) async fn start(arguments: Arguments) -> Result<Webhook, StartError> {
    Webhook::start(
        Config::default()
            .kubeconfig(Some(arguments.kubeconfig))
            .review_addr(([127, 0, 0, 1], arguments.port).into())
            .probe_addr(None)
            .metrics_addr(None)
            .tls_cert_dir(arguments.certificates)
            .shutdown_delay(Duration::ZERO),
    )
    .await
}

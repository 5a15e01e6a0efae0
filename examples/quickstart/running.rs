//! depguard in this process: the webhook and the controller of the stock binaries, with a certificate for 127.0.0.1.

use std::path::Path;
use std::time::Duration;

use depguard_controller::{Controller, WebhookTarget};
use depguard_core::{ControlPlane, ExportName};
use depguard_kcp::Features;
use depguard_webhook::Webhook;

use crate::Result;

/// Running webhook and controller.
pub(crate) struct Running {
    webhook: Webhook,
    controller: Controller,
}

impl Running {
    /// Starts both with these features beside rules. The folder holds their certificate and key.
    pub(crate) async fn start(
        folder: &Path,
        control_plane: ControlPlane,
        kubeconfig: &Path,
        enable: Features,
    ) -> Result<Self> {
        let certificate = rcgen::generate_simple_self_signed(["127.0.0.1".to_owned()])?;
        let path = |file| folder.join(file);
        std::fs::write(path("tls.crt"), certificate.cert.pem())?;
        std::fs::write(path("tls.key"), certificate.signing_key.serialize_pem())?;

        let webhook = Webhook::start(
            depguard_webhook::Config::default()
                .control_plane(control_plane)
                .kubeconfig(Some(kubeconfig.to_owned()))
                .review_addr(([127, 0, 0, 1], 0).into())
                .probe_addr(None)
                .metrics_addr(None)
                .tls_cert_dir(folder.to_owned())
                .shutdown_delay(Duration::ZERO)
                .enable(enable.clone()),
        )
        .await?;
        let url = format!("https://{}/validate", webhook.review_addr());
        println!("the webhook listens on {url}");
        let export_name = ExportName::parse("dependencies.opendefense.cloud")?;
        let controller = Controller::start(
            depguard_controller::Config::new(control_plane, export_name, WebhookTarget::Url(url))
                // The Lease shows that the controller runs. In kcp it would be in the cluster of the pods.
                .leader_elect(control_plane == ControlPlane::Kubernetes)
                .kubeconfig(Some(kubeconfig.to_owned()))
                .probe_addr(None)
                .metrics_addr(None)
                .ca_bundle_path(Some(path("tls.crt")))
                .enable(enable),
        )
        .await?;
        Ok(Self { webhook, controller })
    }

    pub(crate) async fn stop(self) {
        self.controller.stop().await;
        self.webhook.stop().await;
    }
}

//! depguard itself, in this process, so that a scenario can end and start its parts.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use depguard_controller::{Controller, Uninstall, WebhookTarget, manifests};
use depguard_core::{ExportName, Home};
use depguard_kcp::Features;
use depguard_webhook::{ReadThrough, Webhook};
use tempfile::TempDir;

use crate::certificate::Authority;
use crate::outcome::Outcome;
use crate::ring::free_port;
use crate::world::{Resource, World};

/// depguard's controller and webhook for one world. In a control it is an empty shell.
pub struct Depguard {
    world: Arc<World>,
    folder: TempDir,
    authority: Authority,
    port: u16,
    /// After how long the controller looks at everything again.
    resync: Duration,
    is_elected: bool,
    enable: Features,
    controller: Option<Controller>,
    webhook: Option<Webhook>,
}

impl Depguard {
    /// Starts both, the controller first: deletions are refused from then on.
    pub async fn start(world: &Arc<World>) -> Outcome<Depguard> {
        let mut depguard = Depguard::prepare(world).await?;
        depguard.start_controller().await?;
        depguard.start_webhook().await?;
        Ok(depguard)
    }

    /// Makes what both need, and starts none.
    pub async fn prepare(world: &Arc<World>) -> Outcome<Depguard> {
        let folder = tempfile::tempdir()?;
        let authority = Authority::new("depguard e2e webhook")?;
        authority.issue(folder.path())?;
        world.write_kubeconfigs(folder.path()).await?;
        std::fs::write(folder.path().join("path-key"), "a key that only these tests know, and long enough")?;
        let (enable, world, port) = (world.features(), Arc::clone(world), free_port()?);
        let resync = Duration::from_secs(60);
        let (is_elected, controller, webhook) = (false, None, None);
        Ok(Depguard { world, folder, authority, port, resync, is_elected, enable, controller, webhook })
    }

    /// Starts the controller.
    pub async fn start_controller(&mut self) -> Outcome {
        if self.world.is_control() {
            return Ok(());
        }
        let webhook = WebhookTarget::Url(self.url());
        let exports = self.world.ring().kind().reads_through_exports();
        let config = depguard_controller::Config::new(self.home(), export_name()?, webhook)
            .read_through(if exports { manifests::ReadThrough::Export } else { manifests::ReadThrough::FrontProxy })
            .kubeconfig(Some(self.file("controller.kubeconfig")))
            .probe_addr(None)
            .metrics_addr(Some((Ipv4Addr::LOCALHOST, 0).into()))
            .ca_bundle_path(Some(self.file("ca.crt")))
            .path_key(Some(self.file("path-key")))
            .resync(self.resync)
            .enable(self.enable.clone())
            .vital_lock_kinds(["serviceaccounts/token".parse()?].into())
            // As long as a lock may be on its way between its review and where it is stored.
            .lock_clean_after(Duration::from_secs(2))
            .leader_elect(self.is_elected);
        self.controller = Some(Controller::start(config).await?);
        Ok(())
    }

    /// Has the controller act only while it is elected, from its next start on.
    pub fn elect(&mut self) {
        self.is_elected = true;
    }

    /// Has the older tool's locks guard these kinds, from the next start of both on.
    pub fn guard_compat_locks(&mut self, kinds: &[&Resource]) -> Outcome {
        for kind in kinds {
            self.enable.compat_lock_kinds.insert(format!("{}.{}", kind.plural, kind.group).parse()?);
        }
        Ok(())
    }

    /// Has the controller look at everything so often, from its next start on.
    pub fn look_again_after(&mut self, resync: Duration) {
        self.resync = resync;
    }

    /// Stops the controller; what it installed stays.
    pub async fn stop_controller(&mut self) {
        if let Some(controller) = self.controller.take() {
            controller.stop().await;
        }
    }

    /// Starts the webhook. It answers when this returns, though it may have no rules yet.
    pub async fn start_webhook(&mut self) -> Outcome {
        if self.world.is_control() {
            return Ok(());
        }
        let exports = self.world.ring().kind().reads_through_exports();
        let config = depguard_webhook::Config::default()
            .home(self.home())
            .read_through(if exports { ReadThrough::Export } else { ReadThrough::FrontProxy })
            .export_name(export_name()?)
            .kubeconfig(Some(self.file("webhook.kubeconfig")))
            .review_addr(SocketAddr::from((Ipv4Addr::LOCALHOST, self.port)))
            .probe_addr(None)
            .metrics_addr(Some((Ipv4Addr::LOCALHOST, 0).into()))
            .tls_cert_dir(self.folder.path().to_owned())
            .path_key(Some(self.file("path-key")))
            .enable(self.enable.clone());
        self.webhook = Some(Webhook::start(config).await?);
        Ok(())
    }

    /// Ends the webhook in the middle of whatever it does.
    pub fn kill_webhook(&mut self) {
        if let Some(webhook) = self.webhook.take() {
            webhook.kill();
        }
    }

    /// Uninstalls, as the controller's subcommand does with the controller's rights.
    pub async fn uninstall(&self) -> Outcome {
        if self.world.is_control() {
            return Ok(());
        }
        let what = Uninstall::new(self.home(), export_name()?);
        depguard_controller::uninstall(what.kubeconfig(Some(self.file("controller.kubeconfig")))).await?;
        Ok(())
    }

    /// Gives the webhook another certificate authority and another URL, for the next start.
    pub fn move_webhook(&mut self) -> Outcome {
        self.authority = Authority::new("another depguard e2e webhook")?;
        self.authority.issue(self.folder.path())?;
        self.port = free_port()?;
        Ok(())
    }

    /// Gives the webhook a certificate of an authority that the controller does not know, for the next start.
    pub fn renew_certificate_alone(&self) -> Outcome {
        Authority::new("an unknown authority")?.issue(self.folder.path())?;
        Ok(std::fs::write(self.file("ca.crt"), self.authority.pem())?)
    }

    /// Where the metrics of the webhook and of the controller are read, of those that run.
    pub fn metrics(&self) -> [Option<SocketAddr>; 2] {
        let (webhook, controller) = (self.webhook.as_ref(), self.controller.as_ref());
        [webhook.and_then(Webhook::metrics_addr), controller.and_then(Controller::metrics_addr)]
    }

    /// Where the webhook is called; each place is told a path below that only it has.
    pub fn url(&self) -> String {
        format!("https://127.0.0.1:{}/validate", self.port)
    }

    /// The port of [`Depguard::url`].
    pub fn port(&self) -> u16 {
        self.port
    }

    /// A file that both may need: `tls.crt`, `tls.key`, `ca.crt` and `path-key` are there, `controller.kubeconfig` and
    /// `webhook.kubeconfig` of their accounts, and `kubeconfig` of the administrator.
    pub fn file(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn home(&self) -> Home {
        if self.world.is_kcp() { Home::Kcp } else { Home::Kubernetes }
    }
}

fn export_name() -> Outcome<ExportName> {
    Ok(ExportName::parse("dependencies.opendefense.cloud")?)
}

//! depguard itself, run in this process, so that a scenario can stop and start its parts.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use depguard_controller::{Controller, Uninstall, Uninstalled, WebhookTarget, manifests};
use depguard_core::{ControlPlane, ExportName};
use depguard_kcp::{Features, PathPeriod};
use depguard_testbed::lasting_port;
use depguard_webhook::{ReadThrough, Webhook};
use tempfile::TempDir;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::certificate::Authority;
use crate::outcome::{Outcome, Stop};
use crate::world::{Resource, World};

/// Time for which marks are kept, unless a scenario sets another. No request of a scenario lasts as long, and none waits
/// for an API server that stands still.
const INTERLOCK_WAIT: Duration = Duration::from_secs(5);

/// depguard's controller and webhook for one world. In a control (a run without depguard) neither starts.
pub struct Depguard {
    world: Arc<World>,
    folder: TempDir,
    authority: Authority,
    port: u16,
    /// Interval after which the controller reconciles everything again.
    resync: Duration,
    is_elected: bool,
    /// Time for which marks in reference registers are kept.
    interlock_wait: Duration,
    /// Time for which one key signs paths with a generation of registers.
    path_period: Duration,
    enable: Features,
    /// The hosts of shards that the webhook is given.
    shard_hosts: Vec<String>,
    controller: Option<Controller>,
    webhook: Option<Webhook>,
}

impl Depguard {
    /// Starts the controller, then the webhook. Deletions are refused as soon as this returns.
    pub async fn start(world: &Arc<World>) -> Outcome<Depguard> {
        let mut depguard = Depguard::prepare(world).await?;
        depguard.start_controller().await?;
        depguard.start_webhook().await?;
        Ok(depguard)
    }

    /// Prepares the files and settings of the controller and the webhook, and starts neither.
    pub async fn prepare(world: &Arc<World>) -> Outcome<Depguard> {
        let folder = tempfile::tempdir()?;
        let authority = Authority::new("depguard e2e webhook")?;
        authority.issue(folder.path())?;
        world.write_kubeconfigs(folder.path()).await?;
        std::fs::write(folder.path().join("path-key"), "a key that only these tests know, and long enough")?;
        let (enable, world, port) = (world.features(), Arc::clone(world), lasting_port(Ipv4Addr::LOCALHOST)?);
        let resync = Duration::from_secs(60);
        let shard_hosts = world.ring().shards().iter().map(|shard| shard.host().to_owned()).collect();
        Ok(Depguard {
            world,
            folder,
            authority,
            port,
            resync,
            is_elected: false,
            interlock_wait: INTERLOCK_WAIT,
            path_period: PathPeriod::LENGTH,
            enable,
            shard_hosts,
            controller: None,
            webhook: None,
        })
    }

    /// Starts the controller.
    pub async fn start_controller(&mut self) -> Outcome {
        if self.world.is_control() {
            return Ok(());
        }
        let webhook = WebhookTarget::Url(self.url());
        let exports = self.world.ring().kind().reads_through_exports();
        let config = depguard_controller::Config::new(self.control_plane(), export_name()?, webhook)
            .read_through(if exports { manifests::ReadThrough::Export } else { manifests::ReadThrough::FrontProxy })
            .kubeconfig(Some(self.file("controller.kubeconfig")))
            .probe_addr(None)
            .metrics_addr(Some((Ipv4Addr::LOCALHOST, 0).into()))
            .ca_bundle_path(Some(self.file("ca.crt")))
            .path_key(Some(self.file("path-key")))
            .path_period(self.path_period)
            .resync(self.resync)
            .enable(self.enable.clone())
            .vital_lock_kinds(["serviceaccounts/token".parse()?, "events".parse()?].into())
            // Time that a lock may take from its review until the API server has stored the lock.
            .lock_clean_after(Duration::from_secs(2))
            .interlock_wait(self.interlock_wait)
            .webhook_patience(Duration::ZERO)
            .leader_elect(self.is_elected);
        self.controller = Some(Controller::start(config).await?);
        Ok(())
    }

    /// Sets that the controller acts only while it is elected, from its next start on.
    pub fn elect(&mut self) {
        self.is_elected = true;
    }

    /// Sets the kinds that the older tool's locks guard, from the next start of the controller and of the webhook on.
    pub fn guard_compat_locks(&mut self, kinds: &[&Resource]) -> Outcome {
        for kind in kinds {
            let of_group = if kind.group.is_empty() { String::new() } else { format!(".{}", kind.group) };
            self.enable.compat_lock_kinds.insert(format!("{}{of_group}", kind.plural).parse()?);
        }
        Ok(())
    }

    /// Sets the time for which marks are kept, from the next start of the controller on.
    pub fn keep_marks_for(&mut self, wait: Duration) {
        self.interlock_wait = wait;
    }

    /// Sets the time for which one key signs paths, from the next start of the controller and of the webhook on.
    pub fn sign_paths_for(&mut self, period: Duration) {
        self.path_period = period;
    }

    /// Switches the interlock off, from the next start of the controller and of the webhook on.
    pub fn without_interlock(&mut self) {
        self.enable.registers = None;
    }

    /// Gives the webhook registers if it has none, and takes them away if it has, from its next start on.
    pub fn switch_webhook_registers(&mut self) {
        self.enable.registers = self.world.features().registers.xor(self.enable.registers);
    }

    /// Gives the webhook the hosts of all shards if `named`, else none, from its next start on.
    pub fn name_shard_hosts(&mut self, named: bool) {
        let shards = self.world.ring().shards().iter().filter(|_| named);
        self.shard_hosts = shards.map(|shard| shard.host().to_owned()).collect();
    }

    /// Returns the hosts of shards that the webhook is given.
    pub fn shard_hosts(&self) -> &[String] {
        &self.shard_hosts
    }

    /// Sets the interval after which the controller reconciles everything again, from its next start on.
    pub fn look_again_after(&mut self, resync: Duration) {
        self.resync = resync;
    }

    /// Stops the controller; what it installed stays.
    pub async fn stop_controller(&mut self) {
        if let Some(controller) = self.controller.take() {
            controller.stop().await;
        }
    }

    /// Kills the controller in the middle of whatever it does.
    pub fn kill_controller(&mut self) {
        if let Some(controller) = self.controller.take() {
            controller.kill();
        }
    }

    /// Starts the webhook. The webhook answers when this returns, but may have no rules yet.
    pub async fn start_webhook(&mut self) -> Outcome {
        if self.world.is_control() {
            return Ok(());
        }
        let exports = self.world.ring().kind().reads_through_exports();
        let config = depguard_webhook::Config::default()
            .control_plane(self.control_plane())
            .read_through(if exports { ReadThrough::Export } else { ReadThrough::FrontProxy })
            .export_name(export_name()?)
            .kubeconfig(Some(self.file("webhook.kubeconfig")))
            .review_addr(SocketAddr::from((Ipv4Addr::LOCALHOST, self.port)))
            .probe_addr(None)
            .metrics_addr(Some((Ipv4Addr::LOCALHOST, 0).into()))
            .tls_cert_dir(self.folder.path().to_owned())
            .path_key(Some(self.file("path-key")))
            .path_period(self.path_period)
            .shard_hosts(self.shard_hosts.clone())
            .enable(self.enable.clone());
        self.webhook = Some(Webhook::start(config).await?);
        Ok(())
    }

    /// Kills the webhook without letting it finish anything.
    pub fn kill_webhook(&mut self) {
        if let Some(webhook) = self.webhook.take() {
            webhook.kill();
        }
    }

    /// Uninstalls depguard as the controller's subcommand does, with the controller's rights.
    pub async fn uninstall(&self) -> Outcome<Uninstalled> {
        if self.world.is_control() {
            return Ok(Uninstalled::default());
        }
        let what = Uninstall::new(self.control_plane(), export_name()?);
        Ok(depguard_controller::uninstall(what.kubeconfig(Some(self.file("controller.kubeconfig")))).await?)
    }

    /// Gives the webhook another certificate authority and another URL, from its next start on.
    pub fn move_webhook(&mut self) -> Outcome {
        self.authority = Authority::new("another depguard e2e webhook")?;
        self.authority.issue(self.folder.path())?;
        self.port = lasting_port(Ipv4Addr::LOCALHOST)?;
        Ok(())
    }

    /// Gives the webhook a certificate of an authority that the controller does not know, from the webhook's next start
    /// on.
    pub fn renew_certificate_alone(&self) -> Outcome {
        Authority::new("an unknown authority")?.issue(self.folder.path())?;
        Ok(std::fs::write(self.file("ca.crt"), self.authority.pem())?)
    }

    /// Returns the addresses of the metrics of the webhook and of the controller; `None` for one that does not run.
    pub fn metrics(&self) -> [Option<SocketAddr>; 2] {
        let (webhook, controller) = (self.webhook.as_ref(), self.controller.as_ref());
        [webhook.and_then(Webhook::metrics_addr), controller.and_then(Controller::metrics_addr)]
    }

    /// Returns the base URL of the webhook. Each workspace or cluster calls the webhook at a path of its own below this
    /// URL.
    pub fn url(&self) -> String {
        format!("https://127.0.0.1:{}/validate", self.port)
    }

    /// Returns the port of [`Depguard::url`].
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Returns the path of a file in depguard's folder: `tls.crt`, `tls.key`, `ca.crt`, `path-key`, the accounts'
    /// `controller.kubeconfig` and `webhook.kubeconfig`, and the administrator's `kubeconfig`.
    pub fn file(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn control_plane(&self) -> ControlPlane {
        if self.world.is_kcp() { ControlPlane::Kcp } else { ControlPlane::Kubernetes }
    }
}

/// Reads the page at an address of [`Depguard::metrics`].
pub async fn metrics_page(address: Option<SocketAddr>) -> Outcome<String> {
    page_at(address.ok_or_else(|| Stop::failed("it does not run"))?, "/metrics").await
}

/// Reads the answer of a plain HTTP server to a GET of this path, with its head.
pub async fn page_at(address: SocketAddr, path: &str) -> Outcome<String> {
    let mut stream = TcpStream::connect(address).await?;
    let request = format!("GET {path} HTTP/1.1\r\nhost: depguard\r\nconnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await?;
    Ok(answer)
}

fn export_name() -> Outcome<ExportName> {
    Ok(ExportName::parse("dependencies.opendefense.cloud")?)
}

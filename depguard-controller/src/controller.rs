//! The controller as a whole: it starts, it runs until it is stopped.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use depguard_kcp::{
    ConnectError, ConnectOptions, Connection, Health, Metrics as Page, Mirror, MirrorOptions, MirrorState, NoExports,
    PathKey, PathKeyError, Probes, REREAD, WorkspaceLookups, watch_ages,
};
use tokio::sync::{oneshot, watch};
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep, sleep_until};

use crate::ca_bundle::{self, CaBundleError};
use crate::config::Config;
use crate::gate::{Gate, Permit};
use crate::metrics::Metrics;
use crate::observe;
use crate::prober::prober;
use crate::reconcile::{Failures, Reconciler};
use crate::sight::Sight;
use crate::webhook_target::WebhookTargetError;

/// How long to wait for more changes after one.
const DEBOUNCE: Duration = Duration::from_millis(200);
/// The longest time between two looks at everything.
const LONGEST_RESYNC: Duration = Duration::from_secs(3600);

/// A running controller. Dropping it without [`Controller::stop`] lets it run on.
#[derive(Debug)]
pub struct Controller {
    probe_addr: Option<SocketAddr>,
    stop: oneshot::Sender<()>,
    task: JoinHandle<()>,
    metrics_addr: Option<SocketAddr>,
    servers: Vec<JoinHandle<()>>,
}

/// Why a controller does not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// API servers could not call the webhook.
    #[error(transparent)]
    Webhook(#[from] WebhookTargetError),
    /// There is no such way to read dependents.
    #[error(transparent)]
    ReadThrough(#[from] NoExports),
    /// The CA bundle can't be used.
    #[error(transparent)]
    CaBundle(#[from] CaBundleError),
    /// The path key can't be used.
    #[error(transparent)]
    PathKey(#[from] PathKeyError),
    /// The API server can't be reached as said.
    #[error(transparent)]
    Connect(#[from] ConnectError),
    /// Probes or metrics can't be served there.
    #[error("cannot serve {what} on {address}: {why}")]
    Listen {
        /// What.
        what: &'static str,
        /// Where.
        address: SocketAddr,
        /// Why not.
        why: std::io::Error,
    },
}

impl Controller {
    /// Checks the configuration and begins. What the API server has to say shows in the rules' status, in the log and
    /// in `/readyz`.
    pub async fn start(config: Config) -> Result<Self, StartError> {
        config.webhook.check(config.home)?;
        config.read_through.check(config.home)?;
        let metrics = Metrics::default();
        let ca_bundle = match config.ca_bundle_path {
            Some(path) => Some(ca_bundle::open(path, metrics.reload("ca-bundle")).await?),
            None => None,
        };
        let path_key = match config.path_key {
            Some(path) => Some(PathKey::open(path, metrics.reload("path-key")).await?),
            None => None,
        };
        let connection = Connection::open(&ConnectOptions {
            kubeconfig: config.kubeconfig,
            context: None,
            base_host: config.base_host,
            home: config.home,
        })
        .await?;
        let (ready, readiness) = watch::channel(Health::NotReady("nothing was watched yet".to_owned()));
        let failed = |what, address| move |why| StartError::Listen { what, address, why };
        let probes = match config.probe_addr {
            Some(address) => Some(Probes::bind(address).await.map_err(failed("health probes", address))?),
            None => None,
        };
        let mut page = match config.metrics_addr {
            Some(address) => {
                let version = env!("CARGO_PKG_VERSION");
                let page = Page::bind(address, "controller", version).await;
                let (mut page, readiness) = (page.map_err(failed("metrics", address))?, readiness.clone());
                metrics.register(page.registry(), move || health(&readiness) == Health::Ready);
                Some(page)
            }
            None => None,
        };
        let (probe_addr, metrics_addr) = (probes.as_ref().map(Probes::address), page.as_ref().map(Page::address));
        let export_name = config.export_name.to_string();
        let (mirror, mirroring) = Mirror::start(
            connection.clone(),
            MirrorOptions {
                home: config.home,
                export_name: config.export_name,
                watched: observe::watched(config.home),
            },
        );
        if let Some(page) = &mut page {
            watch_ages(page.registry(), mirror.watches());
        }
        let probes = probes.map(|probes| tokio::spawn(probes.serve(move || health(&readiness))));
        let page = page.map(|page| tokio::spawn(page.serve()));
        let servers = probes.into_iter().chain(page).collect();
        let resync = config.resync.clamp(Duration::from_secs(1), LONGEST_RESYNC);
        let (prober, probing) = prober(resync);
        let elected_for = config.leader_elect.then_some(config.lease_duration);
        let (namespace, id) = (&config.leader_election_namespace, &config.leader_election_id);
        let (mut gate, permit) = Gate::new(&connection.home(), namespace, id, elected_for);
        let running = Running {
            reconciler: Reconciler {
                connection,
                home: config.home,
                read_through: config.read_through,
                export_name,
                target: config.webhook,
                ca_bundle,
                path_key,
                lookups: WorkspaceLookups::default(),
                sight: Sight::new(resync),
                failures: Failures::new(),
                probing,
                metrics,
                own_namespace: config.namespace,
                probe_address: config.webhook_probe_address,
                identity: config.webhook_client_cert_dir,
            },
            states: mirror.subscribe(),
            permit,
            resync,
            files_due: Instant::now() + REREAD,
            ready,
        };
        let (stop, stopped) = oneshot::channel();
        let task = tokio::spawn(async move {
            tokio::select! {
                // What is being written is broken off: the next start finds it and goes on.
                _ = stopped => {}
                () = running.run() => {}
                () = prober.run() => {}
                () = gate.run() => {}
            }
            drop(mirror);
            mirroring.abort();
            gate.leave().await;
        });
        Ok(Self { probe_addr, metrics_addr, stop, task, servers })
    }

    /// Where `/healthz` and `/readyz` are served.
    pub fn probe_addr(&self) -> Option<SocketAddr> {
        self.probe_addr
    }

    /// Where `/metrics` is served.
    pub fn metrics_addr(&self) -> Option<SocketAddr> {
        self.metrics_addr
    }

    /// Ends at once, in the middle of whatever is under way.
    pub fn kill(self) {
        self.task.abort();
        self.servers.iter().for_each(JoinHandle::abort);
    }

    /// Stops. What is installed stays installed.
    pub async fn stop(self) {
        drop(self.stop);
        // It can't be cancelled by anybody else, and a panic has been reported by the runtime.
        let _ = self.task.await;
        for server in self.servers {
            server.abort();
            let _ = server.await;
        }
    }
}

/// What the rounds said last, or that there will be no more: whatever ended them, a panic too, takes the sender along.
fn health(readiness: &watch::Receiver<Health>) -> Health {
    if readiness.has_changed().is_err() { Health::Dead } else { readiness.borrow().clone() }
}

struct Running {
    reconciler: Reconciler,
    states: watch::Receiver<Arc<MirrorState>>,
    permit: watch::Receiver<Permit>,
    resync: Duration,
    files_due: Instant,
    ready: watch::Sender<Health>,
}

impl Running {
    /// A round whenever something changed, failed things are due, or the time has come. Never before everything that
    /// decides what is installed has been loaded, nor while it can't be followed: another controller that sees a newer
    /// rule may have installed what this one would take away. Nor while another one is to write, or nobody: a round that
    /// is under way then is broken off.
    async fn run(mut self) {
        loop {
            let state = self.states.borrow_and_update().clone();
            let permit = self.permit.borrow_and_update().clone();
            self.reconciler.metrics.leads(permit == Permit::Granted);
            match (state.unseen(), permit) {
                (Some(why), _) => _ = self.ready.send_replace(Health::NotReady(why.to_owned())),
                (None, Permit::Granted) => {
                    let revoked = async { self.permit.wait_for(|permit| *permit != Permit::Granted).await.map(drop) };
                    tokio::select! {
                        biased;
                        _ = revoked => tracing::warn!("not to write any more: what was under way is broken off"),
                        () = self.reconciler.round(&state) => { self.ready.send_replace(Health::Ready); }
                    }
                }
                (None, Permit::StandingBy(why)) => {
                    tracing::debug!("standing by: {why}");
                    self.reconciler.probing.rest();
                    self.ready.send_replace(Health::Ready);
                }
                (None, Permit::Withheld(why)) => {
                    tracing::warn!("nothing is written: {why}");
                    self.reconciler.probing.rest();
                    self.ready.send_replace(Health::NotReady(why));
                }
            }
            drop(state);
            if !self.wait().await {
                return;
            }
        }
    }

    /// Waits for a reason for another round. `false`: there can't be one any more.
    async fn wait(&mut self) -> bool {
        let resync = Instant::now() + self.resync;
        let due = self.reconciler.next_retry().map_or(resync, |retry| retry.min(resync));
        loop {
            // Also where there is always another reason.
            if self.files_due <= Instant::now() {
                self.files_due = Instant::now() + REREAD;
                if self.reconciler.refresh_files().await {
                    return true;
                }
            }
            tokio::select! {
                changed = self.states.changed() => {
                    sleep(DEBOUNCE).await;
                    return changed.is_ok();
                }
                changed = self.permit.changed() => return changed.is_ok(),
                () = sleep_until(due) => return true,
                () = self.reconciler.probing.news() => return true,
                () = sleep_until(self.files_due) => {}
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use depguard_core::{ExportName, Home};
    use depguard_kcp::ReadThrough;

    #[tokio::test]
    async fn without_exports_nothing_is_read_through_them() {
        let export_name = ExportName::parse("a").unwrap();
        let config = Config {
            read_through: ReadThrough::Export,
            ..Config::new(Home::Kubernetes, export_name, "hooks/depguard".parse().unwrap())
        };
        let error = Controller::start(config).await.unwrap_err().to_string();
        assert!(error.contains("leave it out with --home kubernetes"), "{error}");
    }

    #[tokio::test]
    async fn rounds_that_have_panicked_are_dead_though_they_were_ready() {
        let (ready, readiness) = watch::channel(Health::NotReady(String::new()));
        ready.send_replace(Health::Ready);
        assert_eq!(health(&readiness), Health::Ready);
        let panicking = tokio::spawn(async move {
            let _ready = ready;
            panic!("as the test wants it");
        });
        assert!(panicking.await.is_err());
        assert_eq!(health(&readiness), Health::Dead);
    }
}

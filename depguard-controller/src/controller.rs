//! The controller as a whole: it starts, it runs until it is stopped.

use std::future::pending;
use std::net::SocketAddr;
use std::time::Duration;

use depguard_kcp::{
    ConnectError, ConnectOptions, Connection, Derived, Health, Mirror, MirrorOptions, NoExports, NotInKcp,
    PathKeyError, WorkspaceLookups,
};
use futures::future::OptionFuture;
use tokio::sync::{oneshot, watch};
use tokio::task::JoinHandle;

use crate::ca_bundle::CaBundleError;
use crate::clients::Following;
use crate::config::Config;
use crate::gate::Gate;
use crate::leftovers;
use crate::locks::Locks;
use crate::metrics::Metrics;
use crate::observe;
use crate::owners::Owners;
use crate::prober::prober;
use crate::reconcile::{Failures, Reconciler};
use crate::rounds::Basis;
use crate::runner::Rules;
use crate::serving::Serving;
use crate::sight::Sight;
use crate::webhook_target::WebhookTargetError;

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
#[non_exhaustive]
pub enum StartError {
    /// API servers could not call the webhook.
    #[error(transparent)]
    Webhook(#[from] WebhookTargetError),
    /// There is no such way to read dependents.
    #[error(transparent)]
    ReadThrough(#[from] NoExports),
    /// What is to be switched on does not exist here.
    #[error(transparent)]
    Features(#[from] NotInKcp),
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
    #[error("cannot listen on {address}: {why}; choose another by --{flag}")]
    Listen {
        /// Where.
        address: SocketAddr,
        /// The binary's flag that says it.
        flag: &'static str,
        /// Why not.
        #[source]
        why: std::io::Error,
    },
}

impl Controller {
    /// Checks the configuration and begins. What the API server has to say shows in the rules' status, in the log and
    /// in `/readyz`.
    pub async fn start(config: Config) -> Result<Self, StartError> {
        config.webhook.check(config.home)?;
        config.read_through.check(config.home)?;
        config.enable.check(config.home)?;
        let metrics = Metrics::default();
        let (following, clients) = Following::open(&config, &metrics).await?;
        let connection = Connection::open(
            &ConnectOptions::new(config.home).kubeconfig(config.kubeconfig.clone()).base_host(config.base_host.clone()),
        )
        .await?;
        let (ready, readiness) = watch::channel(Health::NotReady("nothing was watched yet".to_owned()));
        let serving = Serving::bind(&config, &metrics, readiness).await?;
        let (probe_addr, metrics_addr) = (serving.probe_addr(), serving.metrics_addr());
        let watched = observe::watched(config.home, &config.enable);
        let options = MirrorOptions {
            home: config.home,
            export_name: config.export_name.clone(),
            watched,
            allowance: config.allowance,
        };
        let (mirror, mirroring) = Mirror::start(connection.clone(), options);
        let servers = serving.start(&mirror);
        let elected_for = config.leader_elect.then_some(config.lease_duration);
        let (namespace, id) = (&config.leader_election_namespace, &config.leader_election_id);
        let (mut gate, permit) = Gate::new(&connection.home(), namespace, id, elected_for);
        let basis = Basis {
            connection,
            home: config.home,
            export_name: config.export_name,
            allowance: config.allowance,
            rules: mirror.subscribe(),
            clients,
            permit,
            resync: config.resync.clamp(Duration::from_secs(1), LONGEST_RESYNC),
            deference: config.deference,
            metrics,
        };
        let (home, on) = (basis.connection.clone(), config.enable.clone());
        let leftovers = async move { leftovers::tell(&home, config.home, &on).await };
        let owners = config.enable.owners.then(|| Owners::new(basis.clone(), config.precreated_roles).run());
        let locks = (config.enable.locks || !config.enable.compat_lock_kinds.is_empty())
            .then(|| Locks::new(basis.clone(), config.enable, config.vital_lock_kinds, config.lock_clean_after).run());
        let (prober, probing) = prober(basis.resync);
        let reconciler = Reconciler {
            read_through: config.read_through,
            lookups: WorkspaceLookups::default(),
            sight: Sight::new(basis.resync),
            failures: Failures::new(config.deference),
            written: Derived::default(),
            probing,
            probe_address: config.webhook_probe_address,
            identity: config.webhook_client_cert_dir,
            basis,
        };
        let rules = Rules { reconciler, ready };
        let (stop, stopped) = oneshot::channel();
        let task = tokio::spawn(async move {
            tokio::select! {
                // What is being written is broken off: the next start finds it and goes on.
                _ = stopped => {}
                () = rules.run() => {}
                Some(()) = OptionFuture::from(locks) => {}
                Some(()) = OptionFuture::from(owners) => {}
                () = following.run() => {}
                () = async { leftovers.await; pending().await } => {}
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
}

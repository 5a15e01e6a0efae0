//! The whole controller, from its start until it is stopped.

use std::future::pending;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use depguard_core::ControlPlane;
use depguard_kcp::{ConnectOptions, Connection, Health, MemoryBudget, Reflector, ReflectorOptions, WorkspaceLookups};
use futures::future::OptionFuture;
use tokio::sync::{oneshot, watch};
use tokio::task::{JoinHandle, JoinSet};

use crate::config::Config;
use crate::interlock::RegisterUpkeep;
use crate::leader::write_permit::WritePermitSource;
use crate::locks::Locks;
use crate::model::names::NAMESPACE;
use crate::owners::Owners;
use crate::probe::prober::prober;
use crate::references::References;
use crate::rules::generation_change::GenerationChange;
use crate::rules::reconciler::{Failures, Reconciler};
use crate::rules::runner::RuleRunner;
use crate::rules::snapshot;
use crate::rules::status::SettledRules;
use crate::rules::written_rule::WrittenRules;
use crate::runtime::client_config::ClientConfigWatch;
use crate::runtime::health::Serving;
use crate::runtime::metrics::Metrics;
use crate::runtime::round::{ReconcileContext, run_rounds};
use crate::runtime::start_error::StartError;
use crate::schema::kind_reader::KindCache;
use crate::uninstall::stale_webhooks;

/// Maximum of [`Config::resync`].
const MAX_RESYNC: Duration = Duration::from_secs(3600);

/// Maximum pause between two probes if there is an interlock.
const INTERLOCK_PROBES: Duration = Duration::from_secs(10);

/// A running controller. Dropping it without [`Controller::stop`] lets it run on.
#[derive(Debug)]
pub struct Controller {
    probe_addr: Option<SocketAddr>,
    stop: oneshot::Sender<()>,
    task: JoinHandle<()>,
    metrics_addr: Option<SocketAddr>,
    servers: Vec<JoinHandle<()>>,
}

impl Controller {
    /// Checks the configuration and starts the controller. Later failures of the API server show in the rules' status,
    /// in the log and in `/readyz`.
    pub async fn start(config: Config) -> Result<Self, StartError> {
        config.webhook.check(config.control_plane)?;
        config.read_through.check(config.control_plane)?;
        config.enable.check(config.control_plane)?;
        let metrics = Metrics::default();
        let (following, clients) = ClientConfigWatch::open(&config, &metrics).await?;
        let connection = Connection::open(
            &ConnectOptions::new(config.control_plane)
                .kubeconfig(config.kubeconfig.clone())
                .base_host(config.base_host.clone()),
        )
        .await?;
        let (ready, readiness) = watch::channel(Health::NotReady("the watches have not begun yet".to_owned()));
        let serving = Serving::bind(&config, &metrics, readiness).await?;
        let (probe_addr, metrics_addr) = (serving.probe_addr(), serving.metrics_addr());
        let watched = snapshot::watched(config.control_plane, &config.enable);
        let options = ReflectorOptions {
            control_plane: config.control_plane,
            export_name: config.export_name.clone(),
            watched,
            allowance: config.allowance,
        };
        let (reflector, driver) = Reflector::start(connection.clone(), options);
        let servers = serving.start(&reflector);
        let elected_for = config.leader_elect.then_some(config.lease_duration);
        let (namespace, id) = (&config.leader_election_namespace, &config.leader_election_id);
        let (mut permit_source, permit) =
            WritePermitSource::new(&connection.own_endpoint(), namespace, id, elected_for);
        let context = ReconcileContext {
            connection,
            control_plane: config.control_plane,
            export_name: config.export_name,
            allowance: config.allowance,
            memory: MemoryBudget::of_process(config.memory_limit),
            rules: reflector.subscribe(),
            clients,
            permit,
            resync: config.resync.clamp(Duration::from_secs(1), MAX_RESYNC),
            deference: config.deference,
            metrics,
        };
        let (control_plane, on) = (context.connection.clone(), config.enable.clone());
        let leftovers = async move { stale_webhooks::tell(&control_plane, config.control_plane, &on).await };
        let (wait, believed) = (config.interlock_wait, config.webhook_patience);
        let has_locks = config.enable.locks || !config.enable.compat_lock_kinds.is_empty();
        let own_namespace = match config.control_plane {
            ControlPlane::Kubernetes => config.namespace,
            ControlPlane::Kcp => NAMESPACE.to_owned(),
        };
        let upkeep = |buckets| RegisterUpkeep::new(context.clone(), buckets, &own_namespace, wait, believed, has_locks);
        let (registers, interlock) = config.enable.registers.map(upkeep).unzip();
        let registers = registers.map(RegisterUpkeep::run);
        let written = WrittenRules::new(context.control_plane, context.allowance);
        let owners =
            config.enable.owners.then(|| Owners::new(context.clone(), written.clone(), config.precreated_roles));
        let owners = owners.map(|owners| run_rounds(context.clone(), owners));
        let locks = has_locks
            .then(|| Locks::new(context.clone(), config.enable, config.vital_lock_kinds, config.lock_clean_after));
        let locks = locks.map(|locks| run_rounds(context.clone(), locks));
        // Between two probes nobody knows if a webhook recorded marks.
        let pause = if interlock.is_some() { context.resync.min(INTERLOCK_PROBES) } else { context.resync };
        let (prober, probe_handle) = prober(pause);
        let (counted, counts) = watch::channel(Arc::default());
        let references = run_rounds(context.clone(), References::new(context.clone(), written.clone(), counted));
        let reconciler = Reconciler {
            read_through: config.read_through,
            lookups: WorkspaceLookups::default(),
            kinds: KindCache::new(context.resync),
            failures: Failures::new(config.deference),
            written,
            settled: SettledRules::default(),
            probe_handle,
            counts,
            interlock,
            change: GenerationChange::default(),
            promise_due: None,
            path_period: config.path_period,
            renewal: None,
            probe_address: config.webhook_probe_address,
            identity: config.webhook_client_cert_dir,
            context: context.clone(),
        };
        let rules = run_rounds(context, RuleRunner { reconciler, ready });
        let (stop, stopped) = oneshot::channel();
        let task = tokio::spawn(async move {
            // What may end a round, and what rounds wait for, in tasks of their own: a round that computes for long keeps
            // neither from going on. Both end with this task.
            let (mut permits, mut probes) = (JoinSet::new(), JoinSet::new());
            let (end, ended) = oneshot::channel();
            permits.spawn(async move {
                tokio::select! {
                    // Not where the controller is killed.
                    Ok(()) = ended => permit_source.release_lease().await,
                    () = permit_source.run() => {}
                }
            });
            probes.spawn(prober.run());
            tokio::select! {
                // A write under way is broken off: the next start finds what it left and goes on.
                _ = stopped => {}
                () = rules => {}
                Some(()) = OptionFuture::from(locks) => {}
                Some(()) = OptionFuture::from(owners) => {}
                Some(()) = OptionFuture::from(registers) => {}
                () = following.run() => {}
                () = async { leftovers.await; pending().await } => {}
                () = references => {}
                Some(_) = permits.join_next() => {}
                Some(_) = probes.join_next() => {}
            }
            drop(reflector);
            driver.abort();
            // Nothing is written any more.
            if end.send(()).is_ok() {
                permits.join_next().await;
            }
        });
        Ok(Self { probe_addr, metrics_addr, stop, task, servers })
    }

    /// Returns the address of `/healthz` and `/readyz`.
    pub fn probe_addr(&self) -> Option<SocketAddr> {
        self.probe_addr
    }

    /// Returns the address of `/metrics`.
    pub fn metrics_addr(&self) -> Option<SocketAddr> {
        self.metrics_addr
    }

    /// Ends all tasks at once, in the middle of whatever is under way.
    pub fn kill(self) {
        self.task.abort();
        self.servers.iter().for_each(JoinHandle::abort);
    }

    /// Stops the controller. All configurations stay installed.
    pub async fn stop(self) {
        drop(self.stop);
        // Nobody else can cancel this task, and the runtime has reported a panic.
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
    use depguard_core::{ControlPlane, ExportName};
    use depguard_kcp::ReadThrough;

    #[tokio::test]
    async fn without_exports_nothing_is_read_through_them() {
        let export_name = ExportName::parse("a").unwrap();
        let config = Config {
            read_through: ReadThrough::Export,
            ..Config::new(ControlPlane::Kubernetes, export_name, "hooks/depguard".parse().unwrap())
        };
        let error = Controller::start(config).await.unwrap_err().to_string();
        assert!(error.contains("leave it out with --control-plane kubernetes"), "{error}");
    }
}

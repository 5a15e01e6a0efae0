//! The whole webhook: watches rules, follows the certificate, answers reviews and probes.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use depguard_kcp::{
    CallError, ConnectError, ConnectOptions, Connection, Health, MemoryBudget, Metrics, NoExports, NotInKcp, PathKey,
    PathKeyError, Probes, REREAD, RegisterKeySecret, Reloads, listen, register_watches,
};
use tokio::sync::watch;
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;

use crate::config::Config;
use crate::limits::review_limits::Limits;
use crate::metrics::gauges;
use crate::ports::front_proxy::FrontProxy;
use crate::ports::own_endpoint::OwnEndpoint;
use crate::ports::read_path::ReadPath;
use crate::rules::active_rules::Rules;
use crate::rules::rule_watcher::{self, RuleWatch};
use crate::server::Server;
use crate::server::client_ca;
use crate::server::tasks::Tasks;
use crate::server::tls::{self, CertificateError, Certificates};
use crate::service::generations::Generations;
use crate::service::review_service::ReviewService;
use crate::service::routes::PathKeys;
use crate::traces::collector;

/// Time limit for the end of the supporting tasks: they have no work of their own to finish.
const LAST: Duration = Duration::from_secs(1);

/// A running webhook. Dropping it kills the webhook.
#[derive(Debug)]
pub struct Webhook {
    review_addr: SocketAddr,
    probe_addr: Option<SocketAddr>,
    metrics_addr: Option<SocketAddr>,
    delay: Duration,
    grace: Duration,
    /// Cancelled as soon as the webhook is to stop.
    ending: CancellationToken,
    /// Listener, its connections, and the tasks that these have begun.
    serving: Tasks,
    /// Tasks that the server relies on, which go on until the last of its tasks is done.
    supporting: Tasks,
}

/// Reason why a webhook can't be started.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StartError {
    /// The kubeconfig can't be used.
    #[error(transparent)]
    Connect(#[from] ConnectError),
    /// The certificates can't be used.
    #[error(transparent)]
    Certificate(#[from] CertificateError),
    /// The path key can't be used.
    #[error(transparent)]
    PathKey(#[from] PathKeyError),
    /// This control plane has no such way to read dependents.
    #[error(transparent)]
    ReadThrough(#[from] NoExports),
    /// A feature that is switched on does not exist on this control plane.
    #[error(transparent)]
    Enable(#[from] NotInKcp),
    /// The collector of traces can't be called.
    #[error("--otlp-endpoint can't be used: {0}")]
    Otlp(#[source] CallError),
    /// An address can't be listened on.
    #[error("cannot listen on {address}: {why}; choose another by --{flag}")]
    Listen {
        /// Address that was given.
        address: SocketAddr,
        /// Flag of the binary that sets the address.
        flag: &'static str,
        /// Error of the operating system.
        #[source]
        why: io::Error,
    },
}

impl Webhook {
    /// Starts to load the rules and to answer. Reviews that come before all rules are loaded are refused.
    pub async fn start(config: Config) -> Result<Self, StartError> {
        config.read_through.check(config.control_plane)?;
        config.enable.check(config.control_plane)?;
        let options = ConnectOptions::new(config.control_plane)
            .kubeconfig(config.kubeconfig.clone())
            .base_host(config.base_host.clone());
        let connection = Connection::open(&options).await?;
        let reloads = Reloads::default();
        let pair = tls::open(&config.tls_cert_dir, reloads.of("certificate")).await?;
        let certificates = Arc::new(Certificates::new(&pair));
        let client_ca = match config.client_ca.clone() {
            Some(path) => Some(client_ca::open(path, Arc::clone(&certificates), reloads.of("client-ca")).await?),
            None => None,
        };
        let tls = match &client_ca {
            Some(file) => Arc::clone(file.current()),
            None => Arc::new(certificates.server_config(None)?),
        };
        let (tls, following_tls) = watch::channel(tls);
        let collector = config.otlp_endpoint.as_deref().map(collector).transpose().map_err(StartError::Otlp)?;
        let path_key = match config.path_key.clone() {
            Some(path) => Some(PathKey::open(path, reloads.of("path-key")).await?),
            None => None,
        };
        let failed = |flag, address| move |why| StartError::Listen { address, flag, why };
        let reviews = listen(config.review_addr).await;
        let (reviews, review_addr) = reviews.map_err(failed("webhook-port", config.review_addr))?;
        let probes = match config.probe_addr {
            Some(address) => Some(Probes::bind(address).await.map_err(failed("health-probe-bind-address", address))?),
            None => None,
        };
        let metrics = match config.metrics_addr {
            Some(address) => {
                let metrics = Metrics::bind(address, "webhook", env!("CARGO_PKG_VERSION")).await;
                Some(metrics.map_err(failed("metrics-bind-address", address))?)
            }
            None => None,
        };

        let rules = Rules::not_loaded_yet("the webhook is loading the rules");
        let port = ReadPath::from_config(&config, &connection);
        // A failure from here on is retried by a task. An early return would drop the webhook, and kill its tasks.
        let mut webhook = Self {
            review_addr,
            probe_addr: None,
            metrics_addr: None,
            delay: config.shutdown_delay.min(config.shutdown_grace / 2),
            grace: config.shutdown_grace,
            ending: CancellationToken::new(),
            serving: Tasks::default(),
            supporting: Tasks::default(),
        };
        let (serving, supporting) = (&webhook.serving, &webhook.supporting);
        let limits = Limits::within(MemoryBudget::of_process(config.memory_limit));
        let mut service = ReviewService::with_tasks(serving.clone(), port, rules.clone(), config.overrides, limits)
            .admitting_specs(config.control_plane);
        if config.enable.locks {
            service =
                service.guarding_locks(config.control_plane, FrontProxy::new(config.control_plane, connection.clone()));
        }
        if !config.enable.compat_lock_kinds.is_empty() {
            service = service.guarding_compat_locks(config.enable.compat_lock_kinds);
        }
        if config.enable.owners {
            service = service.guarding_owners(FrontProxy::new(config.control_plane, connection.clone()));
        }
        if config.enable.denial_events {
            service = service.telling_of_denials(FrontProxy::new(config.control_plane, connection.clone()));
        }
        if let Some(buckets) = config.enable.registers {
            let generations = Generations::new(buckets).proven_by(config.path_period, client_ca.is_some());
            service = service.interlocking_by(generations, OwnEndpoint::new(&connection));
        }
        let generations = service.generations().cloned();
        if let Some(generations) = generations.clone() {
            let secret = RegisterKeySecret::new(connection.own_endpoint(), config.namespace.clone());
            supporting.spawn_needed("register key", generations.follow(secret));
        }
        if let Some(file) = path_key {
            let keys = PathKeys::new(file.current().clone());
            service = service.with_path_keys(keys.clone());
            supporting.spawn_needed("path key", file.follow(REREAD, move |key| keys.replace(key.clone())));
        }
        if let Some(collector) = collector {
            let (tracing, traces) = service.tracing();
            service = tracing;
            supporting.spawn_needed("traces", traces.send(collector));
        }
        let server = Server::new(reviews, following_tls, service.clone());
        let reflector =
            rule_watcher::watch(&connection, config.control_plane, config.export_name.clone(), config.allowance);
        if let Some(mut metrics) = metrics {
            let registry = metrics.registry();
            service.register(registry);
            reloads.register(registry);
            register_watches(registry, reflector.watches());
            gauges::of_server(registry, Arc::clone(&certificates), server.connections());
            webhook.metrics_addr = Some(metrics.address());
            supporting.spawn_needed("metrics", metrics.serve());
        }
        let Config { control_plane, export_name, patience, .. } = config;
        let following = RuleWatch { reflector, connection, control_plane, export_name, patience };
        supporting.spawn_needed("rules", rule_watcher::run(following, rules.clone()));
        if let Some(file) = client_ca {
            // Clients that the former authorities let in must connect again.
            let changed = move |config: &Arc<_>| _ = tls.send_replace(Arc::clone(config));
            supporting.spawn_needed("client CA", file.follow(REREAD, changed));
        }
        supporting.spawn_needed("certificate", pair.follow(REREAD, move |pair| certificates.replace(pair)));
        serving.spawn_needed("listener", server.run(serving.clone()));
        if let Some(probes) = probes {
            let address = probes.address();
            let (serving, needed, ending) = (serving.clone(), supporting.clone(), webhook.ending.clone());
            let health = move || match serving.dead().or_else(|| needed.dead()) {
                Some(_) => Health::Dead,
                None if ending.is_cancelled() => Health::NotReady("the webhook is stopping".to_owned()),
                None => {
                    let unread = || generations.as_ref().and_then(Generations::unread);
                    rules.not_loaded().or_else(unread).map_or(Health::Ready, Health::NotReady)
                }
            };
            supporting.spawn_needed("probes", probes.serve(health));
            webhook.probe_addr = Some(address);
        }
        Ok(webhook)
    }

    /// Returns the address of reviews.
    pub fn review_addr(&self) -> SocketAddr {
        self.review_addr
    }

    /// Returns the address of probes, if they are served.
    pub fn probe_addr(&self) -> Option<SocketAddr> {
        self.probe_addr
    }

    /// Returns the address of metrics, if they are served.
    pub fn metrics_addr(&self) -> Option<SocketAddr> {
        self.metrics_addr
    }

    /// Stops the webhook: reports that it is not ready, takes reviews a moment longer, answers those under way, and
    /// ends without leaving a task behind. Rules are followed and probes answered until the last review is done.
    pub async fn stop(self) {
        let begun = Instant::now();
        self.ending.cancel();
        sleep(self.delay).await;
        self.serving.stop(self.grace.saturating_sub(begun.elapsed())).await;
        self.supporting.stop(LAST).await;
    }

    /// Ends at once, in the middle of whatever is under way.
    pub fn kill(self) {
        // The drop at the end of this function kills the tasks.
    }
}

impl Drop for Webhook {
    fn drop(&mut self) {
        self.serving.kill();
        self.supporting.kill();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::Ipv4Addr;

    use depguard_core::ControlPlane;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpStream;

    /// Starts a webhook whose API server is away.
    async fn started(folder: &std::path::Path) -> Webhook {
        let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
        let kubeconfig = r#"{"apiVersion": "v1", "kind": "Config", "current-context": "a",
            "contexts": [{"name": "a", "context": {"cluster": "a", "user": "a"}}],
            "clusters": [{"name": "a", "cluster": {"server": "https://127.0.0.1:1"}}],
            "users": [{"name": "a", "user": {"token": "t"}}]}"#;
        for (name, content) in [
            ("tls.crt", made.cert.pem()),
            ("tls.key", made.signing_key.serialize_pem()),
            ("path-key", "0123456789abcdef0123456789abcdef".to_owned()),
            ("kubeconfig", kubeconfig.to_owned()),
        ] {
            std::fs::write(folder.join(name), content).unwrap();
        }
        let any = (Ipv4Addr::LOCALHOST, 0).into();
        let config = Config {
            control_plane: ControlPlane::Kubernetes,
            kubeconfig: Some(folder.join("kubeconfig")),
            review_addr: any,
            probe_addr: Some(any),
            metrics_addr: Some(any),
            tls_cert_dir: folder.to_owned(),
            path_key: Some(folder.join("path-key")),
            shutdown_delay: Duration::ZERO,
            ..Config::default()
        };
        Webhook::start(config).await.unwrap()
    }

    async fn probe(webhook: &Webhook, path: &str) -> u16 {
        let mut stream = TcpStream::connect(webhook.probe_addr().unwrap()).await.unwrap();
        let request = format!("GET {path} HTTP/1.1\r\nhost: probe\r\nconnection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut response = String::new();
        stream.read_to_string(&mut response).await.unwrap();
        response.split(' ').nth(1).unwrap().parse().unwrap()
    }

    #[tokio::test]
    async fn it_is_alive_only_while_all_of_its_tasks_are() {
        let folder = tempfile::tempdir().unwrap();
        for name in ["listener", "rules", "certificate", "path key", "metrics"] {
            let webhook = started(folder.path()).await;
            assert_eq!((probe(&webhook, "/healthz").await, probe(&webhook, "/readyz").await), (200, 503), "{name}");
            let group = if name == "listener" { &webhook.serving } else { &webhook.supporting };
            group.abort(name);
            while webhook.serving.dead().or_else(|| webhook.supporting.dead()).is_none() {
                tokio::task::yield_now().await;
            }
            assert_eq!((probe(&webhook, "/healthz").await, probe(&webhook, "/readyz").await), (500, 500), "{name}");
            webhook.stop().await;
        }
    }
}

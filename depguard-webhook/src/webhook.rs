//! The whole webhook: rules watched, certificate followed, reviews and probes answered.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use depguard_kcp::{ConnectError, ConnectOptions, Connection, Gauges, Health, Metrics, Probes, Reloads, listen};
use tokio_rustls::TlsAcceptor;

use crate::config::Config;
use crate::registry;
use crate::rules::Rules;
use crate::server::Server;
use crate::service::{Limits, ReviewService};
use crate::tasks::Tasks;
use crate::tls::{CertificateError, Certificates};
use crate::way::Way;

/// A running webhook. Dropped, it is killed.
#[derive(Debug)]
pub struct Webhook {
    review_addr: SocketAddr,
    probe_addr: Option<SocketAddr>,
    metrics_addr: Option<SocketAddr>,
    grace: Duration,
    rules: Rules,
    tasks: Tasks,
}

/// Why a webhook can't be started.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The kubeconfig can't be used.
    #[error(transparent)]
    Connect(#[from] ConnectError),
    /// The certificate can't be used.
    #[error(transparent)]
    Certificate(#[from] CertificateError),
    /// TLS can't be set up.
    #[error("cannot set up TLS: {0}")]
    Tls(#[from] rustls::Error),
    /// An address can't be listened on.
    #[error("cannot listen on {address}: {why}")]
    Listen {
        /// Which one.
        address: SocketAddr,
        /// What the operating system said.
        why: io::Error,
    },
}

impl Webhook {
    /// Starts to load the rules and to answer. Reviews that come before all rules are loaded are refused.
    pub async fn start(config: Config) -> Result<Self, StartError> {
        let options = ConnectOptions {
            kubeconfig: config.kubeconfig.clone(),
            base_host: config.base_host.clone(),
            home: config.home,
        };
        let connection = Connection::open(&options).await?;
        let (certificates, files) = Certificates::open(&config.tls_cert_dir).await?;
        let tls = TlsAcceptor::from(Arc::new(certificates.server_config()?));
        let failed = |address| move |why| StartError::Listen { address, why };
        let (reviews, review_addr) = listen(config.review_addr).await.map_err(failed(config.review_addr))?;
        let probes = match config.probe_addr {
            Some(address) => Some(Probes::bind(address).await.map_err(failed(address))?),
            None => None,
        };
        let metrics = match config.metrics_addr {
            Some(address) => Some(Metrics::bind(address, env!("CARGO_PKG_VERSION")).await.map_err(failed(address))?),
            None => None,
        };

        let rules = Rules::not_loaded_yet("the rules are being loaded");
        let port = Way::of(&config, &connection);
        // Whatever fails from here on is tried again: dropped early, the tasks would be killed.
        let mut webhook = Self {
            review_addr,
            probe_addr: None,
            metrics_addr: None,
            grace: config.shutdown_grace,
            rules,
            tasks: Tasks::default(),
        };
        let (tasks, rules) = (&webhook.tasks, &webhook.rules);
        let limits = Limits::default();
        let service = ReviewService::among(tasks.clone(), port, rules.clone(), config.overrides, limits);
        let (server, reloads) = (Server::new(reviews, tls, service.clone()), Reloads::default());
        let certificate = reloads.of("certificate");
        if let Some(mut metrics) = metrics {
            let registry = metrics.registry();
            service.register(registry);
            reloads.register(registry);
            let (certificates, connections) = (Arc::clone(&certificates), server.connections());
            let help = "When the first certificate of the served chain ends, in seconds since 1970";
            let expiry = move || certificates.expiry().map(|expiry| expiry as f64);
            registry.gauge("depguard_certificate_expiry_timestamp_seconds", help, expiry);
            let help = "Connections of API servers";
            let limit = connections.all() as f64;
            registry.gauge("depguard_connections", help, move || Some(connections.taken() as f64));
            let help = "Connections that there may be; further ones wait";
            registry.gauge("depguard_connections_limit", help, move || Some(limit));
            webhook.metrics_addr = Some(metrics.address());
            tasks.spawn_background(metrics.serve());
        }
        tasks.spawn_background(registry::run(connection, config.home, config.export_name, rules.clone()));
        tasks.spawn_background(certificates.follow(files, certificate));
        tasks.spawn(server.run(tasks.clone()));
        if let Some(probes) = probes {
            let (address, rules) = (probes.address(), rules.clone());
            let health = move || rules.not_loaded().map_or(Health::Ready, Health::NotReady);
            tasks.spawn_background(probes.serve(health));
            webhook.probe_addr = Some(address);
        }
        Ok(webhook)
    }

    /// Where reviews are taken.
    pub fn review_addr(&self) -> SocketAddr {
        self.review_addr
    }

    /// Where probes are answered, if they are.
    pub fn probe_addr(&self) -> Option<SocketAddr> {
        self.probe_addr
    }

    /// Where metrics are read, if they are.
    pub fn metrics_addr(&self) -> Option<SocketAddr> {
        self.metrics_addr
    }

    /// Takes no more reviews, answers those under way, and ends with nothing left behind.
    pub async fn stop(self) {
        self.tasks.stop(self.grace).await;
    }

    /// Ends at once, in the middle of whatever is under way.
    pub fn kill(self) {
        // What `drop` does.
    }
}

impl Drop for Webhook {
    fn drop(&mut self) {
        self.tasks.kill();
    }
}

//! Starts and stops a testbed.

pub(crate) mod fill;
pub(crate) mod kubeconfig;

use std::collections::{BTreeMap, BTreeSet};
use std::net::Ipv4Addr;
use std::sync::Arc;

use serde_json::Value;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;

use crate::api_server::{self, shard_address};
use crate::controllers::{self, collector, roles, teardown, workspaces};
use crate::options::{Kind, Options};
use crate::store::{Event, Store};
use crate::testbed::fill::{FillError, Place};
use crate::transport::pool::Pool;
use crate::transport::{StartError, tls};
use crate::world::audit::{Audit, Audits};
use crate::world::faults::Faults;
use crate::world::shards::{Outage, Shards};
use crate::world::tokens::Tokens;
use crate::world::traffic::{Lists, Traffic};
use crate::world::{ONLY, World};

/// Running API server. Call [`stop`](Self::stop) to end it with all of its tasks; dropping it aborts the tasks.
#[derive(Debug)]
pub struct Testbed {
    url: String,
    ca_pem: String,
    world: Arc<World>,
    stopped: watch::Sender<bool>,
    tasks: JoinSet<()>,
}

impl Testbed {
    /// Starts an API server on 127.0.0.1 in this process. It answers when this returns.
    pub async fn start(options: Options) -> Result<Self, StartError> {
        let identity = tls::make_identity()?;
        let listen = |source| StartError::Listen { port: options.port, source };
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, options.port)).await.map_err(listen)?;
        let url = format!("https://{}", listener.local_addr().map_err(listen)?);
        let tls = identity.servers.map(TlsAcceptor::from);
        let (shards, of_shards) = Shards::open(&options).await.map_err(listen)?;
        let world = Arc::new(World {
            kind: options.kind,
            rbac: options.rbac,
            url: url.clone(),
            shards,
            store: Store::new(),
            faults: Faults::default(),
            traffic: Traffic::default(),
            audits: Audits::default(),
            webhooks: Pool::default(),
            tokens: Tokens::new(options.shortest_token),
            services: options.services,
        });
        match options.kind {
            Kind::Kcp => workspaces::seed_root(&world),
            Kind::Kubernetes => ["default", "kube-system"].iter().for_each(|name| world.seed_namespace(ONLY, name)),
        }
        roles::seed(&world);
        let stopped = watch::Sender::new(false);
        let mut tasks = JoinSet::new();
        for (index, listener) in of_shards.into_iter().enumerate() {
            tasks.spawn(shard_address::run(listener, tls.clone(), Arc::clone(&world), index, stopped.subscribe()));
        }
        tasks.spawn(api_server::run(listener, tls, Arc::clone(&world), None, stopped.subscribe()));
        tasks.spawn(controllers::run(Arc::clone(&world), stopped.subscribe()));
        tasks.spawn(teardown::run(Arc::clone(&world), stopped.subscribe()));
        tasks.spawn(collector::run(Arc::clone(&world), stopped.subscribe()));
        Ok(Self { url, ca_pem: identity.ca_pem, world, stopped, tasks })
    }

    /// Returns the base URL, `https://127.0.0.1:<port>`.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Returns the certificate authority that signed the server's certificate.
    pub fn ca_pem(&self) -> &str {
        &self.ca_pem
    }

    /// Returns a kubeconfig (YAML, token auth) for a workspace's path or logical cluster, or with `""` for the base URL
    /// itself: the only cluster of a plain Kubernetes.
    ///
    /// The user `admin` may do anything and is in the group `system:kcp:admin` (plain Kubernetes: `system:masters`);
    /// `masters` is in `system:masters`. `system:serviceaccount:<namespace>:<name>` is a ServiceAccount; in kcp,
    /// `system:kcp:serviceaccount:<logical cluster>:<namespace>:<name>` is one of that workspace. A token from a
    /// TokenRequest stands for its ServiceAccount as long as the token is valid. Any other name is a user of that name.
    pub fn kubeconfig(&self, cluster: &str, user: &str) -> String {
        let server = if cluster.is_empty() { self.url.clone() } else { format!("{}/clusters/{cluster}", self.url) };
        kubeconfig::print(&server, &self.ca_pem, user)
    }

    /// Returns the faults to turn on and off.
    pub fn faults(&self) -> &Faults {
        &self.world.faults
    }

    /// Closes a shard's address: connections to it are cut and refused until the shard is [brought
    /// up](Self::bring_up_shard). Its workspaces stay reachable through the front-proxy. Returns `false` if there is no
    /// such shard.
    pub async fn take_down_shard(&self, name: &str) -> bool {
        self.world.shards.switch(name, false).await
    }

    /// Ends a shard's process: its address is closed, and the front-proxy answers 502 for its workspaces, until the
    /// shard is [brought up](Self::bring_up_shard). Returns `false` if there is no such shard.
    pub async fn kill_shard(&self, name: &str) -> bool {
        self.world.shards.set_outage(name, Some(Outage::Killed)).await
    }

    /// Hangs a shard: it takes connections and requests, also the front-proxy's, and never answers, until it is
    /// [brought up](Self::bring_up_shard). Returns `false` if there is no such shard.
    pub async fn hang_shard(&self, name: &str) -> bool {
        self.world.shards.set_outage(name, Some(Outage::Hung)).await
    }

    /// Brings a shard up again after any outage. Returns `false` if there is no such shard.
    pub async fn bring_up_shard(&self, name: &str) -> bool {
        self.world.shards.set_outage(name, None).await
    }

    /// Stores objects without any check: no schema is checked, no webhook called, and no watch notified. Many objects
    /// then take little more memory than their JSON. Returns their number.
    ///
    /// Each object needs `metadata.name`; the server's other fields are filled in. Older watches and continue tokens
    /// get a 410.
    pub fn fill(&self, place: &Place<'_>, objects: impl IntoIterator<Item = Value>) -> Result<usize, FillError> {
        fill::fill(&self.world, place, objects)
    }

    /// Returns the counts of a resource's lists so far, by all users.
    pub fn lists(&self, group: &str, resource: &str) -> Lists {
        self.world.traffic.of(group, resource, |_| true)
    }

    /// Returns the counts of a resource's lists by the user of this token. A ServiceAccount is named as for
    /// [`kubeconfig`](Self::kubeconfig), and counts with all of its tokens.
    pub fn lists_by(&self, token: &str, group: &str, resource: &str) -> Lists {
        self.world.traffic.of(group, resource, |user| user == token)
    }

    /// Returns the paths, with selectors, on which the last watch of a resource by the user of this token was refused.
    pub fn refused_watches_by(&self, token: &str, group: &str, resource: &str) -> BTreeSet<String> {
        self.world.traffic.refused(token, group, resource)
    }

    /// Returns the number of requests for objects by the user of this token, whatever the answers, by verb.
    pub fn requests_by(&self, token: &str) -> BTreeMap<String, u64> {
        self.world.traffic.requests(token)
    }

    /// Returns the requests for objects of a resource, whatever the answer, by the user's token: verbs, and the name
    /// behind the verb if the request has one. Of each user, at most 64 are kept.
    pub fn asked(&self, group: &str, resource: &str) -> BTreeMap<String, BTreeSet<String>> {
        self.world.traffic.asked(group, resource)
    }

    /// Returns the audit annotations (`auditAnnotations`) of webhooks: the last 1,024 entries, oldest first.
    pub fn audits(&self) -> Vec<Audit> {
        self.world.audits.all()
    }

    /// Keeps every change of the store from now on, except the objects that are [filled](Self::fill) in. A test can
    /// then judge a run afterwards. The journal takes memory until the testbed stops.
    pub fn keep_journal(&self) {
        self.world.store.keep_journal();
    }

    /// Returns the changes that were kept, in their order.
    pub fn journal(&self) -> Vec<Event> {
        self.world.store.journal()
    }

    /// Ends the testbed: connections are cut, and every task has ended when this returns.
    pub async fn stop(mut self) {
        self.stopped.send_replace(true);
        while self.tasks.join_next().await.is_some() {}
        self.world.webhooks.close().await;
    }
}

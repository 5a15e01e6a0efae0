//! What is played, and how.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::Duration;

/// What the testbed plays.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Kind {
    /// A kcp with a root workspace.
    #[default]
    Kcp,
    /// A plain Kubernetes API server with the controllers that matter here.
    Kubernetes,
}

/// How to start a [`Testbed`](crate::Testbed): `Options::kcp().rbac().shards(["one", "two"])`.
#[derive(Clone, Debug, Default)]
pub struct Options {
    pub(crate) kind: Kind,
    pub(crate) port: u16,
    pub(crate) rbac: bool,
    pub(crate) shards: Vec<String>,
    pub(crate) shard_hosts: BTreeMap<String, String>,
    pub(crate) listed_after: Option<Duration>,
    pub(crate) services: BTreeMap<String, SocketAddr>,
    pub(crate) shortest_token: Option<Duration>,
}

impl Options {
    /// Plays that, on any free port, where everybody may do everything. [`Options::default`] plays a kcp.
    #[must_use]
    pub fn new(kind: Kind) -> Self {
        Self { kind, ..Self::default() }
    }

    /// Plays a kcp.
    #[must_use]
    pub fn kcp() -> Self {
        Self::new(Kind::Kcp)
    }

    /// Plays a plain Kubernetes.
    #[must_use]
    pub fn kubernetes() -> Self {
        Self::new(Kind::Kubernetes)
    }

    /// Listens on this port of 127.0.0.1; 0 = any free one.
    #[must_use]
    pub fn port(self, port: u16) -> Self {
        Self { port, ..self }
    }

    /// Lets RBAC objects decide what each user but `admin` and `masters` may do.
    #[must_use]
    pub fn rbac(self) -> Self {
        Self { rbac: true, ..self }
    }

    /// Plays a kcp of so many shards, each with an address of its own for its virtual workspaces; the root workspace lies
    /// on the first. A Workspace lies on the one that its `spec.location.selector.matchLabels.name` names, else on the
    /// next. None: one shard, whose address is everybody's.
    #[must_use]
    pub fn shards(self, names: impl IntoIterator<Item = impl Into<String>>) -> Self {
        Self { shards: names.into_iter().map(Into::into).collect(), ..self }
    }

    /// The host in the URLs of the shard of that name: `localhost`; `127.0.0.1` unless said.
    #[must_use]
    pub fn shard_at(mut self, name: &str, host: &str) -> Self {
        self.shard_hosts.insert(name.to_owned(), host.to_owned());
        self
    }

    /// How much later than the first binding on a shard an endpoint slice lists the shard; 300 ms unless said.
    #[must_use]
    pub fn listed_after(self, late: Duration) -> Self {
        Self { listed_after: Some(late), ..self }
    }

    /// Where a webhook's `clientConfig.service` of that namespace and name is reached, whatever port it names. A service
    /// that nothing is said of can't be called, which `failurePolicy` then decides. kcp knows no services.
    #[must_use]
    pub fn service(mut self, namespace: &str, name: &str, address: SocketAddr) -> Self {
        self.services.insert(format!("{namespace}/{name}"), address);
        self
    }

    /// The shortest life that a TokenRequest may ask for, in whole seconds; 10 minutes, as real servers have it, unless
    /// said. For a test that sees a token run out, or be renewed in time.
    #[must_use]
    pub fn shortest_token(self, life: Duration) -> Self {
        Self { shortest_token: Some(life), ..self }
    }
}

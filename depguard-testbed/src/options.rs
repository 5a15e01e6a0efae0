//! Options of a testbed.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::Duration;

/// Control plane that the testbed plays.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Kind {
    /// A kcp with a root workspace.
    #[default]
    Kcp,
    /// A plain Kubernetes API server with the controllers that matter here.
    Kubernetes,
}

/// Options of a [`Testbed`](crate::Testbed): `Options::kcp().rbac().shards(["one", "two"])`.
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
    /// Plays this control plane on any free port. Everybody may do everything. [`Options::default`] plays a kcp.
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

    /// Listens on this port of 127.0.0.1; 0 stands for any free port.
    #[must_use]
    pub fn port(self, port: u16) -> Self {
        Self { port, ..self }
    }

    /// Lets RBAC objects decide what each user but `admin` and `masters` may do.
    #[must_use]
    pub fn rbac(self) -> Self {
        Self { rbac: true, ..self }
    }

    /// Plays a kcp with these shards. Each has its own address for its virtual workspaces; the first has the root
    /// workspace. A Workspace lies on the shard that its `spec.location.selector.matchLabels.name` names, or else on
    /// the next one. Without names, the kcp is one shard, whose address is everybody's.
    #[must_use]
    pub fn shards(self, names: impl IntoIterator<Item = impl Into<String>>) -> Self {
        Self { shards: names.into_iter().map(Into::into).collect(), ..self }
    }

    /// Sets the host in the URLs of the shard with this name, such as `localhost`. The default is `127.0.0.1`.
    #[must_use]
    pub fn shard_at(mut self, name: &str, host: &str) -> Self {
        self.shard_hosts.insert(name.to_owned(), host.to_owned());
        self
    }

    /// Sets how much later than the first binding on a shard an endpoint slice lists the shard. The default is 300 ms.
    #[must_use]
    pub fn listed_after(self, late: Duration) -> Self {
        Self { listed_after: Some(late), ..self }
    }

    /// Sets the address of the Service with this namespace and name, for a webhook's `clientConfig.service` with any
    /// port. A Service without an address can't be called, and `failurePolicy` decides. kcp has no Services.
    #[must_use]
    pub fn service(mut self, namespace: &str, name: &str, address: SocketAddr) -> Self {
        self.services.insert(format!("{namespace}/{name}"), address);
        self
    }

    /// Sets the shortest life that a TokenRequest may ask for, in whole seconds. The default is 10 minutes, as in real
    /// servers. A test can then see a token expire, or be renewed in time.
    #[must_use]
    pub fn shortest_token(self, life: Duration) -> Self {
        Self { shortest_token: Some(life), ..self }
    }
}

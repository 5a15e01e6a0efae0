//! Opens the one connection that all requests share.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use depguard_core::{ControlPlane, LogicalCluster, WorkspacePath};
use kube_client::config::{InClusterError, KubeconfigError};

use crate::http::endpoint::Endpoint;
use crate::http::kubeconfig::{self, KubeconfigOverrides};
use crate::http::request_log::RequestLog;
use crate::http::transport::{self, Transport};
use crate::http::url::{self, Address, UrlError};

/// Options of a connection to the API server: `ConnectOptions::new(ControlPlane::Kcp).context("admin".to_owned())`.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct ConnectOptions {
    /// Kubeconfig file. By default the files that `KUBECONFIG` names, or else the pod's own service account, or else
    /// `~/.kube/config`.
    pub kubeconfig: Option<PathBuf>,
    /// Context of the kubeconfig. By default its current context.
    pub context: Option<String>,
    /// Base URL of kcp, without a workspace. By default the kubeconfig's server, cut before `/clusters/…`.
    pub base_host: Option<String>,
    /// Control plane that the server belongs to: a kcp, or a plain Kubernetes.
    pub control_plane: ControlPlane,
    /// Values that replace the kubeconfig's.
    pub overrides: KubeconfigOverrides,
    /// Time limit of each response, including its body. By default there is none.
    pub request_timeout: Option<Duration>,
    /// Function that is told of each request. By default there is none.
    pub request_log: Option<RequestLog>,
}

/// Shared stack of connections, TLS and credentials. All clones, and all [`Endpoint`]s made from them, use this one
/// stack.
///
/// A token from a file or an exec plugin is renewed when it expires. A client certificate is read once.
#[derive(Debug, Clone)]
pub struct Connection {
    transport: Transport,
    address: Arc<Address>,
    base: Arc<str>,
    namespace: Arc<str>,
    own: Endpoint,
    timeout: Option<Duration>,
}

/// Reason why no connection can be opened.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ConnectError {
    /// The kubeconfig can't be used.
    #[error("cannot use the kubeconfig {from}: {why}")]
    Kubeconfig {
        /// Source of the kubeconfig: a file, `KUBECONFIG`, or the default.
        from: String,
        /// Error in the kubeconfig.
        #[source]
        why: KubeconfigError,
    },
    /// The pod's service account can't be used.
    #[error("cannot use the pod's service account: {0}")]
    InCluster(#[source] InClusterError),
    /// The kubeconfig asks for a proxy.
    #[error(
        "the kubeconfig's cluster has `proxy-url: {0}`, and depguard does not support proxies: name the server itself"
    )]
    Proxy(String),
    /// A URL can't be used.
    #[error(transparent)]
    Url(#[from] UrlError),
    /// A kcp's kubeconfig names no workspace, and so not depguard's own.
    #[error(
        "the kubeconfig's server `{0}` names no workspace: it must end in `/clusters/<the workspace of depguard's APIExport>`"
    )]
    NoWorkspace(String),
    /// The server that replaces the kubeconfig's has no valid URL.
    #[error("`{0}` is no URL of a server: write https://HOST:PORT")]
    Server(String),
    /// The kubeconfig's certificates or credentials can't be used.
    #[error("cannot use the kubeconfig's certificates and credentials: {0}")]
    Credentials(String),
}

impl ConnectOptions {
    /// Returns options for the server that the default kubeconfig's current context names.
    pub fn new(control_plane: ControlPlane) -> Self {
        Self {
            kubeconfig: None,
            context: None,
            base_host: None,
            control_plane,
            overrides: KubeconfigOverrides::default(),
            request_timeout: None,
            request_log: None,
        }
    }

    /// Uses this kubeconfig file, if there is one.
    #[must_use]
    pub fn kubeconfig(self, file: impl Into<Option<PathBuf>>) -> Self {
        Self { kubeconfig: file.into(), ..self }
    }

    /// Uses this context of the kubeconfig, if there is one.
    #[must_use]
    pub fn context(self, context: impl Into<Option<String>>) -> Self {
        Self { context: context.into(), ..self }
    }

    /// Uses this base URL of kcp, if there is one.
    #[must_use]
    pub fn base_host(self, url: impl Into<Option<String>>) -> Self {
        Self { base_host: url.into(), ..self }
    }

    /// Replaces values of the kubeconfig by these.
    #[must_use]
    pub fn overrides(self, overrides: KubeconfigOverrides) -> Self {
        Self { overrides, ..self }
    }

    /// Fails each request whose response has not arrived within this time, if there is one.
    #[must_use]
    pub fn request_timeout(self, timeout: impl Into<Option<Duration>>) -> Self {
        Self { request_timeout: timeout.into(), ..self }
    }

    /// Tells this function of each request, if there is one.
    #[must_use]
    pub fn request_log(self, log: impl Into<Option<RequestLog>>) -> Self {
        Self { request_log: log.into(), ..self }
    }
}

impl Connection {
    /// Reads the kubeconfig and builds the stack. Sends no request yet.
    pub async fn open(options: &ConnectOptions) -> Result<Self, ConnectError> {
        let config = kubeconfig::read(options).await?;
        let mut address = Address::parse(&config.cluster_url.to_string())?;
        if options.control_plane == ControlPlane::Kcp && address.workspace.is_none() {
            return Err(ConnectError::NoWorkspace(address.url));
        }
        if let Some(base_host) = options.base_host.as_deref().filter(|given| !given.is_empty()) {
            address = address.with_base(base_host)?;
        }
        let namespace = Arc::from(config.default_namespace.as_str());
        // An exec plugin blocks the thread until it has answered.
        let transport = tokio::task::spawn_blocking(move || transport::build(&config))
            .await
            .map_err(|why| ConnectError::Credentials(why.to_string()))?
            .map_err(|why| ConnectError::Credentials(why.to_string()))?;
        let transport = match &options.request_log {
            Some(log) => transport::logged(transport, log.clone()),
            None => transport,
        };
        let timeout = options.request_timeout;
        Ok(Self {
            own: Endpoint::new(transport.clone(), &address.url, timeout),
            timeout,
            base: Arc::from(address.base.as_str()),
            address: Arc::new(address),
            namespace,
            transport,
        })
    }

    /// Returns the namespace of the kubeconfig's context; `default` if the context names none.
    pub fn default_namespace(&self) -> &str {
        &self.namespace
    }

    /// Returns the endpoint that the kubeconfig points to: depguard's own workspace in kcp, or the plain cluster.
    pub fn own_endpoint(&self) -> Endpoint {
        self.own.clone()
    }

    /// Returns the workspace that the kubeconfig's server names, by path or by logical cluster.
    pub fn own_workspace(&self) -> Option<&str> {
        self.address.workspace.as_deref()
    }

    /// Returns the base URL, without a workspace and without a slash at its end.
    pub(crate) fn base(&self) -> &str {
        &self.base
    }

    /// Returns the endpoint of a logical cluster, through the front-proxy.
    pub fn cluster(&self, cluster: &LogicalCluster) -> Endpoint {
        self.endpoint(&format!("{}/clusters/{cluster}", self.base))
    }

    /// Returns the endpoint of a workspace by its path, through the front-proxy.
    pub fn workspace(&self, path: &WorkspacePath) -> Endpoint {
        self.endpoint(&format!("{}/clusters/{path}", self.base))
    }

    /// Returns the endpoint of another URL, such as one from an endpoint slice. The same credentials and certificates
    /// are used there.
    pub fn at(&self, url: &str) -> Result<Endpoint, ConnectError> {
        let url = self.address.same_protection(url::normalize(url)?)?;
        Ok(self.endpoint(&url))
    }

    fn endpoint(&self, url: &str) -> Endpoint {
        Endpoint::new(self.transport.clone(), url, self.timeout)
    }
}

//! Opens the one connection that all requests share.

use std::path::PathBuf;
use std::sync::Arc;

use depguard_core::{ControlPlane, LogicalCluster, WorkspacePath};
use kube_client::config::{InClusterError, KubeConfigOptions, Kubeconfig, KubeconfigError};

use crate::http::endpoint::Endpoint;
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
    /// The kubeconfig's certificates or credentials can't be used.
    #[error("cannot use the kubeconfig's certificates and credentials: {0}")]
    Credentials(String),
}

impl ConnectOptions {
    /// Returns options for the server that the default kubeconfig's current context names.
    pub fn new(control_plane: ControlPlane) -> Self {
        Self { kubeconfig: None, context: None, base_host: None, control_plane }
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
}

impl Connection {
    /// Reads the kubeconfig and builds the stack. Sends no request yet.
    pub async fn open(options: &ConnectOptions) -> Result<Self, ConnectError> {
        let config = read_config(options).await?;
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
        Ok(Self {
            own: Endpoint::new(transport.clone(), &address.url),
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
        Endpoint::new(self.transport.clone(), &format!("{}/clusters/{cluster}", self.base))
    }

    /// Returns the endpoint of a workspace by its path, through the front-proxy.
    pub fn workspace(&self, path: &WorkspacePath) -> Endpoint {
        Endpoint::new(self.transport.clone(), &format!("{}/clusters/{path}", self.base))
    }

    /// Returns the endpoint of another URL, such as one from an endpoint slice. The same credentials and certificates
    /// are used there.
    pub fn at(&self, url: &str) -> Result<Endpoint, ConnectError> {
        let url = self.address.same_protection(url::normalize(url)?)?;
        Ok(Endpoint::new(self.transport.clone(), &url))
    }
}

/// Reads and merges the kubeconfigs of `KUBECONFIG`.
fn from_env() -> Result<Option<Kubeconfig>, KubeconfigError> {
    let paths = std::env::var_os("KUBECONFIG").unwrap_or_default();
    merged(std::env::split_paths(&paths).filter(|path| !path.as_os_str().is_empty()).collect())
}

/// Merges the kubeconfigs at these paths. Skips missing files as kubectl does, unless all are missing. Returns `None`
/// if there is no path.
fn merged(mut paths: Vec<PathBuf>) -> Result<Option<Kubeconfig>, KubeconfigError> {
    if paths.iter().any(|path| path.exists()) {
        paths.retain(|path| path.exists());
    }
    let mut all = None;
    for path in paths {
        let next = Kubeconfig::read_from(path)?;
        all = Some(match all {
            None => next,
            Some(all) => Kubeconfig::merge(all, next)?,
        });
    }
    Ok(all)
}

async fn read_config(options: &ConnectOptions) -> Result<kube_client::Config, ConnectError> {
    let (from, kubeconfig) = match &options.kubeconfig {
        Some(file) => (format!("`{}`", file.display()), Kubeconfig::read_from(file)),
        None => match from_env() {
            Ok(Some(kubeconfig)) => ("of `KUBECONFIG`".to_owned(), Ok(kubeconfig)),
            Err(why) => ("of `KUBECONFIG`".to_owned(), Err(why)),
            // In-cluster configuration has no contexts, so a named context needs a kubeconfig.
            Ok(None) if options.context.is_none() && std::env::var_os("KUBERNETES_SERVICE_HOST").is_some() => {
                return kube_client::Config::incluster().map_err(ConnectError::InCluster);
            }
            Ok(None) => (
                "`~/.kube/config` (name another with `--kubeconfig` or in `KUBECONFIG`)".to_owned(),
                Kubeconfig::read(),
            ),
        },
    };
    let refused = |why| ConnectError::Kubeconfig { from, why };
    let kubeconfig = match kubeconfig {
        Ok(kubeconfig) => kubeconfig,
        Err(why) => return Err(refused(why)),
    };
    if let Some(proxy) = proxy(&kubeconfig, options.context.as_ref()) {
        return Err(ConnectError::Proxy(proxy));
    }
    let chosen = KubeConfigOptions { context: options.context.clone(), ..KubeConfigOptions::default() };
    kube_client::Config::from_custom_kubeconfig(kubeconfig, &chosen).await.map_err(refused)
}

/// Returns the proxy that the cluster of this context, or of the current one, asks for.
fn proxy(kubeconfig: &Kubeconfig, context: Option<&String>) -> Option<String> {
    let current = context.or(kubeconfig.current_context.as_ref())?;
    let context = kubeconfig.contexts.iter().find(|context| &context.name == current)?.context.as_ref()?;
    let cluster = kubeconfig.clusters.iter().find(|cluster| cluster.name == context.cluster)?.cluster.as_ref()?;
    cluster.proxy_url.clone().filter(|url| !url.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kubeconfig_that_is_not_there_is_left_out_unless_none_is_there() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        for name in ["a", "b"] {
            std::fs::write(path(name), format!("{{apiVersion: v1, kind: Config, current-context: {name}}}")).unwrap();
        }
        let context = |names: &[&str]| {
            let all = merged(names.iter().map(|name| path(name)).collect());
            all.map(|all| all.and_then(|all| all.current_context)).ok()
        };
        assert_eq!(context(&["missing", "b", "a"]), Some(Some("b".to_owned())));
        assert_eq!(context(&["a"]), Some(Some("a".to_owned())));
        assert_eq!(context(&["missing"]), None, "an error says which");
        assert_eq!(context(&[]), Some(None));
    }
}

//! Opening the one connection that all requests share.

use std::path::PathBuf;
use std::sync::Arc;

use depguard_core::{Home, LogicalCluster, WorkspacePath};
use kube_client::config::{InClusterError, KubeConfigOptions, Kubeconfig, KubeconfigError};

use crate::address::{self, Address, UrlError};
use crate::endpoint::Endpoint;
use crate::stack::{self, Stack};

/// How to reach the API server: `ConnectOptions::new(Home::Kcp).context("admin".to_owned())`.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct ConnectOptions {
    /// A kubeconfig file. Left out: what `KUBECONFIG` names, else the pod's own service account, else
    /// `~/.kube/config`.
    pub kubeconfig: Option<PathBuf>,
    /// One of its contexts. Left out: its current one.
    pub context: Option<String>,
    /// The base URL of kcp, without a workspace. Left out: the kubeconfig's server, cut before `/clusters/…`.
    pub base_host: Option<String>,
    /// Whether that server is a kcp.
    pub home: Home,
}

/// One shared stack of connections, TLS and credentials. Clones, and all [`Endpoint`]s made of them, share it.
///
/// A token file and a token that an exec plugin gives are renewed as they expire; a client certificate is read once.
#[derive(Debug, Clone)]
pub struct Connection {
    stack: Stack,
    address: Arc<Address>,
    base: Arc<str>,
    namespace: Arc<str>,
    home: Endpoint,
}

/// Why no connection can be opened.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ConnectError {
    /// The kubeconfig can't be used.
    #[error("cannot use the kubeconfig {from}: {why}")]
    Kubeconfig {
        /// Which one: a file, `KUBECONFIG`, or the default.
        from: String,
        /// What is wrong with it.
        #[source]
        why: KubeconfigError,
    },
    /// The pod's service account can't be used.
    #[error("cannot use the pod's service account: {0}")]
    InCluster(#[source] InClusterError),
    /// The kubeconfig asks for a proxy.
    #[error("the kubeconfig's cluster has `proxy-url: {0}`, which is not supported: name the server itself")]
    Proxy(String),
    /// A URL can't be used.
    #[error(transparent)]
    Url(#[from] UrlError),
    /// A kcp's kubeconfig must say which workspace is depguard's own.
    #[error(
        "the kubeconfig's server `{0}` names no workspace: it must end in `/clusters/<the workspace of depguard's APIExport>`"
    )]
    NoWorkspace(String),
    /// The kubeconfig's certificates or credentials can't be used.
    #[error("cannot use the kubeconfig's certificates and credentials: {0}")]
    Credentials(String),
}

impl ConnectOptions {
    /// The server that the usual kubeconfig's current context names.
    pub fn new(home: Home) -> Self {
        Self { kubeconfig: None, context: None, base_host: None, home }
    }

    /// The same by this kubeconfig file, where it is one.
    #[must_use]
    pub fn kubeconfig(self, file: impl Into<Option<PathBuf>>) -> Self {
        Self { kubeconfig: file.into(), ..self }
    }

    /// The same by this context of it, where it is one.
    #[must_use]
    pub fn context(self, context: impl Into<Option<String>>) -> Self {
        Self { context: context.into(), ..self }
    }

    /// The same with this base URL of kcp, where it is one.
    #[must_use]
    pub fn base_host(self, url: impl Into<Option<String>>) -> Self {
        Self { base_host: url.into(), ..self }
    }
}

impl Connection {
    /// Reads the kubeconfig and makes the stack. Sends nothing yet.
    pub async fn open(options: &ConnectOptions) -> Result<Self, ConnectError> {
        let config = read_config(options).await?;
        let mut address = Address::parse(&config.cluster_url.to_string())?;
        if options.home == Home::Kcp && address.workspace.is_none() {
            return Err(ConnectError::NoWorkspace(address.url));
        }
        if let Some(base_host) = options.base_host.as_deref().filter(|given| !given.is_empty()) {
            address = address.with_base(base_host)?;
        }
        let namespace = Arc::from(config.default_namespace.as_str());
        // An exec plugin blocks until it has answered.
        let stack = tokio::task::spawn_blocking(move || stack::build(&config))
            .await
            .map_err(|why| ConnectError::Credentials(why.to_string()))?
            .map_err(|why| ConnectError::Credentials(why.to_string()))?;
        Ok(Self {
            home: Endpoint::new(stack.clone(), &address.url),
            base: Arc::from(address.base.as_str()),
            address: Arc::new(address),
            namespace,
            stack,
        })
    }

    /// The namespace that the kubeconfig's context names; `default` where it names none.
    pub fn default_namespace(&self) -> &str {
        &self.namespace
    }

    /// Exactly where the kubeconfig points: depguard's own workspace in kcp, or the plain cluster.
    pub fn home(&self) -> Endpoint {
        self.home.clone()
    }

    /// The workspace that the kubeconfig's server names, by path or by logical cluster.
    pub fn home_workspace(&self) -> Option<&str> {
        self.address.workspace.as_deref()
    }

    /// The base URL, without a workspace and without a slash at its end.
    pub(crate) fn base(&self) -> &str {
        &self.base
    }

    /// A logical cluster, through the front-proxy.
    pub fn cluster(&self, cluster: &LogicalCluster) -> Endpoint {
        Endpoint::new(self.stack.clone(), &format!("{}/clusters/{cluster}", self.base))
    }

    /// A workspace by its path, through the front-proxy.
    pub fn workspace(&self, path: &WorkspacePath) -> Endpoint {
        Endpoint::new(self.stack.clone(), &format!("{}/clusters/{path}", self.base))
    }

    /// Another URL that the same credentials and certificates are for, as an endpoint slice gives it.
    pub fn at(&self, url: &str) -> Result<Endpoint, ConnectError> {
        let url = self.address.same_protection(address::normalize(url)?)?;
        Ok(Endpoint::new(self.stack.clone(), &url))
    }
}

/// The kubeconfigs of `KUBECONFIG`, merged.
fn from_env() -> Result<Option<Kubeconfig>, KubeconfigError> {
    let paths = std::env::var_os("KUBECONFIG").unwrap_or_default();
    merged(std::env::split_paths(&paths).filter(|path| !path.as_os_str().is_empty()).collect())
}

/// Files that are not there are left out, as kubectl leaves them out, unless none of them is there. `None`: no file is
/// named.
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
            // A context is one of a kubeconfig's.
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

/// The proxy that the cluster of a context, or of the current one, asks for.
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

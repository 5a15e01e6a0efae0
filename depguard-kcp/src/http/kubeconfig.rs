//! Kubeconfig: the files that name the server and the credentials, and the values that replace theirs.

use std::fmt;
use std::io::ErrorKind;
use std::path::PathBuf;

use http::Uri;
use kube_client::config::{
    Cluster, Context, KubeConfigOptions, Kubeconfig, KubeconfigError, NamedCluster, NamedContext,
};

use crate::http::connection::{ConnectError, ConnectOptions};

/// Values that replace a kubeconfig's, as kubectl's flags do.
#[derive(Clone, Default)]
#[non_exhaustive]
pub struct KubeconfigOverrides {
    /// Name of the kubeconfig's cluster.
    pub cluster: Option<String>,
    /// Name of the kubeconfig's user.
    pub user: Option<String>,
    /// URL of the API server. With it no kubeconfig is needed.
    pub server: Option<String>,
    /// Bearer token. It replaces all other credentials.
    pub token: Option<String>,
    /// True to accept any certificate of the server.
    pub insecure_skip_tls_verify: bool,
    /// User to act as.
    pub impersonate: Option<Impersonation>,
}

/// User whom an API server takes for the requester, if the real requester has the right to impersonate them.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Impersonation {
    /// Name of the user, or of a ServiceAccount: `system:serviceaccount:<namespace>:<name>`.
    pub user: String,
    /// Groups of the user.
    pub groups: Vec<String>,
    /// UID of the user.
    pub uid: Option<String>,
}

impl Impersonation {
    /// Impersonates a user without groups.
    pub fn new(user: impl Into<String>) -> Self {
        Self { user: user.into(), groups: Vec::new(), uid: None }
    }
}

/// Names of a kubeconfig's entries, for somebody who chooses among them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct KubeconfigNames {
    /// Names of contexts.
    pub contexts: Vec<String>,
    /// Names of clusters.
    pub clusters: Vec<String>,
    /// Names of users.
    pub users: Vec<String>,
}

impl KubeconfigNames {
    /// Reads the kubeconfig that a connection with these options would use. The pod's own service account has no
    /// entries.
    pub fn read(options: &ConnectOptions) -> Result<Self, ConnectError> {
        let Some((from, kubeconfig)) = find(options) else { return Ok(Self::default()) };
        let kubeconfig = kubeconfig.map_err(|why| ConnectError::Kubeconfig { from, why })?;
        Ok(Self {
            contexts: kubeconfig.contexts.into_iter().map(|context| context.name).collect(),
            clusters: kubeconfig.clusters.into_iter().map(|cluster| cluster.name).collect(),
            users: kubeconfig.auth_infos.into_iter().map(|user| user.name).collect(),
        })
    }
}

/// Leaves the token out.
impl fmt::Debug for KubeconfigOverrides {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { cluster, user, server, token: _, insecure_skip_tls_verify, impersonate } = self;
        f.debug_struct("KubeconfigOverrides")
            .field("cluster", cluster)
            .field("user", user)
            .field("server", server)
            .field("insecure_skip_tls_verify", insecure_skip_tls_verify)
            .field("impersonate", impersonate)
            .finish_non_exhaustive()
    }
}

/// Reads the kubeconfig, or the pod's own service account, and replaces values.
pub(crate) async fn read(options: &ConnectOptions) -> Result<kube_client::Config, ConnectError> {
    if let Some(server) = &options.overrides.server {
        server_url(server)?;
    }
    let mut config = read_config(options).await?;
    replace(&mut config, &options.overrides)?;
    Ok(config)
}

fn replace(config: &mut kube_client::Config, overrides: &KubeconfigOverrides) -> Result<(), ConnectError> {
    let KubeconfigOverrides { cluster: _, user: _, server, token, insecure_skip_tls_verify, impersonate } = overrides;
    if let Some(server) = server {
        config.cluster_url = server_url(server)?;
        // The name belongs to the certificate of the kubeconfig's server.
        config.tls_server_name = None;
    }
    if *insecure_skip_tls_verify {
        (config.accept_invalid_certs, config.root_cert, config.root_cert_file) = (true, None, None);
    }
    if let Some(token) = token {
        let own = std::mem::take(&mut config.auth_info);
        config.auth_info.token = Some(token.clone().into());
        config.auth_info.impersonate = own.impersonate;
        config.auth_info.impersonate_groups = own.impersonate_groups;
        config.auth_info.impersonate_uid = own.impersonate_uid;
        config.auth_info.impersonate_user_extra = own.impersonate_user_extra;
    }
    if let Some(Impersonation { user, groups, uid }) = impersonate {
        config.auth_info.impersonate = Some(user.clone());
        config.auth_info.impersonate_groups = Some(groups.clone()).filter(|groups| !groups.is_empty());
        config.auth_info.impersonate_uid = uid.clone();
        config.auth_info.impersonate_user_extra = None;
    }
    Ok(())
}

fn server_url(server: &str) -> Result<Uri, ConnectError> {
    let url: Option<Uri> = server.parse().ok();
    let is_whole = |url: &Uri| matches!(url.scheme_str(), Some("https" | "http")) && url.host().is_some();
    url.filter(is_whole).ok_or_else(|| ConnectError::Server(server.to_owned()))
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

/// Reads the default kubeconfig. If the file is missing and not needed, returns an empty kubeconfig.
fn from_default_file(is_needed: bool) -> Result<Kubeconfig, KubeconfigError> {
    match Kubeconfig::read() {
        Err(KubeconfigError::FindPath) if !is_needed => Ok(Kubeconfig::default()),
        Err(KubeconfigError::ReadConfig(why, _)) if !is_needed && why.kind() == ErrorKind::NotFound => {
            Ok(Kubeconfig::default())
        }
        read => read,
    }
}

/// Kubeconfig, after its source in words.
type SourcedKubeconfig = (String, Result<Kubeconfig, KubeconfigError>);

/// Returns the kubeconfig, or `None` if the pod's own service account takes its place.
fn find(options: &ConnectOptions) -> Option<SourcedKubeconfig> {
    let KubeconfigOverrides { cluster, user, server, .. } = &options.overrides;
    // In-cluster configuration has no entries, so each of these needs a kubeconfig.
    let names_an_entry = options.context.is_some() || cluster.is_some() || user.is_some();
    if let Some(file) = &options.kubeconfig {
        return Some((format!("`{}`", file.display()), Kubeconfig::read_from(file)));
    }
    if let Some(read) = from_env().transpose() {
        return Some(("of `KUBECONFIG`".to_owned(), read));
    }
    // The pod's token is for its own API server, so another server gets none.
    let is_default = !names_an_entry && server.is_none();
    if is_default && std::env::var_os("KUBERNETES_SERVICE_HOST").is_some() {
        return None;
    }
    let from = "`~/.kube/config` (name another with `--kubeconfig` or in `KUBECONFIG`)".to_owned();
    Some((from, from_default_file(names_an_entry || server.is_none())))
}

async fn read_config(options: &ConnectOptions) -> Result<kube_client::Config, ConnectError> {
    let Some((from, kubeconfig)) = find(options) else {
        return kube_client::Config::incluster().map_err(ConnectError::InCluster);
    };
    let refused = |why| ConnectError::Kubeconfig { from: from.clone(), why };
    let mut kubeconfig = kubeconfig.map_err(refused)?;
    complete(&mut kubeconfig, options);
    if let Some(proxy) = proxy(&kubeconfig, options) {
        return Err(ConnectError::Proxy(proxy));
    }
    let KubeconfigOverrides { cluster, user, .. } = &options.overrides;
    let chosen = KubeConfigOptions { context: options.context.clone(), cluster: cluster.clone(), user: user.clone() };
    kube_client::Config::from_custom_kubeconfig(kubeconfig, &chosen).await.map_err(refused)
}

/// Adds a context if the kubeconfig has no current one, and the options name none but a cluster or a server.
fn complete(kubeconfig: &mut Kubeconfig, options: &ConnectOptions) {
    let KubeconfigOverrides { cluster, user, server, .. } = &options.overrides;
    let has_context = options.context.is_some() || kubeconfig.current_context.as_ref().is_some_and(|c| !c.is_empty());
    if has_context || (cluster.is_none() && server.is_none()) {
        return;
    }
    if cluster.is_none() {
        let cluster = Cluster { server: server.clone(), ..Cluster::default() };
        kubeconfig.clusters.push(NamedCluster { cluster: Some(cluster), ..NamedCluster::default() });
    }
    let context = Context { cluster: cluster.clone().unwrap_or_default(), user: user.clone(), ..Context::default() };
    kubeconfig.contexts.push(NamedContext { context: Some(context), ..NamedContext::default() });
    kubeconfig.current_context = Some(String::new());
}

/// Returns the proxy that the chosen cluster asks for.
fn proxy(kubeconfig: &Kubeconfig, options: &ConnectOptions) -> Option<String> {
    let current = options.context.as_ref().or(kubeconfig.current_context.as_ref())?;
    let context = kubeconfig.contexts.iter().find(|context| &context.name == current)?.context.as_ref()?;
    let name = options.overrides.cluster.as_ref().unwrap_or(&context.cluster);
    let cluster = kubeconfig.clusters.iter().find(|cluster| cluster.name == *name)?.cluster.as_ref()?;
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

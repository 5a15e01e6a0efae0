//! Servers of the play: testbeds of its own, or existing servers that stay as they were.

use std::path::{Path, PathBuf};
use std::time::Duration;

use depguard_testbed::{Kind, Options, Testbed};
use k8s_openapi::api::core::v1::Namespace;
use kube_client::config::{KubeConfigOptions, Kubeconfig};
use kube_client::core::ObjectMeta;
use kube_client::core::params::{DeleteParams, PostParams};
use kube_client::{Api, Config};

use crate::platform::{Platform, connect, read_kubeconfig};
use crate::play::profile::CONFIG;
use crate::provider::definitions;
use crate::{Error, Result};

/// Name of the environment in the play.
const ENVIRONMENT: &str = "play";
/// Shortest life of a token on a real server.
const SHORTEST: Duration = Duration::from_secs(600);
/// Shortest life of a token on the play's own testbed.
const SHORTEST_HERE: Duration = Duration::from_secs(5);

/// Servers and names of the play.
pub(super) struct Setting {
    platform: Option<PathBuf>,
    kcp: Option<PathBuf>,
    /// Suffix that tells this play's objects from an earlier one's on the same server.
    suffix: String,
    namespace: String,
    testbeds: Vec<Testbed>,
}

impl Setting {
    pub(super) async fn new(platform: Option<&Path>, kcp: Option<&Path>) -> Result<Self> {
        let suffix = match platform {
            Some(_) => format!("-{}", std::process::id()),
            None => String::new(),
        };
        let own = |file: Option<&Path>| file.map(Path::to_owned);
        let namespace = format!("play{suffix}");
        Ok(Self { platform: own(platform), kcp: own(kcp), namespace, suffix, testbeds: Vec::new() })
    }

    pub(super) fn namespace(&self) -> &str {
        &self.namespace
    }

    pub(super) fn named(&self, name: &str) -> String {
        format!("{name}{}", self.suffix)
    }

    /// Returns the shortest life that the server grants, because the play waits until tokens are renewed.
    pub(super) fn token_lifetime(&self) -> Duration {
        if self.kcp.is_some() { SHORTEST } else { SHORTEST_HERE }
    }

    pub(super) async fn platform(&mut self) -> Result<Platform> {
        let config = match &self.platform {
            Some(file) => read_kubeconfig(Some(file)).await?,
            None => self.testbed(Kind::Kubernetes, "").await?,
        };
        println!("the platform cluster is {}", config.cluster_url);
        Ok(Platform::new(connect(config)?, self.named("workspaces"), ENVIRONMENT))
    }

    pub(super) async fn kcp(&mut self) -> Result<Config> {
        let config = match &self.kcp {
            Some(file) => read_kubeconfig(Some(file)).await?,
            None => self.testbed(Kind::Kcp, "root").await?,
        };
        println!("workspaces are made under {}", config.cluster_url);
        Ok(config)
    }

    /// Creates the objects that a platform cluster has before any provider comes: the contract's kinds, and a
    /// namespace.
    pub(super) async fn prepare(&self, platform: &Platform) -> Result<()> {
        definitions::install_contract(platform).await?;
        let namespaces: Api<Namespace> = Api::all(platform.client());
        let metadata = ObjectMeta { name: Some(self.namespace.clone()), ..ObjectMeta::default() };
        let namespace = Namespace { metadata, ..Namespace::default() };
        let made = namespaces.create(&PostParams::default(), &namespace).await;
        made.map_err(Error::api(format!("make namespace `{}`", self.namespace)))?;
        Ok(())
    }

    /// Deletes the namespace again.
    pub(super) async fn sweep(&self, platform: &Platform) -> Result<()> {
        let namespaces: Api<Namespace> = Api::all(platform.client());
        let gone = namespaces.delete(&self.namespace, &DeleteParams::default()).await;
        gone.map_err(Error::api(format!("delete namespace `{}`", self.namespace)))?;
        Ok(())
    }

    /// Returns a hint at the objects that a failed play left on a server that is not its own.
    pub(super) fn leftovers(&self) -> Option<String> {
        self.platform.as_ref()?;
        let config = self.named(CONFIG);
        Some(format!(
            "the created objects stay: see namespace `{}` and WorkspaceProviderConfig `{config}`",
            self.namespace
        ))
    }

    pub(super) async fn stop(self) {
        for testbed in self.testbeds {
            testbed.stop().await;
        }
    }

    async fn testbed(&mut self, kind: Kind, workspace: &str) -> Result<Config> {
        let options = Options::new(kind).rbac().shortest_token(SHORTEST_HERE);
        let started = Testbed::start(options).await;
        let testbed = started.map_err(|error| Error::Refused(format!("no testbed could be started: {error}")))?;
        let failed = |source| Error::Kubeconfig { which: "of the testbed".to_owned(), source: Box::new(source) };
        let kubeconfig = Kubeconfig::from_yaml(&testbed.kubeconfig(workspace, "admin")).map_err(failed)?;
        self.testbeds.push(testbed);
        Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await.map_err(failed)
    }
}

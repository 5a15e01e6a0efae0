//! Testbed, and commands against it.

use std::path::Path;

use depguard_core::ControlPlane;
use depguard_kcp::{ConnectOptions, Connection, Endpoint};
use depguard_testbed::{Options, Testbed};
use serde_json::Value;
use tempfile::TempDir;
use tokio::time::{Duration, Instant, sleep};

use crate::tool::{Ran, depguard};

const PATIENCE: Duration = Duration::from_secs(60);

pub(crate) struct Bed {
    pub(crate) testbed: Testbed,
    folder: TempDir,
    connection: Connection,
}

impl Bed {
    pub(crate) async fn kubernetes() -> Self {
        Self::start(Options::kubernetes(), ControlPlane::Kubernetes, "").await
    }

    /// Starts a cluster with RBAC: users other than the administrator may do what their roles allow.
    pub(crate) async fn kubernetes_with_rights() -> Self {
        let options = Options::kubernetes().rbac();
        Self::start(options, ControlPlane::Kubernetes, "").await
    }

    /// Starts a kcp; the administrator's kubeconfig points at `root`.
    pub(crate) async fn kcp() -> Self {
        Self::start(Options::default(), ControlPlane::Kcp, "root").await
    }

    async fn start(options: Options, control_plane: ControlPlane, workspace: &str) -> Self {
        let testbed = Testbed::start(options).await.unwrap();
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("kubeconfig"), testbed.kubeconfig(workspace, "admin")).unwrap();
        let connection = connect(&folder.path().join("kubeconfig"), control_plane).await;
        Self { testbed, folder, connection }
    }

    /// Writes a kubeconfig for another user or workspace, and returns its path.
    pub(crate) fn kubeconfig(&self, name: &str, workspace: &str, user: &str) -> String {
        let path = self.folder.path().join(name);
        std::fs::write(&path, self.testbed.kubeconfig(workspace, user)).unwrap();
        path.to_str().unwrap().to_owned()
    }

    /// Runs a command with the administrator's kubeconfig.
    pub(crate) async fn depguard(&self, args: &[&str]) -> Ran {
        let kubeconfig = self.folder.path().join("kubeconfig");
        depguard(&[args, &["--kubeconfig", kubeconfig.to_str().unwrap()]].concat()).await
    }

    pub(crate) fn endpoint(&self) -> Endpoint {
        self.connection.own_endpoint()
    }

    pub(crate) fn workspace(&self, path: &str) -> Endpoint {
        self.connection.workspace(&path.parse().unwrap())
    }
}

pub(crate) async fn connect(kubeconfig: impl AsRef<Path>, control_plane: ControlPlane) -> Connection {
    let kubeconfig = Some(kubeconfig.as_ref().to_owned());
    Connection::open(&ConnectOptions::new(control_plane).kubeconfig(kubeconfig)).await.unwrap()
}

/// Returns the object, if it exists.
pub(crate) async fn exists(endpoint: &Endpoint, path: &str) -> Option<Value> {
    match endpoint.get_json(path).await {
        Ok(found) => Some(found),
        Err(why) if why.is_not_found() => None,
        Err(why) => panic!("{why}"),
    }
}

/// Waits for a state, however long a busy machine takes.
pub(crate) async fn eventually<T, E: std::fmt::Debug>(what: &str, check: impl AsyncFn() -> Result<T, E>) -> T {
    let end = Instant::now() + PATIENCE;
    loop {
        match check().await {
            Ok(done) => return done,
            Err(why) if Instant::now() > end => panic!("{what}: {why:?}"),
            Err(_) => sleep(Duration::from_millis(100)).await,
        }
    }
}

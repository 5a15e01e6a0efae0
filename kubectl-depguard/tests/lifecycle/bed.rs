//! A testbed, and commands against it.

use std::ffi::OsString;
use std::path::Path;

use depguard_core::Home;
use depguard_kcp::{ConnectOptions, Connection, Endpoint};
use depguard_testbed::{Options, Testbed};
use kubectl_depguard::{ExitStatus, Terminal, run};
use serde_json::Value;
use tempfile::TempDir;
use tokio::time::{Duration, Instant, sleep};

const PATIENCE: Duration = Duration::from_secs(60);

pub(crate) struct Bed {
    pub(crate) testbed: Testbed,
    folder: TempDir,
    connection: Connection,
}

/// What a command came to.
pub(crate) struct Done {
    pub(crate) status: ExitStatus,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl Bed {
    pub(crate) async fn kubernetes() -> Self {
        Self::start(Options::kubernetes(), Home::Kubernetes, "").await
    }

    /// Where who is not an administrator may do what roles say.
    pub(crate) async fn kubernetes_with_rights() -> Self {
        let options = Options::kubernetes().rbac();
        Self::start(options, Home::Kubernetes, "").await
    }

    /// Whose kubeconfig points at `root`.
    pub(crate) async fn kcp() -> Self {
        Self::start(Options::default(), Home::Kcp, "root").await
    }

    async fn start(options: Options, home: Home, workspace: &str) -> Self {
        let testbed = Testbed::start(options).await.unwrap();
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("kubeconfig"), testbed.kubeconfig(workspace, "admin")).unwrap();
        let connection = connect(&folder.path().join("kubeconfig"), home).await;
        Self { testbed, folder, connection }
    }

    /// Writes a kubeconfig of somebody else, or of another workspace, and gives its path.
    pub(crate) fn kubeconfig(&self, name: &str, workspace: &str, user: &str) -> String {
        let path = self.folder.path().join(name);
        std::fs::write(&path, self.testbed.kubeconfig(workspace, user)).unwrap();
        path.to_str().unwrap().to_owned()
    }

    /// A command with the administrator's kubeconfig.
    pub(crate) async fn depguard(&self, args: &[&str]) -> Done {
        let kubeconfig = self.folder.path().join("kubeconfig");
        depguard(&[args, &["--kubeconfig", kubeconfig.to_str().unwrap()]].concat()).await
    }

    pub(crate) fn endpoint(&self) -> Endpoint {
        self.connection.home()
    }

    pub(crate) fn workspace(&self, path: &str) -> Endpoint {
        self.connection.workspace(&path.parse().unwrap())
    }
}

impl Done {
    /// What it printed, as it was well.
    pub(crate) fn well(self) -> String {
        assert_eq!(self.status, ExitStatus::Well, "{}{}", self.out, self.err);
        self.out
    }
}

pub(crate) async fn depguard(args: &[&str]) -> Done {
    let (mut terminal, captured) = Terminal::captured("");
    let args = ["kubectl-depguard"].iter().chain(args).map(OsString::from);
    let status = run(args, &mut terminal).await;
    Done { status, out: captured.out(), err: captured.err() }
}

pub(crate) async fn connect(kubeconfig: impl AsRef<Path>, home: Home) -> Connection {
    let kubeconfig = Some(kubeconfig.as_ref().to_owned());
    Connection::open(&ConnectOptions::new(home).kubeconfig(kubeconfig)).await.unwrap()
}

/// The object, if it is there.
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

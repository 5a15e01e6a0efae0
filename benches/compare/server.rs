//! API server of the comparison: the testbed in a process of its own, or a real kcp.

use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};

use depguard_core::ControlPlane;
use depguard_e2e::Ring;
use depguard_kcp::{ConnectOptions, Connection};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::Result;
use crate::child::Child;
use crate::objects::{GROUP, Kind};

/// API server that was started.
pub(crate) struct Server {
    running: Running,
    folder: TempDir,
    files: AtomicUsize,
}

enum Running {
    Testbed { child: Box<Child>, url: String },
    Kcp(Box<Ring>),
}

/// Counts of the lists of one kind so far.
#[derive(Debug, Clone, Copy, Default, Deserialize)]
pub(crate) struct Lists {
    /// Number of lists begun. A real server doesn't tell lists from pages.
    pub(crate) begun: Option<u64>,
    pub(crate) requests: u64,
    pub(crate) bytes: u64,
}

/// Objects with which a testbed is filled.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Fill {
    pub(crate) workspace: String,
    pub(crate) dependents: usize,
    pub(crate) bytes: usize,
    /// Set if there are also dependents whose reference is a printed column.
    pub(crate) prints: bool,
    /// Number of targets that nothing refers to.
    pub(crate) free: usize,
    /// Number of free targets that share a label.
    pub(crate) set: usize,
}

impl Server {
    pub(crate) async fn testbed() -> Result<Self> {
        let (child, ready) = Child::start("testbed", &[]).await?;
        let text = |field: &str| ready[field].as_str().unwrap_or_default().to_owned();
        let server = Self::new(Running::Testbed { child: Box::new(child), url: text("url") })?;
        std::fs::write(server.folder.path().join("ca.crt"), text("ca"))?;
        Ok(server)
    }

    /// Starts the kcp that `KCP_BIN` or `PATH` names. Returns `None` if there is none.
    pub(crate) async fn kcp() -> Result<Option<Self>> {
        match Ring::kcp().await {
            None => Ok(None),
            Some(ring) => Ok(Some(Self::new(Running::Kcp(Box::new(ring.map_err(|stop| stop.to_string())?)))?)),
        }
    }

    fn new(running: Running) -> Result<Self> {
        Ok(Self { running, folder: tempfile::tempdir()?, files: AtomicUsize::new(0) })
    }

    pub(crate) fn is_testbed(&self) -> bool {
        matches!(self.running, Running::Testbed { .. })
    }

    pub(crate) fn name(&self) -> &'static str {
        if self.is_testbed() { "testbed" } else { "kcp" }
    }

    /// Writes the administrator's kubeconfig for a workspace.
    pub(crate) fn kubeconfig(&self, workspace: &str) -> Result<PathBuf> {
        let number = self.files.fetch_add(1, Ordering::Relaxed);
        let file = self.folder.path().join(format!("{number}.kubeconfig"));
        match &self.running {
            Running::Kcp(ring) => ring.write_kubeconfig(workspace, &file).map_err(|stop| stop.to_string())?,
            Running::Testbed { url, .. } => {
                let config = json!({
                    "apiVersion": "v1", "kind": "Config", "current-context": "compare",
                    "clusters": [{"name": "compare", "cluster": {
                        "server": format!("{url}/clusters/{workspace}"),
                        "certificate-authority": self.folder.path().join("ca.crt"),
                    }}],
                    "users": [{"name": "compare", "user": {"token": "admin"}}],
                    "contexts": [{"name": "compare", "context": {"cluster": "compare", "user": "compare"}}],
                });
                std::fs::write(&file, config.to_string())?;
            }
        }
        Ok(file)
    }

    /// Opens the administrator's connection.
    pub(crate) async fn connect(&self) -> Result<Connection> {
        let kubeconfig = Some(self.kubeconfig("root")?);
        Ok(Connection::open(&ConnectOptions::new(ControlPlane::Kcp).kubeconfig(kubeconfig)).await?)
    }

    /// Fills a scene's objects into a testbed.
    pub(crate) async fn fill(&mut self, fill: &Fill) -> Result {
        let Running::Testbed { child, .. } = &mut self.running else {
            return Err("objects can't be written into a kcp directly".into());
        };
        child.ask(&json!({"fill": fill})).await.map(drop)
    }

    /// Returns the counts of a kind's lists. The testbed counts them; a kcp shows them in its metrics.
    pub(crate) async fn lists(&mut self, connection: &Connection, kind: Kind) -> Result<Lists> {
        match &mut self.running {
            Running::Testbed { child, .. } => {
                Ok(serde_json::from_value(child.ask(&json!({"lists": kind.plural()})).await?)?)
            }
            Running::Kcp(_) => {
                // The metrics belong to the shard, above all workspaces.
                let own = connection.own_endpoint();
                let base = own.url().split("/clusters/").next().unwrap_or_default();
                let response = connection.at(base)?.get("/metrics").await?;
                let text = String::from_utf8_lossy(response.body());
                if !response.status().is_success() {
                    return Err(format!("GET /metrics: {}: {text}", response.status()).into());
                }
                Ok(of_metrics(&text, kind))
            }
        }
    }
}

fn of_metrics(text: &str, kind: Kind) -> Lists {
    let labels = [format!("resource=\"{}\"", kind.plural()), format!("group=\"{GROUP}\""), "verb=\"LIST\"".to_owned()];
    let sum = |metric: &str| {
        let lines =
            text.lines().filter(|line| line.starts_with(metric) && labels.iter().all(|label| line.contains(label)));
        lines.filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok()).sum::<f64>() as u64
    };
    Lists { begun: None, requests: sum("apiserver_request_total{"), bytes: sum("apiserver_response_sizes_sum{") }
}

impl std::ops::Sub for Lists {
    type Output = Lists;

    fn sub(self, before: Lists) -> Lists {
        Lists {
            begun: self.begun.zip(before.begun).map(|(now, then)| now - then),
            requests: self.requests - before.requests,
            bytes: self.bytes - before.bytes,
        }
    }
}

/// Returns a field of a kubeconfig that [`Server::kubeconfig`] wrote.
pub(crate) fn of_kubeconfig<'a>(config: &'a Value, pointer: &str) -> Result<&'a str> {
    config.pointer(pointer).and_then(Value::as_str).ok_or_else(|| format!("the kubeconfig has no {pointer}").into())
}

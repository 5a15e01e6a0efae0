//! A started API server.

mod kcp;
mod kube;
mod process;
mod testbed;

pub(crate) use process::free_port;

use std::path::Path;
use std::time::Duration;

use serde_json::{Value, json};
use tempfile::NamedTempFile;

use crate::api::Api;
use crate::outcome::{Outcome, Stop, eventually};
use crate::selection::{self, Programs, RingKind};

/// An API server that this test started, and that ends with it.
pub struct Ring {
    kind: RingKind,
    access: Access,
    controllers: bool,
    /// Ends the servers when dropped.
    servers: Servers,
}

/// Where a server is and who may enter.
struct Access {
    url: String,
    ca: NamedTempFile,
    admin_token: String,
    tenant_token: String,
    masters_token: String,
}

enum Servers {
    Testbed(depguard_testbed::Testbed),
    Processes(process::Processes),
}

impl Ring {
    /// Starts the servers of a ring and waits until they are ready.
    pub(crate) async fn start(kind: RingKind, programs: &Programs) -> Outcome<Ring> {
        match (kind, programs) {
            (RingKind::Kube, Programs::Kube(folder)) => kube::start(folder, kube::TEARDOWN).await,
            (RingKind::Kcp | RingKind::KcpExport, Programs::Kcp(binary)) => kcp::start(kind, binary).await,
            (kind, Programs::None) if kind.is_testbed() => testbed::start(kind).await,
            _ => Err(Stop::failed("these programs are not this ring's")),
        }
    }

    /// Starts a testbed.
    pub async fn testbed(kind: RingKind) -> Outcome<Ring> {
        Ring::start(kind, &Programs::None).await
    }

    /// Starts the kcp that `KCP_BIN`, or `kcp` on `PATH`, names; `None` if neither does.
    pub async fn kcp() -> Option<Outcome<Ring>> {
        match RingKind::Kcp.programs() {
            Ok(programs) => Some(Ring::start(RingKind::Kcp, &programs).await),
            Err(_) => None,
        }
    }

    /// Starts a kube-apiserver with the controllers that make pods; else says why it can't.
    pub async fn cluster() -> Result<Outcome<Ring>, String> {
        let chosen = selection::wanted(std::env::var(selection::VARIABLE).ok().as_deref())?;
        if !chosen.contains(&RingKind::Kube) {
            return Err(format!("{}=kube runs it", selection::VARIABLE));
        }
        let Programs::Kube(folder) = RingKind::Kube.programs()? else {
            return Err("these programs are not its".to_owned());
        };
        if !folder.join("kube-controller-manager").is_file() {
            return Err(format!("no kube-controller-manager in {}", folder.display()));
        }
        Ok(kube::start(&folder, kube::WORKLOADS).await)
    }

    async fn open(kind: RingKind, access: Access, servers: Servers) -> Outcome<Ring> {
        let ring = Ring { kind, access, controllers: kind != RingKind::Kube, servers };
        let admin = ring.admin().await?;
        let ready = eventually("the server is ready", Duration::from_secs(90), async || {
            admin.get("/readyz").await?.ok().map(drop)
        });
        let Servers::Processes(processes) = &ring.servers else {
            ready.await?;
            return Ok(ring);
        };
        let opened = tokio::select! {
            opened = ready => opened,
            ended = processes.until_one_ends() => Err(ended),
        };
        opened.map_err(|stop| processes.explain(&stop))?;
        Ok(ring)
    }

    /// Which ring this is.
    pub fn kind(&self) -> RingKind {
        self.kind
    }

    /// Whether something here tears down namespaces.
    pub fn has_controllers(&self) -> bool {
        self.controllers
    }

    /// How long to wait for what comes in its own time.
    pub fn patience(&self) -> Duration {
        Duration::from_secs(if self.kind.is_testbed() { 30 } else { 90 })
    }

    /// A fresh client of the administrator. Its connections belong to the runtime it is first used on.
    pub async fn admin(&self) -> Outcome<Api> {
        Api::open(&self.access.kubeconfig("", &self.access.admin_token)).await
    }

    /// A fresh client of an ordinary user, likewise.
    pub async fn tenant(&self) -> Outcome<Api> {
        Api::open(&self.access.kubeconfig("", &self.access.tenant_token)).await
    }

    /// A fresh client of whoever has a token.
    pub async fn api_of(&self, token: &str) -> Outcome<Api> {
        Api::open(&self.access.kubeconfig("", token)).await
    }

    /// What the server has on record of the deletions of locks in a namespace: the annotations of each. Nothing where it
    /// keeps no record.
    pub fn audits_of_locks(&self, namespace: &str) -> Outcome<Option<Vec<Value>>> {
        let processes = match &self.servers {
            Servers::Testbed(testbed) => {
                let mut audits = testbed.audits();
                audits.retain(|audit| audit.operation == "DELETE" && audit.namespace == namespace);
                return Ok(Some(audits.into_iter().map(|audit| json!(audit.annotations)).collect()));
            }
            Servers::Processes(processes) => processes,
        };
        if self.kind != RingKind::Kube {
            return Ok(None);
        }
        let log = std::fs::read_to_string(processes.file(kube::AUDIT_LOG))?;
        // The last line may be in the middle of being written.
        let mut events: Vec<Value> = log.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
        events.retain(|event| event["verb"] == "delete" && event["objectRef"]["namespace"] == namespace);
        Ok(Some(events.into_iter().map(|mut event| event["annotations"].take()).collect()))
    }

    /// The server itself, where it runs in this process.
    pub(crate) fn in_process(&self) -> Option<&depguard_testbed::Testbed> {
        match &self.servers {
            Servers::Testbed(testbed) => Some(testbed),
            Servers::Processes(_) => None,
        }
    }

    /// A fresh client of who is above every authorizer.
    pub(crate) async fn masters(&self) -> Outcome<Api> {
        Api::open(&self.access.kubeconfig("", &self.access.masters_token)).await
    }

    /// Where a workspace is on this server; on a plain cluster there is only one place.
    pub fn prefix(&self, workspace: &str) -> String {
        if self.kind.is_kcp() { format!("/clusters/{workspace}") } else { String::new() }
    }

    /// A kubeconfig of whoever has this token, for a plain cluster.
    pub fn kubeconfig_of(&self, token: &str) -> String {
        self.access.kubeconfig("", token)
    }

    /// Writes the administrator's kubeconfig, pointing at a workspace.
    pub fn write_kubeconfig(&self, workspace: &str, file: &Path) -> Outcome {
        self.write_kubeconfig_of(&self.access.admin_token, workspace, file)
    }

    /// Writes the ordinary user's kubeconfig, likewise.
    pub fn write_tenant_kubeconfig(&self, workspace: &str, file: &Path) -> Outcome {
        self.write_kubeconfig_of(&self.access.tenant_token, workspace, file)
    }

    /// The same of whoever has a token.
    pub(crate) fn write_kubeconfig_of(&self, token: &str, workspace: &str, file: &Path) -> Outcome {
        Ok(std::fs::write(file, self.access.kubeconfig(&self.prefix(workspace), token))?)
    }
}

impl Access {
    fn new(url: String, ca_pem: &str, [admin, tenant, masters]: [&str; 3]) -> Outcome<Access> {
        let ca = NamedTempFile::with_suffix(".crt")?;
        std::fs::write(ca.path(), ca_pem)?;
        Ok(Access {
            url,
            ca,
            admin_token: admin.to_owned(),
            tenant_token: tenant.to_owned(),
            masters_token: masters.to_owned(),
        })
    }

    fn kubeconfig(&self, prefix: &str, token: &str) -> String {
        // JSON is YAML, and needs no care with indentation.
        json!({
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "e2e",
            "clusters": [{"name": "e2e", "cluster": {
                "server": format!("{}{prefix}", self.url),
                "certificate-authority": self.ca.path(),
            }}],
            "users": [{"name": "e2e", "user": {"token": token}}],
            "contexts": [{"name": "e2e", "context": {"cluster": "e2e", "user": "e2e"}}],
        })
        .to_string()
    }
}

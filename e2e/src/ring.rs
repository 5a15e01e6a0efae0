//! A started API server.

mod kcp;
mod kube;
mod process;
mod second;
mod shards;
mod testbed;

pub use second::SecondApiServer;
pub use shards::{Outage, Shard};

use std::path::Path;
use std::time::Duration;

use serde_json::{Value, json};
use tempfile::NamedTempFile;

use crate::api::Api;
use crate::outcome::{Outcome, Stop, eventually};
use crate::selection::{self, Programs, RingKind};

/// API server that this test started and that stops with the test.
pub struct Ring {
    kind: RingKind,
    access: Access,
    controllers: bool,
    /// The shards that run as processes of their own.
    shards: Vec<Shard>,
    /// The servers; dropping this stops them.
    servers: Servers,
}

/// URL and credentials of a server.
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
    /// Token of the administrator as whom Kubernetes' own tests run on a real kube-apiserver, which records this user's
    /// changes.
    pub const SUITE_TOKEN: &str = "suite-token";

    /// Starts the servers of a ring and waits until they are ready.
    pub(crate) async fn start(kind: RingKind, programs: &Programs) -> Outcome<Ring> {
        match (kind, programs) {
            (RingKind::Kube, Programs::Kube(folder)) => kube::start(kind, folder, kube::TEARDOWN).await,
            (RingKind::Conformance, Programs::Kube(folder)) => kube::start(kind, folder, kube::ALL).await,
            (RingKind::Kcp | RingKind::KcpExport, Programs::Kcp(binary)) => kcp::start(kind, binary).await,
            (RingKind::KcpShards | RingKind::KcpShardsExport, Programs::KcpShards(programs)) => {
                shards::start(kind, programs).await
            }
            (kind, Programs::None) if kind.is_testbed() => testbed::start(kind).await,
            _ => Err(Stop::failed("these programs are not this ring's")),
        }
    }

    /// Starts a testbed.
    pub async fn testbed(kind: RingKind) -> Outcome<Ring> {
        Ring::start(kind, &Programs::None).await
    }

    /// Starts the kcp that `KCP_BIN` names, or else the `kcp` on `PATH`; returns `None` if there is neither.
    pub async fn kcp() -> Option<Outcome<Ring>> {
        match RingKind::Kcp.programs() {
            Ok(programs) => Some(Ring::start(RingKind::Kcp, &programs).await),
            Err(_) => None,
        }
    }

    /// Starts a kcp of one shard if `DEPGUARD_RINGS` names that ring; otherwise returns the reason not to.
    pub async fn chosen_kcp() -> Result<Outcome<Ring>, String> {
        Ok(Ring::start(RingKind::Kcp, &chosen(RingKind::Kcp)?).await)
    }

    /// Starts a kube-apiserver with the controllers that make pods, if `DEPGUARD_RINGS` names that ring; otherwise
    /// returns the reason not to.
    pub async fn cluster() -> Result<Outcome<Ring>, String> {
        let Programs::Kube(folder) = chosen(RingKind::Kube)? else {
            return Err("these programs are not its".to_owned());
        };
        if !folder.join("kube-controller-manager").is_file() {
            return Err(format!("no kube-controller-manager in {}", folder.display()));
        }
        Ok(kube::start(RingKind::Kube, &folder, kube::WORKLOADS).await)
    }

    async fn open(kind: RingKind, access: Access, servers: Servers) -> Outcome<Ring> {
        // A kube-apiserver starts without any.
        let controllers = !matches!(kind, RingKind::Kube | RingKind::Conformance);
        let ring = Ring { kind, access, controllers, shards: Vec::new(), servers };
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

    /// Returns the kind of this ring.
    pub fn kind(&self) -> RingKind {
        self.kind
    }

    /// Returns the server's URL, without a workspace.
    pub fn url(&self) -> &str {
        &self.access.url
    }

    /// Returns the file with the certificate of the authority that signed the server's certificate.
    pub fn ca_file(&self) -> &Path {
        self.access.ca.path()
    }

    /// Returns true if a controller on this ring tears down namespaces.
    pub fn has_controllers(&self) -> bool {
        self.controllers
    }

    /// Returns the time to wait for a state that takes its time.
    pub fn patience(&self) -> Duration {
        Duration::from_secs(if self.kind.is_testbed() { 30 } else { 90 })
    }

    /// Opens a new client of the administrator. Its connections belong to the runtime that first uses the client.
    pub async fn admin(&self) -> Outcome<Api> {
        Api::open(&self.access.kubeconfig("", &self.access.admin_token)).await
    }

    /// Opens a new client of an ordinary user, likewise.
    pub async fn tenant(&self) -> Outcome<Api> {
        Api::open(&self.access.kubeconfig("", &self.access.tenant_token)).await
    }

    /// Opens a new client of the owner of this token.
    pub async fn api_of(&self, token: &str) -> Outcome<Api> {
        Api::open(&self.access.kubeconfig("", token)).await
    }

    /// Returns the audit annotations of each recorded deletion in a namespace: on a testbed, of the deletions that
    /// webhooks reviewed; on a real kube-apiserver, of the deletions of locks. Returns `None` on a real kcp, whose
    /// deletions are not recorded.
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
        let mut events = audit_log(processes)?;
        events.retain(|event| event["verb"] == "delete" && event["objectRef"]["namespace"] == namespace);
        Ok(Some(events.into_iter().map(|mut event| event["annotations"].take()).collect()))
    }

    /// Returns the messages with which admission webhooks refused requests of [`Ring::SUITE_TOKEN`]'s user, on a real
    /// kube-apiserver.
    pub fn refusals_of_suite(&self) -> Outcome<Vec<String>> {
        let mut events = audit_log(self.processes()?)?;
        events.retain(|event| event["user"]["username"] == kube::SUITE);
        let messages = events.iter().filter_map(|event| event["responseStatus"]["message"].as_str());
        Ok(messages.filter(|message| message.contains("admission webhook")).map(str::to_owned).collect())
    }

    /// Returns the server itself if it runs in this process.
    pub fn in_process(&self) -> Option<&depguard_testbed::Testbed> {
        match &self.servers {
            Servers::Testbed(testbed) => Some(testbed),
            Servers::Processes(_) => None,
        }
    }

    fn processes(&self) -> Outcome<&process::Processes> {
        match &self.servers {
            Servers::Processes(processes) => Ok(processes),
            Servers::Testbed(_) => Err(Stop::failed("a testbed is no process")),
        }
    }

    /// Opens a new client of a member of `system:masters`, whom every authorizer lets do everything.
    pub(crate) async fn masters(&self) -> Outcome<Api> {
        Api::open(&self.access.kubeconfig("", &self.access.masters_token)).await
    }

    /// Returns the path prefix of a workspace on this server; on a plain cluster the prefix is empty.
    pub fn prefix(&self, workspace: &str) -> String {
        if self.kind.is_kcp() { format!("/clusters/{workspace}") } else { String::new() }
    }

    /// Builds a kubeconfig of the owner of this token, for a plain cluster.
    pub fn kubeconfig_of(&self, token: &str) -> String {
        self.access.kubeconfig("", token)
    }

    /// Writes the administrator's kubeconfig for a workspace.
    pub fn write_kubeconfig(&self, workspace: &str, file: &Path) -> Outcome {
        self.write_kubeconfig_of(&self.access.admin_token, workspace, file)
    }

    /// Writes the ordinary user's kubeconfig for a workspace.
    pub fn write_tenant_kubeconfig(&self, workspace: &str, file: &Path) -> Outcome {
        self.write_kubeconfig_of(&self.access.tenant_token, workspace, file)
    }

    /// Writes the kubeconfig of the owner of this token for a workspace.
    pub(crate) fn write_kubeconfig_of(&self, token: &str, workspace: &str, file: &Path) -> Outcome {
        Ok(std::fs::write(file, self.access.kubeconfig(&self.prefix(workspace), token))?)
    }
}

/// Returns the recorded requests of a real kube-apiserver.
fn audit_log(processes: &process::Processes) -> Outcome<Vec<Value>> {
    let log = std::fs::read_to_string(processes.file(kube::AUDIT_LOG))?;
    // The server may be writing the last line.
    Ok(log.lines().filter_map(|line| serde_json::from_str(line).ok()).collect())
}

/// Returns the programs of a ring if `DEPGUARD_RINGS` names the ring.
fn chosen(kind: RingKind) -> Result<Programs, String> {
    let selected = selection::selected(std::env::var(selection::VARIABLE).ok().as_deref())?;
    if selected.contains(&kind) {
        kind.programs()
    } else {
        Err(format!("{}={} runs it", selection::VARIABLE, kind.name()))
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
        self.kubeconfig_at(&self.url, prefix, token)
    }

    /// Builds a kubeconfig for another server with a certificate of the same authority.
    fn kubeconfig_at(&self, url: &str, prefix: &str, token: &str) -> String {
        // JSON is YAML and needs no indentation.
        json!({
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "e2e",
            "clusters": [{"name": "e2e", "cluster": {
                "server": format!("{url}{prefix}"),
                "certificate-authority": self.ca.path(),
            }}],
            "users": [{"name": "e2e", "user": {"token": token}}],
            "contexts": [{"name": "e2e", "context": {"cluster": "e2e", "user": "e2e"}}],
        })
        .to_string()
    }
}

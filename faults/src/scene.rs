//! Scene: an API server in the process, two providers and a consumer on it, and stock depguard.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use depguard_controller::{Controller, WebhookTarget, manifests};
use depguard_core::{ControlPlane, ExportName};
use depguard_kcp::{ConnectOptions, Connection, Endpoint};
use depguard_testbed::{Fault, Options, Place, Testbed, When, lasting_port};
use depguard_webhook::{ReadThrough, Webhook};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::Result;
use crate::kinds::{COMPUTE, NAMESPACES, NETWORK, Pair, REF, VERSION};

pub(crate) const RULES: &str = "/apis/dependencies.opendefense.cloud/v1alpha1/dependencyrules";
const WORKSPACES: &str = "/apis/tenancy.kcp.io/v1alpha1/workspaces";
const SCHEMAS: &str = "/apis/apis.kcp.io/v1alpha1/apiresourceschemas";
const EXPORTS: &str = "/apis/apis.kcp.io/v1alpha2/apiexports";
const BINDINGS: &str = "/apis/apis.kcp.io/v1alpha2/apibindings";
const CONFIGURATIONS: &str = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations";
const OURS: &str = "dependencies.opendefense.cloud";

/// Maximum of dependents on a page, whatever the limit in the request.
const PAGE: usize = 40;
const PATIENCE: Duration = Duration::from_secs(60);

/// Participants of a run.
pub struct Scene {
    /// API server.
    pub testbed: Testbed,
    /// Endpoint of the objects, for the client that deletes.
    pub tenant: Endpoint,
    /// Endpoint of the rules.
    pub(crate) rules: Endpoint,
    /// Endpoint of the webhook configuration.
    provider: Endpoint,
    folder: TempDir,
    port: u16,
    read_through: ReadThrough,
    webhook: Option<Webhook>,
    controllers: Vec<Controller>,
}

impl Scene {
    /// Starts everything and waits until it is ready, with this many dependents of each kind that refer to nothing. The
    /// API server keeps a journal.
    pub(crate) async fn start(bystanders: usize, read_through: ReadThrough) -> Result<Self> {
        let mut scene = Self::set_up(bystanders, true).await?;
        scene.read_through = read_through;
        let pages = When::always().method("GET").path(COMPUTE);
        scene.testbed.faults().inject(Fault::ShortPages(PAGE), pages);
        scene.start_webhook().await?;
        scene.start_controller().await?;
        scene.until_guarded().await?;
        Ok(scene)
    }

    /// Starts the API server likewise, but without a journal, webhook and controller.
    pub async fn prepare(bystanders: usize) -> Result<Self> {
        Self::set_up(bystanders, false).await
    }

    async fn set_up(bystanders: usize, journal: bool) -> Result<Self> {
        let testbed = Testbed::start(Options::default()).await?;
        if journal {
            testbed.keep_journal();
        }
        let folder = tempfile::tempdir()?;
        let made = rcgen::generate_simple_self_signed(["127.0.0.1".to_owned()])?;
        std::fs::write(folder.path().join("tls.crt"), made.cert.pem())?;
        std::fs::write(folder.path().join("tls.key"), made.signing_key.serialize_pem())?;
        let (network, compute, tenant) = workspaces(&testbed, &folder).await?;
        fill(&testbed, bystanders)?;
        for pair in Pair::ALL {
            compute.post_json(RULES, &pair.rule(REF)).await?;
        }
        std::fs::write(folder.path().join("kubeconfig"), testbed.kubeconfig("root:dep-ctrl", "admin"))?;
        Ok(Self {
            testbed,
            tenant,
            rules: compute,
            provider: network,
            folder,
            port: lasting_port(Ipv4Addr::LOCALHOST)?,
            read_through: ReadThrough::default(),
            webhook: None,
            controllers: Vec::new(),
        })
    }

    /// Returns the kubeconfig for depguard.
    pub fn kubeconfig(&self) -> PathBuf {
        self.file("kubeconfig")
    }

    /// Returns the folder with the webhook's certificate.
    pub fn certificates(&self) -> PathBuf {
        self.folder.path().to_owned()
    }

    /// Returns the port on 127.0.0.1 where the webhook must listen.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Returns the workspace of the dependents' provider.
    pub fn dependents_provider(&self) -> &Endpoint {
        &self.rules
    }

    /// Starts the webhook, always at the same port. The webhook answers when this returns, though it may have no rules
    /// yet.
    pub(crate) async fn start_webhook(&mut self) -> Result {
        let begun = Instant::now();
        loop {
            let config = depguard_webhook::Config::default()
                .control_plane(ControlPlane::Kcp)
                .export_name(ExportName::parse(OURS)?)
                .kubeconfig(Some(self.file("kubeconfig")))
                .read_through(self.read_through)
                .review_addr(SocketAddr::from((Ipv4Addr::LOCALHOST, self.port)))
                .probe_addr(None)
                .metrics_addr(None)
                .tls_cert_dir(self.folder.path().to_owned())
                .shutdown_delay(Duration::ZERO);
            match Webhook::start(config).await {
                Ok(webhook) => {
                    self.webhook = Some(webhook);
                    return Ok(());
                }
                // The killed webhook may still hold the port for a moment.
                Err(_) if begun.elapsed() < Duration::from_secs(5) => {
                    tokio::time::sleep(Duration::from_millis(20)).await;
                }
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Ends the webhook in the middle of its work.
    pub(crate) fn kill_webhook(&mut self) {
        if let Some(webhook) = self.webhook.take() {
            webhook.kill();
        }
    }

    /// Starts one more controller.
    pub async fn start_controller(&mut self) -> Result {
        let webhook = WebhookTarget::Url(format!("https://127.0.0.1:{}/validate", self.port));
        let config = depguard_controller::Config::new(ControlPlane::Kcp, ExportName::parse(OURS)?, webhook)
            .kubeconfig(Some(self.file("kubeconfig")))
            .probe_addr(None)
            .metrics_addr(None)
            .ca_bundle_path(Some(self.file("tls.crt")));
        self.controllers.push(Controller::start(config).await?);
        Ok(())
    }

    /// Stops the oldest controller.
    pub(crate) async fn stop_controller(&mut self) {
        if !self.controllers.is_empty() {
            self.controllers.remove(0).stop().await;
        }
    }

    /// Changes the rule of a pair: the field by which its dependents refer.
    pub(crate) async fn change_rule(&self, pair: Pair, field: &str) -> Result {
        let path = format!("{RULES}/{}", pair.rule_name());
        self.rules.apply(&path, &pair.rule(field), "faults", true).await?;
        Ok(())
    }

    /// Ends everything, and leaves no task behind.
    pub async fn stop(mut self) {
        if let Some(webhook) = self.webhook.take() {
            webhook.stop().await;
        }
        while !self.controllers.is_empty() {
            self.stop_controller().await;
        }
        self.testbed.stop().await;
    }

    /// Waits until the configuration is installed, and the webhook knows the rules.
    pub async fn until_guarded(&self) -> Result {
        let installed = format!("{CONFIGURATIONS}/dependency-controller");
        eventually("the configuration is installed", async || {
            let Ok(configuration) = self.provider.get_json(&installed).await else { return false };
            let text = configuration["webhooks"].to_string();
            Pair::ALL.iter().all(|pair| text.contains(pair.target().1))
        })
        .await?;
        let collection = Pair::Vpc.targets_in(NAMESPACES[0]);
        self.tenant.post_json(&collection, &Pair::Vpc.make_target("first")).await?;
        eventually("the webhook knows the rules", async || {
            self.tenant.delete(&format!("{collection}/first"), Default::default()).await.is_ok()
        })
        .await
    }

    fn file(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }
}

async fn workspaces(testbed: &Testbed, folder: &TempDir) -> Result<(Endpoint, Endpoint, Endpoint)> {
    let root = connect(testbed, folder, "root").await?;
    for name in ["dep-ctrl", "network", "compute", "tenant"] {
        let object = json!({"apiVersion": "tenancy.kcp.io/v1alpha1", "kind": "Workspace", "metadata": {"name": name}});
        root.post_json(WORKSPACES, &object).await?;
        let path = format!("{WORKSPACES}/{name}");
        eventually(name, async || root.get_json(&path).await.is_ok_and(|found| found["status"]["phase"] == "Ready"))
            .await?;
    }
    let dep_ctrl = connect(testbed, folder, "root:dep-ctrl").await?;
    let network = connect(testbed, folder, "root:network").await?;
    let compute = connect(testbed, folder, "root:compute").await?;
    let tenant = connect(testbed, folder, "root:tenant").await?;
    dep_ctrl.post_json(SCHEMAS, &manifests::api_resource_schema()).await?;
    dep_ctrl.post_json(EXPORTS, &manifests::api_export()).await?;
    export(&network, NETWORK, Pair::target_schema).await?;
    export(&compute, COMPUTE, Pair::dependent_schema).await?;
    for provider in [&network, &compute] {
        provider.post_json(BINDINGS, &manifests::provider_binding("root:dep-ctrl")).await?;
        eventually("rules are served", async || provider.get_json(RULES).await.is_ok()).await?;
    }
    for (path, name) in [("root:network", NETWORK), ("root:compute", COMPUTE)] {
        let binding = json!({
            "apiVersion": "apis.kcp.io/v1alpha2", "kind": "APIBinding", "metadata": {"name": name},
            "spec": {"reference": {"export": {"path": path, "name": name}}},
        });
        tenant.post_json(BINDINGS, &binding).await?;
    }
    let other = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACES[1]}});
    tenant.post_json("/api/v1/namespaces", &other).await?;
    for pair in Pair::ALL {
        for path in [pair.targets_in(NAMESPACES[0]), pair.dependents_in(NAMESPACES[0])] {
            eventually(&path, async || tenant.get_json(&path).await.is_ok()).await?;
        }
    }
    Ok((network, compute, tenant))
}

async fn export(workspace: &Endpoint, name: &str, schema: fn(Pair) -> Value) -> Result {
    let mut resources = Vec::new();
    for pair in Pair::ALL {
        let schema = schema(pair);
        workspace.post_json(SCHEMAS, &schema).await?;
        resources.push(json!({
            "group": name, "name": schema["spec"]["names"]["plural"], "schema": schema["metadata"]["name"],
            "storage": {"crd": {}},
        }));
    }
    let export = json!({
        "apiVersion": "apis.kcp.io/v1alpha2", "kind": "APIExport", "metadata": {"name": name},
        "spec": {"resources": resources},
    });
    workspace.post_json(EXPORTS, &export).await?;
    Ok(())
}

fn fill(testbed: &Testbed, bystanders: usize) -> Result {
    for pair in Pair::ALL {
        for (index, namespace) in NAMESPACES.into_iter().enumerate() {
            let resource = pair.dependent().1;
            let place = Place::new(COMPUTE, VERSION, resource).namespace(namespace).workspace("root:tenant");
            let half = (0..bystanders).filter(|n| n % NAMESPACES.len() == index);
            // The names are spread over the whole list, like the drawn names.
            let name = |n: usize| format!("o{:08x}", (n as u32).wrapping_mul(0x9e37_79b1));
            testbed.fill(&place, half.map(|n| pair.make_dependent(&format!("{}b", name(n)), REF, "nothing")))?;
        }
    }
    Ok(())
}

/// Opens a connection for setup and deletions, as a user that is not depguard's.
async fn connect(testbed: &Testbed, folder: &TempDir, workspace: &str) -> Result<Endpoint> {
    let file = folder.path().join(format!("{}.kubeconfig", workspace.replace(':', "-")));
    std::fs::write(&file, testbed.kubeconfig(workspace, "masters"))?;
    let options = ConnectOptions::new(ControlPlane::Kcp).kubeconfig(file);
    Ok(Connection::open(&options).await?.own_endpoint())
}

/// Waits until a condition holds.
pub(crate) async fn eventually(what: &str, mut is_so: impl AsyncFnMut() -> bool) -> Result {
    let begun = Instant::now();
    while !is_so().await {
        if begun.elapsed() > PATIENCE {
            return Err(format!("timed out after {} s, waiting for: {what}", PATIENCE.as_secs()).into());
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    Ok(())
}

//! Environment of the tests: a testbed with the provider's kinds and webhook.

use std::error::Error;
use std::path::PathBuf;
use std::time::Duration;

use depguard_core::{ControlPlane, ExportName, RuleSet, Workspaces};
use depguard_kcp::{ConnectOptions, Connection, Endpoint, Preconditions, ShardHosts};
use depguard_testbed::{Options, Testbed, WebhookServer};
use depguard_webhook::{FrontProxy, ThroughExports};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::product;

pub(crate) type Result<T> = std::result::Result<T, Box<dyn Error + Send + Sync>>;

pub(crate) const VPCS: &str = "/apis/network.example.com/v1alpha1/namespaces/default/vpcs";
pub(crate) const SUBNETS: &str = "/apis/network.example.com/v1alpha1/namespaces/default/subnets";
const WEBHOOKS: &str = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations";
const EXPORT: &str = "network.example.com";

/// API server, the webhook that it calls, and the tenants' endpoints.
pub(crate) struct Cluster {
    pub(crate) testbed: Testbed,
    webhook: WebhookServer,
    /// Only cluster, or a workspace for each tenant.
    pub(crate) tenants: Vec<Endpoint>,
    _folder: TempDir,
}

impl Cluster {
    /// Starts a plain Kubernetes where RBAC decides. The webhook reads as `reader`, and uses the rule after `edit`.
    pub(crate) async fn kubernetes(reader: &str, edit: impl FnOnce(&mut Value)) -> Result<Self> {
        let testbed = Testbed::start(Options::kubernetes().rbac()).await?;
        let folder = tempfile::tempdir()?;
        let admin = connect(&testbed, &folder, ControlPlane::Kubernetes, "", "admin").await?.own_endpoint();
        for definition in kinds()? {
            admin.post_json("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", &definition).await?;
        }
        let mut rule = rule()?;
        edit(&mut rule);
        let port = FrontProxy::new(
            ControlPlane::Kubernetes,
            connect(&testbed, &folder, ControlPlane::Kubernetes, "", reader).await?,
        );
        let rules = RuleSet::load(ControlPlane::Kubernetes, [&rule]);
        let webhook = WebhookServer::start(product::webhook(rules, Workspaces::new(), port)).await?;
        register(&admin, &webhook).await?;
        Ok(Self { testbed, webhook, tenants: vec![admin], _folder: folder })
    }

    /// Starts a kcp of two shards. Each shard has the workspace of a tenant who has bound the provider's export. The
    /// webhook reads through the export's virtual workspaces.
    pub(crate) async fn shards() -> Result<Self> {
        let testbed = Testbed::start(Options::kcp().shards(["one", "two"])).await?;
        let folder = tempfile::tempdir()?;
        let connection = connect(&testbed, &folder, ControlPlane::Kcp, "root", "admin").await?;
        let at = |path: &str| -> Result<Endpoint> { Ok(connection.workspace(&path.parse()?)) };
        let provider_cluster = make_workspace(&connection.own_endpoint(), "network", "one").await?;
        let provider = at("root:network")?;
        publish(&provider).await?;

        let mut rule = rule()?;
        rule["metadata"]["annotations"] = json!({"kcp.io/cluster": provider_cluster});
        rule["spec"]["dependent"]["apiExportName"] = json!(EXPORT);
        rule["spec"]["dependencies"][0]["apiExportRef"] = json!({"path": "root:network", "name": EXPORT});
        let workspaces = [("root:network".parse()?, provider_cluster.parse()?)].into_iter().collect();
        let hosts = ShardHosts::new(connection.clone(), &ExportName::parse(EXPORT)?, Vec::new());
        let port = ThroughExports::new(connection.clone(), hosts);
        let rules = RuleSet::load(ControlPlane::Kcp, [&rule]);
        let webhook = WebhookServer::start(product::webhook(rules, workspaces, port)).await?;
        // In kcp, the webhooks of an exported kind are the provider's, in every workspace that has bound the export.
        register(&provider, &webhook).await?;

        let mut tenants = Vec::new();
        for shard in ["one", "two"] {
            let name = format!("on-{shard}");
            make_workspace(&connection.own_endpoint(), &name, shard).await?;
            let tenant = at(&format!("root:{name}"))?;
            bind(&tenant).await?;
            tenants.push(tenant);
        }
        Ok(Self { testbed, webhook, tenants, _folder: folder })
    }

    pub(crate) async fn stop(self) {
        self.webhook.stop().await;
        self.testbed.stop().await;
    }
}

/// Creates VPC `a`, and Subnet `s` in it.
pub(crate) async fn populate(tenant: &Endpoint) -> Result<()> {
    tenant.post_json(VPCS, &vpc("a", "10.0.0.0/16")).await?;
    let subnet = json!({
        "apiVersion": "network.example.com/v1alpha1", "kind": "Subnet", "metadata": {"name": "s"},
        "spec": {"vpcName": "a"},
    });
    tenant.post_json(SUBNETS, &subnet).await?;
    Ok(())
}

pub(crate) fn vpc(name: &str, range: &str) -> Value {
    json!({
        "apiVersion": "network.example.com/v1alpha1", "kind": "VPC", "metadata": {"name": name},
        "spec": {"cidr": range},
    })
}

/// Deletes an object. The error is the reason of the refusal.
pub(crate) async fn delete(tenant: &Endpoint, collection: &str, name: &str) -> std::result::Result<(), String> {
    let path = format!("{collection}/{name}");
    tenant.delete(&path, Preconditions::default()).await.map(drop).map_err(|error| error.to_string())
}

/// Asks until there is an answer, for at most a minute.
pub(crate) async fn eventually<T>(what: &str, mut ask: impl AsyncFnMut() -> Option<T>) -> T {
    for _ in 0..1200 {
        if let Some(answer) = ask().await {
            return answer;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    panic!("never happened: {what}");
}

fn kinds() -> Result<Vec<Value>> {
    Ok(serde_saphyr::from_multiple(include_str!("kinds.yaml"))?)
}

fn rule() -> Result<Value> {
    Ok(serde_saphyr::from_str(include_str!("rule.yaml"))?)
}

async fn connect(
    testbed: &Testbed,
    folder: &TempDir,
    control_plane: ControlPlane,
    workspace: &str,
    user: &str,
) -> Result<Connection> {
    let file: PathBuf = folder.path().join(format!("{}.kubeconfig", user.replace(':', "-")));
    std::fs::write(&file, testbed.kubeconfig(workspace, user))?;
    Ok(Connection::open(&ConnectOptions::new(control_plane).kubeconfig(Some(file))).await?)
}

/// Registers the webhook as the provider's manifests do.
async fn register(place: &Endpoint, webhook: &WebhookServer) -> Result<()> {
    let mut configuration: Value = serde_saphyr::from_str(include_str!("webhooks.yaml"))?;
    for entry in configuration["webhooks"].as_array_mut().into_iter().flatten() {
        let path = entry["clientConfig"]["url"].as_str().unwrap_or_default();
        entry["clientConfig"] = json!({"url": format!("{}{path}", webhook.url()), "caBundle": webhook.ca_bundle()});
    }
    place.post_json(WEBHOOKS, &configuration).await?;
    Ok(())
}

/// Creates a workspace on a shard, and returns its logical cluster.
async fn make_workspace(parent: &Endpoint, name: &str, shard: &str) -> Result<String> {
    const WORKSPACES: &str = "/apis/tenancy.kcp.io/v1alpha1/workspaces";
    let object = json!({
        "apiVersion": "tenancy.kcp.io/v1alpha1", "kind": "Workspace", "metadata": {"name": name},
        "spec": {"location": {"selector": {"matchLabels": {"name": shard}}}},
    });
    parent.post_json(WORKSPACES, &object).await?;
    let path = format!("{WORKSPACES}/{name}");
    let cluster = eventually("the workspace is ready", async || {
        let found = parent.get_json(&path).await.ok().filter(|found| found["status"]["phase"] == "Ready")?;
        found["spec"]["cluster"].as_str().map(str::to_owned)
    });
    Ok(cluster.await)
}

/// Exports the provider's kinds.
async fn publish(provider: &Endpoint) -> Result<()> {
    let mut resources = Vec::new();
    for definition in kinds()? {
        let mut spec = definition["spec"].clone();
        let schema = spec["versions"][0]["schema"]["openAPIV3Schema"].take();
        spec["versions"][0]["schema"] = schema;
        let plural = &definition["spec"]["names"]["plural"];
        let name = format!("v1.{}.{EXPORT}", plural.as_str().unwrap_or_default());
        let object = json!({
            "apiVersion": "apis.kcp.io/v1alpha1", "kind": "APIResourceSchema", "metadata": {"name": name}, "spec": spec,
        });
        provider.post_json("/apis/apis.kcp.io/v1alpha1/apiresourceschemas", &object).await?;
        resources.push(json!({"group": EXPORT, "name": plural, "schema": name, "storage": {"crd": {}}}));
    }
    let export = json!({
        "apiVersion": "apis.kcp.io/v1alpha2", "kind": "APIExport", "metadata": {"name": EXPORT},
        "spec": {"resources": resources},
    });
    provider.post_json("/apis/apis.kcp.io/v1alpha2/apiexports", &export).await?;
    Ok(())
}

async fn bind(tenant: &Endpoint) -> Result<()> {
    const BINDINGS: &str = "/apis/apis.kcp.io/v1alpha2/apibindings";
    let binding = json!({
        "apiVersion": "apis.kcp.io/v1alpha2", "kind": "APIBinding", "metadata": {"name": "network"},
        "spec": {"reference": {"export": {"path": "root:network", "name": EXPORT}}},
    });
    tenant.post_json(BINDINGS, &binding).await?;
    let path = format!("{BINDINGS}/network");
    eventually("the tenant has bound the export", async || {
        tenant.get_json(&path).await.ok().filter(|found| found["status"]["phase"] == "Bound")
    })
    .await;
    Ok(())
}

//! Sets up workspaces, a provider with its rules and webhooks, and consumers.

use std::time::{Duration, Instant};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use depguard_controller::manifests;
use depguard_core::{LogicalCluster, WorkspacePath};
use depguard_kcp::{Connection, Endpoint};
use serde_json::{Value, json};

use crate::Result;
use crate::objects::{self, GROUP, Kind};

pub(crate) const DEP_CTRL: &str = "root:dep-ctrl";
pub(crate) const PROVIDER: &str = "root:provider";

const WORKSPACES: &str = "/apis/tenancy.kcp.io/v1alpha1/workspaces";
const SCHEMAS: &str = "/apis/apis.kcp.io/v1alpha1/apiresourceschemas";
const EXPORTS: &str = "/apis/apis.kcp.io/v1alpha2/apiexports";
const BINDINGS: &str = "/apis/apis.kcp.io/v1alpha2/apibindings";
const RULES: &str = "/apis/dependencies.opendefense.cloud/v1alpha1/dependencyrules";
const CONFIGURATIONS: &str = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations";

const PATIENCE: Duration = Duration::from_secs(60);

/// Addresses of the two webhooks, and their time limit.
#[derive(Debug, Clone)]
pub(crate) struct Hooks {
    pub(crate) depguard: u16,
    pub(crate) stand_in: u16,
    pub(crate) ca_pem: String,
    pub(crate) seconds: u32,
}

/// Creates depguard's workspace, and a provider of all kinds with rules.
pub(crate) async fn providers(connection: &Connection, hooks: &Hooks) -> Result {
    let dep_ctrl = workspace(connection, DEP_CTRL).await?;
    create(&dep_ctrl, SCHEMAS, &manifests::api_resource_schema()).await?;
    create(&dep_ctrl, EXPORTS, &manifests::api_export()).await?;

    let provider = workspace(connection, PROVIDER).await?;
    let mut resources = Vec::new();
    for kind in Kind::ALL {
        create(&provider, SCHEMAS, &kind.schema()).await?;
        let (name, schema) = (kind.plural(), kind.schema_name());
        resources.push(json!({"group": GROUP, "name": name, "schema": schema, "storage": {"crd": {}}}));
    }
    let export = json!({
        "apiVersion": "apis.kcp.io/v1alpha2", "kind": "APIExport",
        "metadata": {"name": GROUP}, "spec": {"resources": resources},
    });
    create(&provider, EXPORTS, &export).await?;
    create(&provider, BINDINGS, &manifests::provider_binding(DEP_CTRL)).await?;
    for rule in objects::rules(PROVIDER) {
        create(&provider, RULES, &rule).await?;
    }
    create(&provider, CONFIGURATIONS, &configuration(hooks)).await
}

/// Creates a consumer of all kinds, and returns its logical cluster.
pub(crate) async fn consumer(connection: &Connection, name: &str) -> Result<LogicalCluster> {
    let consumer = workspace(connection, &format!("root:{name}")).await?;
    let binding = json!({
        "apiVersion": "apis.kcp.io/v1alpha2", "kind": "APIBinding", "metadata": {"name": GROUP},
        "spec": {"reference": {"export": {"path": PROVIDER, "name": GROUP}}},
    });
    create(&consumer, BINDINGS, &binding).await?;
    for kind in Kind::ALL {
        eventually("the kinds are served", async || consumer.get_json(&kind.collection()).await.is_ok()).await?;
    }
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": objects::NAMESPACE}});
    create(&consumer, "/api/v1/namespaces", &namespace).await?;
    let found = connection.own_endpoint().get_json(&format!("{WORKSPACES}/{name}")).await?;
    Ok(LogicalCluster::parse(found["spec"]["cluster"].as_str().unwrap_or_default())?)
}

/// Waits until a condition holds.
pub(crate) async fn eventually(what: &str, mut is_so: impl AsyncFnMut() -> bool) -> Result {
    let begun = Instant::now();
    while !is_so().await {
        if begun.elapsed() > PATIENCE {
            return Err(format!("timed out after {} s, waiting for: {what}", PATIENCE.as_secs()).into());
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    Ok(())
}

/// Creates an object, as soon as its kind is served.
pub(crate) async fn create(place: &Endpoint, collection: &str, object: &Value) -> Result {
    let begun = Instant::now();
    loop {
        match place.post_json(collection, object).await {
            Ok(_) => return Ok(()),
            Err(error) if error.status() == Some(409) => return Ok(()),
            Err(error) if begun.elapsed() > PATIENCE => return Err(error.into()),
            Err(_) => tokio::time::sleep(Duration::from_millis(50)).await,
        }
    }
}

async fn workspace(connection: &Connection, path: &str) -> Result<Endpoint> {
    let name = path.trim_start_matches("root:");
    let root = connection.own_endpoint();
    let workspace = json!({
        "apiVersion": "tenancy.kcp.io/v1alpha1", "kind": "Workspace", "metadata": {"name": name},
        "spec": {"type": {"name": "universal", "path": "root"}},
    });
    create(&root, WORKSPACES, &workspace).await?;
    let own = format!("{WORKSPACES}/{name}");
    eventually("the workspace is ready", async || {
        root.get_json(&own).await.is_ok_and(|found| found["status"]["phase"] == "Ready")
    })
    .await?;
    Ok(connection.workspace(&WorkspacePath::parse(path)?))
}

/// Returns one configuration for both webhooks. The stand-in reviews olds; depguard reviews the other targets, and a
/// kind that no rule names.
fn configuration(hooks: &Hooks) -> Value {
    let webhook = |name: &str, port: u16, kinds: &[Kind]| {
        let resources: Vec<&str> = kinds.iter().map(|kind| kind.plural()).collect();
        json!({
            "name": format!("{name}.{GROUP}"), "admissionReviewVersions": ["v1"], "sideEffects": "None",
            "failurePolicy": "Fail", "timeoutSeconds": hooks.seconds,
            "clientConfig": {
                "url": format!("https://127.0.0.1:{port}/validate"), "caBundle": STANDARD.encode(&hooks.ca_pem),
            },
            "rules": [{"apiGroups": [GROUP], "apiVersions": ["*"], "operations": ["DELETE"], "resources": resources}],
        })
    };
    json!({
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingWebhookConfiguration",
        "metadata": {"name": "compare"},
        "webhooks": [
            webhook("depguard", hooks.depguard, &[Kind::Vpc, Kind::Net, Kind::Zone, Kind::Server]),
            webhook("stand-in", hooks.stand_in, &[Kind::Old]),
        ],
    })
}

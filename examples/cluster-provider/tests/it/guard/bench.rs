//! Platform cluster with one of the two webhooks.

use std::net::Ipv4Addr;
use std::sync::Arc;
use std::time::Duration;

use cluster_provider_example::guard;
use cluster_provider_example::platform::Platform;
use depguard_controller::{Controller, WebhookTarget, manifests};
use depguard_core::{ControlPlane, ExportName, OverridePolicy};
use depguard_e2e::rules::pack;
use depguard_e2e::{Api, Authority, Outcome, Ring, RingKind, eventually};
use depguard_webhook::Webhook;
use kube_client::config::{KubeConfigOptions, Kubeconfig};
use kube_client::{Client, Config};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

/// User who may override, if the object says so.
pub(crate) const SCHEDULER: &str = "system:serviceaccount:openmcp-system:operator";
/// Ordinary user.
const TENANT: &str = "tenant";
const CONTRACT: &str = include_str!("../../../crds/contract.yaml");
const CRDS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const ROLES: &str = "rbac.authorization.k8s.io/v1";
const RULES: &str = "/apis/dependencies.opendefense.cloud/v1alpha1/dependencyrules";

/// Testbed with the contract's kinds and a webhook.
pub(crate) struct Bench {
    ring: Ring,
    pub(crate) admin: Api,
    pub(crate) scheduler: Api,
    pub(crate) tenant: Api,
    /// Name of the webhook, which begins each refusal.
    pub(crate) webhook: String,
    running: Running,
}

enum Running {
    Provider { stop: CancellationToken, ended: JoinHandle<cluster_provider_example::Result<()>> },
    Stock { controller: Controller, webhook: Box<Webhook>, _folder: TempDir },
}

impl Bench {
    /// Starts a bench with the provider's own webhook.
    pub(crate) async fn provider() -> Outcome<Self> {
        let ring = cluster().await?;
        let kubeconfig = Kubeconfig::from_yaml(&ring.kubeconfig_of("admin"))?;
        let config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await?;
        let platform = Arc::new(Platform::new(Client::try_from(config)?, "workspaces", "test"));
        let webhook = guard::webhook_name(&platform);
        let options = guard::Options { overrides: vec![SCHEDULER.to_owned()], ..guard::Options::default() };
        let stop = CancellationToken::new();
        let ended = tokio::spawn(guard::run(platform, options, stop.clone()));
        Self::new(ring, webhook, Running::Provider { stop, ended }).await
    }

    /// Starts a bench with depguard's own controller and webhook, and the shipped rules.
    pub(crate) async fn stock() -> Outcome<Self> {
        let ring = cluster().await?;
        let admin = ring.admin().await?;
        admin.post(CRDS, &manifests::crd()).await?.ok()?;
        for rule in pack("openmcp")?.rules() {
            eventually("rules are served", ring.patience(), async || admin.post(RULES, &rule).await?.ok_or_there())
                .await?;
        }
        let folder = tempfile::tempdir()?;
        Authority::new("depguard's webhook")?.issue(folder.path())?;
        let file = |name: &str| Some(folder.path().join(name));
        ring.write_kubeconfig("", &folder.path().join("kubeconfig"))?;
        let overrides = OverridePolicy { users: [SCHEDULER.to_owned()].into(), ..OverridePolicy::default() };
        let webhook = Webhook::start(
            depguard_webhook::Config::default()
                .control_plane(ControlPlane::Kubernetes)
                .kubeconfig(file("kubeconfig"))
                .review_addr((Ipv4Addr::LOCALHOST, 0).into())
                .probe_addr(None)
                .metrics_addr(None)
                .tls_cert_dir(folder.path().to_owned())
                .overrides(overrides),
        )
        .await?;
        let target = WebhookTarget::Url(format!("https://{}/validate", webhook.review_addr()));
        let export = ExportName::parse("dependencies.opendefense.cloud")?;
        let controller = Controller::start(
            depguard_controller::Config::new(ControlPlane::Kubernetes, export, target)
                .kubeconfig(file("kubeconfig"))
                .probe_addr(None)
                .ca_bundle_path(file("ca.crt")),
        )
        .await?;
        let name = "dependency-controller.dependencies.opendefense.cloud".to_owned();
        Self::new(ring, name, Running::Stock { controller, webhook: Box::new(webhook), _folder: folder }).await
    }

    async fn new(ring: Ring, webhook: String, running: Running) -> Outcome<Self> {
        let admin = ring.admin().await?;
        let object = |version: &str, kind: &str, name: &str| json!({"apiVersion": version, "kind": kind, "metadata": {"name": name}});
        for namespace in ["team", "other"] {
            admin.post("/api/v1/namespaces", &object("v1", "Namespace", namespace)).await?.ok()?;
        }
        let mut role = object(ROLES, "ClusterRole", "clusters");
        role["rules"] = json!([{"apiGroups": ["clusters.openmcp.cloud"], "resources": ["*"], "verbs": ["*"]}]);
        let mut binding = object(ROLES, "ClusterRoleBinding", "clusters");
        binding["subjects"] = json!([{"kind": "User", "name": SCHEDULER}, {"kind": "User", "name": TENANT}]);
        binding["roleRef"] =
            json!({"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "clusters"});
        admin.post(&format!("/apis/{ROLES}/clusterroles"), &role).await?.ok()?;
        admin.post(&format!("/apis/{ROLES}/clusterrolebindings"), &binding).await?.ok()?;
        let scheduler = Api::open(&ring.kubeconfig_of(SCHEDULER)).await?;
        let tenant = Api::open(&ring.kubeconfig_of(TENANT)).await?;
        Ok(Self { ring, admin, scheduler, tenant, webhook, running })
    }

    pub(crate) fn patience(&self) -> Duration {
        self.ring.patience()
    }

    /// Ends the webhook in its own way.
    pub(crate) async fn end(self) -> Outcome {
        match self.running {
            Running::Provider { stop, ended } => {
                stop.cancel();
                ended.await??;
            }
            Running::Stock { controller, webhook, .. } => {
                controller.stop().await;
                webhook.kill();
            }
        }
        Ok(())
    }
}

/// Starts a testbed with the contract's kinds.
async fn cluster() -> Outcome<Ring> {
    let ring = Ring::testbed(RingKind::TestbedKubernetes).await?;
    let admin = ring.admin().await?;
    for definition in serde_saphyr::from_multiple::<Value>(CONTRACT)? {
        admin.post(CRDS, &definition).await?.ok()?;
    }
    Ok(ring)
}

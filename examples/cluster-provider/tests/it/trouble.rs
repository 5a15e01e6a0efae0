//! Tests of a Cluster while kcp, or somebody in kcp, does something unexpected.

use std::sync::Arc;
use std::time::{Duration, Instant};

use cluster_provider_example::api::{
    Cluster, ClusterProfile, ClusterProfileSpec, ClusterSpec, Clusters, LocalRef, SupportedVersion,
};
use cluster_provider_example::clusters;
use cluster_provider_example::platform::{Platform, connect};
use cluster_provider_example::workspaces::{Workspace, Workspaces};
use depguard_testbed::{Fault, Options, Testbed, When};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube_client::config::{KubeConfigOptions, Kubeconfig};
use kube_client::core::params::{DeleteParams, PostParams};
use kube_client::core::{ApiResource, DynamicObject, GroupVersionKind};
use kube_client::{Api, Config};
use serde_json::json;
use tokio_util::sync::CancellationToken;

const PATIENCE: Duration = Duration::from_secs(120);

#[tokio::test(flavor = "multi_thread")]
async fn a_workspace_that_may_still_be_there_holds_its_cluster() {
    let scene = Scene::set().await;
    scene.start();
    scene.ready().await;
    // kcp answers so while it starts, or if it can't find the parent workspace.
    let silence = scene.kcp.faults().inject(Fault::NotFound, When::always().path("/workspaces/"));
    scene.delete().await;
    scene.until_condition("KcpProblem", "cannot read workspace").await;
    assert!(scene.cluster().await.is_some(), "the Cluster is gone, and nobody knows of its workspace");
    scene.kcp.faults().clear(silence);
    scene.until_gone().await;
    assert!(scene.workspace().await.is_none(), "the Cluster is gone, and its workspace is not");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_workspace_that_somebody_else_made_is_neither_used_nor_deleted() {
    let scene = Scene::set().await;
    let name = Workspaces::name_of(&scene.cluster().await.unwrap());
    scene.make_workspace(&name).await;
    scene.start();
    scene.until_condition("KcpProblem", "was not made for this Cluster").await;
    let status = scene.cluster().await.unwrap().status.unwrap();
    assert_eq!((status.api_server.as_str(), status.common.phase.as_str()), ("", "Progressing"));
    scene.delete().await;
    scene.until_phase("Terminating").await;
    scene.until_condition("KcpProblem", "was not made for this Cluster").await;
    let there = scene.parent.get(&name).await.unwrap();
    assert!(there.metadata.deletion_timestamp.is_none(), "it deleted what is not its own");
    scene.parent.delete(&name, &DeleteParams::default()).await.unwrap();
    scene.until_gone().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_workspace_that_somebody_deleted_is_made_anew() {
    let scene = Scene::set().await;
    scene.start();
    let before = scene.ready().await;
    scene.parent.delete(&before.name, &DeleteParams::default()).await.unwrap();
    let again = eventually("another workspace", async || {
        scene.touch().await;
        scene.workspace().await.filter(|now| now.logical_cluster != before.logical_cluster)
    });
    assert_eq!(again.await.name, before.name);
}

/// Both API servers, and a Cluster.
struct Scene {
    /// Platform cluster, which ends with the scene.
    _platform: Testbed,
    kcp: Testbed,
    at: Arc<Platform>,
    workspaces: Arc<Workspaces>,
    parent: Api<DynamicObject>,
    clusters: Api<Cluster>,
    stop: CancellationToken,
}

impl Scene {
    async fn set() -> Self {
        let platform = Testbed::start(Options::kubernetes()).await.unwrap();
        let kcp = Testbed::start(Options::kcp()).await.unwrap();
        let client = connect(config(&platform, "").await).unwrap();
        let at = Arc::new(Platform::new(client.clone(), "mine", "dev"));
        bring_contract(&at).await;
        let spec = ClusterProfileSpec {
            provider_ref: LocalRef { name: "mine".to_owned() },
            provider_config_ref: LocalRef { name: "mine".to_owned() },
            supported_versions: vec![SupportedVersion { version: "1.36.2".to_owned(), deprecated: false }],
        };
        at.all().create(&PostParams::default(), &ClusterProfile::new("one", spec)).await.unwrap();
        let clusters: Api<Cluster> = Api::namespaced(client, "default");
        let spec = ClusterSpec {
            profile: "one".to_owned(),
            purposes: vec!["test".to_owned()],
            tenancy: "Exclusive".to_owned(),
            ..ClusterSpec::default()
        };
        let cluster = Cluster::new("blue", spec);
        clusters.create(&PostParams::default(), &cluster).await.unwrap();

        let root = config(&kcp, "root").await;
        let kind = ApiResource::from_gvk(&GroupVersionKind::gvk("tenancy.kcp.io", "v1alpha1", "Workspace"));
        let parent = Api::all_with(connect(root.clone()).unwrap(), &kind);
        let workspaces = Arc::new(Workspaces::open(root).unwrap());
        Self { _platform: platform, kcp, at, workspaces, parent, clusters, stop: CancellationToken::new() }
    }

    fn start(&self) {
        tokio::spawn(clusters::run(self.at.clone(), self.workspaces.clone(), self.stop.clone()));
    }

    async fn cluster(&self) -> Option<Cluster> {
        self.at.find::<Clusters>("default", "blue").await.unwrap()
    }

    async fn workspace(&self) -> Option<Workspace> {
        let cluster = self.cluster().await?;
        self.workspaces.find(&cluster).await.unwrap()
    }

    async fn ready(&self) -> Workspace {
        self.until_phase("Ready").await;
        self.workspace().await.unwrap()
    }

    async fn delete(&self) {
        self.clusters.delete("blue", &DeleteParams::default()).await.unwrap();
    }

    async fn make_workspace(&self, name: &str) {
        let workspace = json!({
            "apiVersion": "tenancy.kcp.io/v1alpha1", "kind": "Workspace", "metadata": {"name": name}, "spec": {},
        });
        let workspace = serde_json::from_value(workspace).unwrap();
        self.parent.create(&PostParams::default(), &workspace).await.unwrap();
    }

    /// Asks for another look, as an operator does.
    async fn touch(&self) {
        let Some(cluster) = self.cluster().await else { return };
        let asked = json!({"metadata": {"annotations": {"openmcp.cloud/operation": "reconcile"}}});
        // The patch is refused if the provider wrote the object meanwhile. Then the provider has just looked.
        let _ = self.at.patch(&cluster, asked).await;
    }

    async fn until_phase(&self, phase: &str) {
        eventually(phase, async || {
            let status = self.cluster().await?.status?;
            (status.common.phase == phase).then_some(())
        })
        .await;
    }

    async fn until_condition(&self, reason: &str, words: &str) {
        eventually(words, async || {
            let status = self.cluster().await?.status?;
            let condition = status.common.condition("WorkspaceReady")?;
            (condition.reason == reason && condition.message.contains(words)).then_some(())
        })
        .await;
    }

    async fn until_gone(&self) {
        eventually("the Cluster's end", async || self.cluster().await.is_none().then_some(())).await;
    }
}

impl Drop for Scene {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

/// Installs the kinds of the contract, as an operator does.
pub(crate) async fn bring_contract(at: &Platform) {
    let definitions: Api<CustomResourceDefinition> = Api::all(at.client());
    let contract: Vec<_> = serde_saphyr::from_multiple(include_str!("../../crds/contract.yaml")).unwrap();
    for definition in contract {
        definitions.create(&PostParams::default(), &definition).await.unwrap();
    }
}

async fn config(testbed: &Testbed, workspace: &str) -> Config {
    let kubeconfig = Kubeconfig::from_yaml(&testbed.kubeconfig(workspace, "admin")).unwrap();
    Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await.unwrap()
}

async fn eventually<T>(what: &str, mut attempt: impl AsyncFnMut() -> Option<T>) -> T {
    let begun = Instant::now();
    loop {
        if let Some(found) = attempt().await {
            return found;
        }
        assert!(begun.elapsed() < PATIENCE, "waited in vain for {what}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

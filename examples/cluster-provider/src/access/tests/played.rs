//! Tests of the reconciler alone, on testbeds, while others act around a request.

use std::time::Instant;

use depguard_testbed::{Fault, Options, Testbed, When};
use k8s_openapi::api::core::v1::{ConfigMap, Namespace, Secret, ServiceAccount};
use k8s_openapi::api::rbac::v1::ClusterRole;
use kube_client::config::{KubeConfigOptions, Kubeconfig};
use kube_client::core::params::{DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube_client::{Api, Client};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tokio::task::JoinHandle;

use super::super::*;
use crate::api::{ClusterProfile, OPERATION, RECONCILE};
use crate::platform::connect;
use crate::provider::definitions;
use crate::workspaces::Progress;

const API: &str = "clusters.openmcp.cloud/v1alpha1";
/// Time limit, generous so that a busy machine fails no test.
const PATIENCE: Duration = Duration::from_secs(120);

/// Platform cluster with the Cluster `team/blue`, its workspace, and the reconciler between them.
struct World {
    requests: Api<AccessRequest>,
    clusters: Api<Cluster>,
    secrets: Api<Secret>,
    /// Client in the workspace, as its administrator.
    inside: Client,
    stop: CancellationToken,
    running: JoinHandle<()>,
    testbeds: [Testbed; 2],
}

impl World {
    async fn begin() -> Self {
        let testbeds = [
            Testbed::start(Options::kubernetes().rbac()).await.unwrap(),
            Testbed::start(Options::kcp().rbac()).await.unwrap(),
        ];
        let client = connect(config(&testbeds[0].kubeconfig("", "admin")).await).unwrap();
        let platform = Arc::new(Platform::new(client.clone(), "workspaces", "test"));
        let workspaces = Arc::new(Workspaces::open(config(&testbeds[1].kubeconfig("root", "admin")).await).unwrap());
        definitions::install_contract(&platform).await.unwrap();
        let profiles: Api<ClusterProfile> = Api::all(client.clone());
        let clusters: Api<Cluster> = Api::namespaced(client.clone(), "team");
        make(&Api::<Namespace>::all(client.clone()), json!({"metadata": {"name": "team"}})).await;
        let of = json!({"name": "workspaces"});
        let spec = json!({"providerRef": of, "providerConfigRef": of, "supportedVersions": []});
        make(
            &profiles,
            json!({"apiVersion": API, "kind": "ClusterProfile", "metadata": {"name": "small"}, "spec": spec}),
        )
        .await;
        let spec = json!({"profile": "small", "purposes": ["test"], "tenancy": "Shared"});
        let cluster =
            make(&clusters, json!({"apiVersion": API, "kind": "Cluster", "metadata": {"name": "blue"}, "spec": spec}))
                .await;
        let workspace = until(async || match workspaces.ensure(&platform, &cluster).await.unwrap() {
            Progress::Ready(workspace) => Some(workspace),
            Progress::Making(_) => None,
        })
        .await;
        let inside = workspaces.client(&workspace).unwrap();
        let stop = CancellationToken::new();
        let running = tokio::spawn(run(platform, workspaces, LIFETIME, stop.clone()));
        let requests = Api::namespaced(client.clone(), "team");
        Self { requests, clusters, secrets: Api::namespaced(client, "team"), inside, stop, running, testbeds }
    }

    /// Creates a request for access to the Cluster, as the operator prepares it.
    async fn ask(&self, token: Value) {
        let labels = json!({PROVIDER: "workspaces", PROFILE: "small"});
        let spec = json!({"clusterRef": {"namespace": "team", "name": "blue"}, "token": token});
        let metadata = json!({"name": "reader", "labels": labels});
        make(&self.requests, json!({"apiVersion": API, "kind": "AccessRequest", "metadata": metadata, "spec": spec}))
            .await;
        self.make_pending().await;
    }

    /// Makes the request pending, as the operator does at first and after each change.
    async fn make_pending(&self) {
        let generation = self.requests.get("reader").await.unwrap().generation();
        let pending = Patch::Merge(json!({"status": {"phase": PENDING, "observedGeneration": generation}}));
        self.requests.patch_status("reader", &PatchParams::default(), &pending).await.unwrap();
    }

    /// Waits until the request is in that phase, and one of its conditions has that reason.
    async fn until_it_is(&self, phase: &str, reason: &str) -> AccessRequest {
        until(async || {
            let request = self.requests.get("reader").await.unwrap();
            let common = request.status.clone().unwrap_or_default().common;
            let is_so = common.phase == phase && common.conditions.iter().any(|said| said.reason == reason);
            is_so.then_some(request)
        })
        .await
    }

    async fn look_again(&self) {
        let annotated = json!({"metadata": {"annotations": {OPERATION: RECONCILE}}});
        self.requests.patch("reader", &PatchParams::default(), &Patch::Merge(annotated)).await.unwrap();
    }

    /// Returns true if the workspace has an account for a request.
    async fn has_account(&self) -> bool {
        let accounts: Api<ServiceAccount> = Api::namespaced(self.inside.clone(), desired_objects::ACCOUNTS);
        accounts
            .list(&ListParams::default())
            .await
            .unwrap()
            .iter()
            .any(|found| found.metadata.name.as_deref().is_some_and(|name| name.starts_with("access-")))
    }

    async fn end(self) {
        self.stop.cancel();
        self.running.await.unwrap();
        for testbed in self.testbeds {
            testbed.stop().await;
        }
    }
}

#[tokio::test]
async fn a_role_that_somebody_else_made_is_let_stand_and_the_request_denied() {
    let world = World::begin().await;
    let roles: Api<ClusterRole> = Api::all(world.inside.clone());
    let theirs = make(&roles, json!({"metadata": {"name": "mine"}, "rules": []})).await;
    let rules = json!([{"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}]);
    world.ask(json!({"permissions": [{"name": "a", "rules": rules}, {"name": "mine", "rules": rules}]})).await;
    world.until_it_is(DENIED, "RoleExists").await;
    let released = until(async || {
        let request = world.requests.get("reader").await.unwrap();
        (!holds(&request)).then_some(request)
    });
    assert_eq!(released.await.status.unwrap().secret_ref, None);
    assert_eq!(roles.get("mine").await.unwrap(), theirs);
    assert!(roles.get_opt("a").await.unwrap().is_none());
    assert!(!world.has_account().await);
    world.end().await;
}

#[tokio::test]
async fn a_request_waits_for_a_namespace_that_it_does_not_want_to_be_made() {
    let world = World::begin().await;
    world
        .ask(json!({"permissions": [
            {"namespace": "later", "disableAutomaticNamespaceCreation": true, "rules": []},
        ]}))
        .await;
    let waiting = world.until_it_is(PENDING, "NamespaceMissing").await;
    assert_eq!(waiting.status.unwrap().secret_ref, None);
    let namespaces: Api<Namespace> = Api::all(world.inside.clone());
    assert!(namespaces.get_opt("later").await.unwrap().is_none());
    make(&namespaces, json!({"metadata": {"name": "later"}})).await;
    world.look_again().await;
    world.until_it_is(GRANTED, "Issued").await;
    world.end().await;
}

#[tokio::test]
async fn rights_that_are_no_longer_asked_for_do_not_wait_for_others_that_cannot_be_given() {
    let world = World::begin().await;
    world.ask(json!({"permissions": [{"name": "before", "rules": []}]})).await;
    world.until_it_is(GRANTED, "Issued").await;
    let roles: Api<ClusterRole> = Api::all(world.inside.clone());
    assert!(roles.get_opt("before").await.unwrap().is_some());
    let later = json!({"namespace": "later", "disableAutomaticNamespaceCreation": true, "rules": []});
    let changed = Patch::Merge(json!({"spec": {"token": {"permissions": [later]}}}));
    world.requests.patch("reader", &PatchParams::default(), &changed).await.unwrap();
    world.make_pending().await;
    world.until_it_is(PENDING, "NamespaceMissing").await;
    assert!(roles.get_opt("before").await.unwrap().is_none());
    world.end().await;
}

#[tokio::test]
async fn what_somebody_took_away_is_made_again_when_it_is_asked_for() {
    let world = World::begin().await;
    world.ask(json!({"permissions": [{"name": "mine", "rules": []}]})).await;
    world.until_it_is(GRANTED, "Issued").await;
    let before = world.secrets.get("reader.kubeconfig").await.unwrap();
    let roles: Api<ClusterRole> = Api::all(world.inside.clone());
    roles.delete("mine", &DeleteParams::default()).await.unwrap();
    world.secrets.delete("reader.kubeconfig", &DeleteParams::default()).await.unwrap();
    world.look_again().await;
    let after = until(async || world.secrets.get_opt("reader.kubeconfig").await.unwrap()).await;
    assert_ne!(after.data, before.data);
    assert!(roles.get_opt("mine").await.unwrap().is_some());
    world.end().await;
}

#[tokio::test]
async fn a_new_token_that_was_asked_for_comes_though_kcp_fails_in_between() {
    let world = World::begin().await;
    world.ask(json!({})).await;
    world.until_it_is(GRANTED, "Issued").await;
    let before = world.secrets.get("reader.kubeconfig").await.unwrap();
    let tokens = || When::always().method("POST").path("/token");
    let failure = world.testbeds[1].faults().inject(Fault::InternalError, tokens().times(1));
    let asked_for = world.testbeds[1].faults().inject(Fault::Latency(Duration::ZERO), tokens());
    world.look_again().await;
    let after = until(async || world.secrets.get("reader.kubeconfig").await.ok().filter(|now| now.data != before.data));
    let after = after.await;
    assert_eq!(world.testbeds[1].faults().hits(failure), Some(1));
    until(async || (!Platform::is_asked(&world.requests.get("reader").await.unwrap())).then_some(())).await;
    // Removing the annotation is a change, too. The look that it causes must not bring another token.
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(world.secrets.get("reader.kubeconfig").await.unwrap().data, after.data);
    assert_eq!(world.testbeds[1].faults().hits(asked_for), Some(2));
    world.end().await;
}

#[tokio::test]
async fn access_ends_with_the_cluster_though_its_workspace_is_still_there() {
    let world = World::begin().await;
    world.ask(json!({})).await;
    world.until_it_is(GRANTED, "Issued").await;
    let secret = world.secrets.get("reader.kubeconfig").await.unwrap();
    let kubeconfig = String::from_utf8(secret.data.unwrap().remove("kubeconfig").unwrap().0).unwrap();
    let kept: Api<ConfigMap> = Api::namespaced(connect(config(&kubeconfig).await).unwrap(), "default");
    let refused = async || match kept.list(&ListParams::default()).await.unwrap_err() {
        kube_client::Error::Api(status) => status.code,
        other => panic!("{other}"),
    };
    assert_eq!(refused().await, 403, "whose token it is, is known");
    assert!(world.has_account().await);

    world.clusters.delete("blue", &DeleteParams::default()).await.unwrap();
    let left = world.until_it_is(PENDING, "InvalidReference").await;
    assert_eq!(left.status.unwrap().secret_ref, None);
    assert!(!world.has_account().await);
    assert_eq!(refused().await, 401, "nobody's token any more");
    assert!(world.secrets.get_opt("reader.kubeconfig").await.unwrap().is_none());
    world.requests.delete("reader", &DeleteParams::default()).await.unwrap();
    until(async || world.requests.get_opt("reader").await.unwrap().is_none().then_some(())).await;
    world.end().await;
}

#[tokio::test]
async fn a_secret_of_somebody_else_is_not_written() {
    let world = World::begin().await;
    let theirs = json!({"metadata": {"name": "reader.kubeconfig"}, "data": {"kubeconfig": "dGhlaXJz"}});
    let theirs = make(&world.secrets, theirs).await;
    world.ask(json!({})).await;
    world.until_it_is(PENDING, "SecretExists").await;
    assert_eq!(world.secrets.get("reader.kubeconfig").await.unwrap(), theirs);

    world.requests.delete("reader", &DeleteParams::default()).await.unwrap();
    until(async || world.requests.get_opt("reader").await.unwrap().is_none().then_some(())).await;
    assert_eq!(world.secrets.get("reader.kubeconfig").await.unwrap(), theirs);
    assert!(!world.has_account().await);
    world.end().await;
}

async fn make<K>(api: &Api<K>, manifest: Value) -> K
where
    K: DeserializeOwned + Clone + std::fmt::Debug + serde::Serialize,
{
    let object: K = serde_json::from_value(manifest).unwrap();
    until(async || match api.create(&PostParams::default(), &object).await {
        Ok(made) => Some(made),
        // The kind is not served yet.
        Err(kube_client::Error::Api(status)) if status.code == 404 => None,
        Err(error) => panic!("{error}"),
    })
    .await
}

async fn until<T>(mut attempt: impl AsyncFnMut() -> Option<T>) -> T {
    let begun = Instant::now();
    loop {
        if let Some(found) = attempt().await {
            return found;
        }
        assert!(begun.elapsed() < PATIENCE, "what was waited for did not come");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

async fn config(kubeconfig: &str) -> kube_client::Config {
    let kubeconfig = Kubeconfig::from_yaml(kubeconfig).unwrap();
    kube_client::Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await.unwrap()
}

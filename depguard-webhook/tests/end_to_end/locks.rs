//! Locks against an API server, whose webhook configurations are like the controller's.

use std::net::SocketAddr;
use std::path::Path;
use std::time::{Duration, Instant};

use base64::Engine;
use depguard_core::ControlPlane;
use depguard_kcp::{ApiError, Endpoint, PathKey, Preconditions};
use depguard_testbed::{Fault, When};
use depguard_webhook::Webhook;
use futures::future::join_all;
use serde_json::{Value, json};

use crate::scene::{Scene, VPCS, eventually};

pub(crate) const LOCKS: &str = "/apis/dependencies.opendefense.cloud/v1alpha1/namespaces/default/objectlocks";
const TABLES: &str = "/apis/dependencies.opendefense.cloud/v1alpha1/locktables";

pub(crate) const KEY: &str = "0123456789abcdef0123456789abcdef";

/// Sets up a scene in which locks can be made, and the webhook guards them. The webhook reviews VPCs and locks.
async fn started(control_plane: ControlPlane) -> (Scene, Webhook) {
    let (scene, own) = set_up(control_plane).await;
    let webhook = scene.start().await;
    guard(&scene, &own, webhook.review_addr()).await;
    (scene, webhook)
}

/// Sets up a scene in which locks can be made. Returns also the endpoint of depguard's own workspace or cluster.
pub(crate) async fn set_up(control_plane: ControlPlane) -> (Scene, Endpoint) {
    let mut scene = Scene::set_up(control_plane).await;
    scene.config.enable.locks = true;
    scene.config.path_key = Some(scene.write("path-key", KEY));
    let own = match control_plane {
        ControlPlane::Kubernetes => {
            for crd in manifests("locks/locks-crd.yaml") {
                scene.tenant.post_json("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", &crd).await.unwrap();
            }
            scene.tenant.clone()
        }
        ControlPlane::Kcp => {
            let own = scene.connection("root:dep-ctrl", "admin").await.own_endpoint();
            for schema in manifests("locks/locks-apiresourceschemas.yaml") {
                own.post_json("/apis/apis.kcp.io/v1alpha1/apiresourceschemas", &schema).await.unwrap();
            }
            let export = &manifests("locks/locks-apiexport.yaml")[0];
            own.post_json("/apis/apis.kcp.io/v1alpha2/apiexports", export).await.unwrap();
            bind_locks(&scene.tenant).await;
            own
        }
    };
    eventually("locks are served", async || scene.tenant.get_json(LOCKS).await.is_ok()).await;
    (scene, own)
}

/// Binds the API of locks in a tenant's workspace.
pub(crate) async fn bind_locks(tenant: &Endpoint) {
    let binding = &manifests("locks/locks-apibinding-tenant.yaml")[0];
    tenant.post_json("/apis/apis.kcp.io/v1alpha2/apibindings", binding).await.unwrap();
    eventually("locks are served", async || tenant.get_json(LOCKS).await.is_ok()).await;
}

/// Has VPCs and locks reviewed at this address, each at a path that is signed for the workspace of the configuration.
pub(crate) async fn guard(scene: &Scene, own: &Endpoint, address: SocketAddr) {
    let kinds = json!([{"operations": ["CREATE", "UPDATE", "DELETE"], "apiGroups": ["dependencies.opendefense.cloud"],
        "apiVersions": ["*"], "resources": ["objectlocks", "clusterobjectlocks"]}]);
    configure(scene, own, address, ["depguard-lock-kinds", "/lock"], &kinds).await;
    let vpcs = json!([{"operations": ["UPDATE", "DELETE"], "apiGroups": ["network.example.com"], "apiVersions": ["*"],
        "resources": ["vpcs"]}]);
    configure(scene, scene.provider(), address, ["depguard-locks", "/lock"], &vpcs).await;
}

/// Reads objects as the controller prints them.
pub(crate) fn manifests(file: &str) -> Vec<Value> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../config");
    let text = std::fs::read_to_string(folder.join(file)).unwrap();
    text.split("\n---\n").map(|object| serde_saphyr::from_str(object).unwrap()).collect()
}

/// Installs a configuration with these rules and this path, signed for the workspace.
pub(crate) async fn configure(
    scene: &Scene,
    workspace: &Endpoint,
    address: SocketAddr,
    [name, path]: [&str; 2],
    rules: &Value,
) {
    let suffix = PathKey::parse(KEY).unwrap().suffix(scene.cluster_of(workspace).await.as_ref());
    let certificate = base64::engine::general_purpose::STANDARD.encode(scene.certificate());
    let configuration = json!({
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingWebhookConfiguration",
        "metadata": {"name": name},
        "webhooks": [{
            "name": format!("{name}.dependencies.opendefense.cloud"), "admissionReviewVersions": ["v1"],
            "sideEffects": "NoneOnDryRun", "failurePolicy": "Fail", "matchPolicy": "Equivalent", "timeoutSeconds": 10,
            "clientConfig": {"url": format!("https://{address}{path}{suffix}"), "caBundle": certificate}, "rules": rules,
        }],
    });
    let path = format!("/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations/{name}");
    workspace.apply(&path, &configuration, "test", true).await.unwrap();
}

async fn lock(scene: &Scene, name: &str, vpc: &str) -> Result<Value, ApiError> {
    scene.tenant.post_json(LOCKS, &mk_lock(&json!({"name": name}), vpc)).await
}

/// Makes a lock of a VPC against changes and deletion.
pub(crate) fn mk_lock(metadata: &Value, vpc: &str) -> Value {
    json!({
        "apiVersion": "dependencies.opendefense.cloud/v1alpha1", "kind": "ObjectLock", "metadata": metadata,
        "spec": {"targets": [{"group": "network.example.com", "resource": "vpcs", "name": vpc}], "reason": "snapshot running"},
    })
}

async fn unlock(scene: &Scene, name: &str) {
    scene.tenant.delete(&format!("{LOCKS}/{name}"), Preconditions::default()).await.unwrap();
}

/// Changes a VPC. Returns the message of a refusal; `None` if the change is made.
pub(crate) async fn change(tenant: &Endpoint, vpc: &str) -> Option<String> {
    let path = format!("{VPCS}/{vpc}");
    let changed = json!({"apiVersion": "network.example.com/v1", "kind": "VPC",
        "metadata": {"name": vpc}, "spec": {"changed": rand()}});
    refusal(tenant.apply(&path, &changed, "test", true).await)
}

/// Returns another number each time.
fn rand() -> u128 {
    std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_nanos() % 1_000_000_007
}

pub(crate) fn refusal(answered: Result<Value, ApiError>) -> Option<String> {
    match answered {
        Ok(_) => None,
        Err(ApiError::Refused { status, .. }) => Some(status.message),
        Err(why) => panic!("{why}"),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_locked_is_neither_changed_nor_deleted_and_all_else_is() {
    for control_plane in [ControlPlane::Kcp, ControlPlane::Kubernetes] {
        let (scene, webhook) = started(control_plane).await;
        assert_eq!(change(&scene.tenant, "a").await, None, "no lock");
        lock(&scene, "snapshot-42", "a").await.unwrap();
        let said = "Object is locked: snapshot running (ObjectLock default/snapshot-42)";
        let message = change(&scene.tenant, "a").await.unwrap();
        assert!(message.contains(said), "{message}");
        let message = scene.delete("a").await.unwrap();
        assert!(message.contains(said), "{message}");
        assert_eq!(change(&scene.tenant, "b").await, None);
        assert_eq!(scene.delete("b").await, None);
        // The table still names the lock, but the lock itself is gone.
        unlock(&scene, "snapshot-42").await;
        let tables = scene.tenant.get_json(TABLES).await.unwrap();
        assert_eq!(tables["items"].as_array().unwrap().len(), 1, "{tables}");
        assert_eq!(change(&scene.tenant, "a").await, None);
        assert_eq!(scene.delete("a").await, None);
        webhook.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lock_is_seen_by_the_change_that_follows_it_while_many_are_made() {
    for control_plane in [ControlPlane::Kcp, ControlPlane::Kubernetes] {
        let (scene, webhook) = started(control_plane).await;
        const MANY: usize = 40;
        scene.fill(MANY, |n| n);
        for round in 0..3 {
            let each = join_all((0..MANY).map(|n| {
                let scene = &scene;
                async move {
                    let vpc = format!("vpc-{n}");
                    lock(scene, &format!("lock-{round}-{n}"), &vpc).await.unwrap();
                    change(&scene.tenant, &vpc).await
                }
            }));
            for (n, message) in each.await.into_iter().enumerate() {
                let message =
                    message.unwrap_or_else(|| panic!("round {round}: vpc-{n} was changed although it is locked"));
                assert!(message.contains("Object is locked"), "{message}");
            }
            // Only the locks of this round are removed.
            join_all((0..MANY).map(|n| {
                let scene = &scene;
                async move { unlock(scene, &format!("lock-{round}-{n}")).await }
            }))
            .await;
        }
        webhook.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn where_the_table_cannot_be_read_nothing_is_changed() {
    let (scene, webhook) = started(ControlPlane::Kubernetes).await;
    let faults = scene.testbed().faults();
    for fault in
        [Fault::Forbidden, Fault::InternalError, Fault::NotFound, Fault::TooManyRequests { retry_after: 1 }, Fault::Cut]
    {
        let broken = faults.inject(fault, When::always().path("/locktables/"));
        let message = change(&scene.tenant, "a").await.unwrap_or_else(|| panic!("{fault:?}: it was changed"));
        assert!(message.contains("could not find out whether"), "{fault:?}: {message}");
        // A lock that nobody would find is not made.
        let message = refusal(lock(&scene, "other", "b").await).unwrap();
        assert!(message.contains("can't be stored"), "{fault:?}: {message}");
        faults.clear(broken);
        assert_eq!(change(&scene.tenant, "a").await, None, "{fault:?}");
    }
    webhook.stop().await;
}

/// Prints the figures of docs/locks.md: `cargo test -p depguard-webhook --test end_to_end costs -- --nocapture`.
#[tokio::test(flavor = "multi_thread")]
async fn an_update_of_what_is_not_locked_costs_two_reads() {
    const UPDATES: u32 = 200;
    let (scene, webhook) = started(ControlPlane::Kubernetes).await;
    lock(&scene, "another", "b").await.unwrap();
    scene.fill(1, |n| n);
    let asked = |part: &str| scene.testbed().faults().inject(Fault::Latency(Duration::ZERO), When::always().path(part));
    let (tables, locks) = (asked("/locktables"), asked("/objectlocks"));
    let guarded = timed(UPDATES, async || assert_eq!(change(&scene.tenant, "a").await, None)).await;
    let hits = |fault| scene.testbed().faults().hits(fault).unwrap();
    assert_eq!(
        (hits(tables), hits(locks)),
        (u64::from(2 * UPDATES), 0),
        "its own namespace's table, and the cluster's"
    );
    let unguarded = timed(UPDATES, async || {
        let vm = json!({"apiVersion": "compute.example.com/v1", "kind": "VirtualMachine",
            "metadata": {"name": "vm-0"}, "spec": {"changed": rand()}});
        let path = "/apis/compute.example.com/v1/namespaces/default/virtualmachines/vm-0";
        scene.tenant.apply(path, &vm, "test", true).await.unwrap();
    })
    .await;
    println!("an update: {guarded:?} where its kind is guarded, {unguarded:?} where it is not");
    assert_eq!(hits(tables), u64::from(2 * UPDATES), "of a kind that no lock names nothing is asked");
    webhook.stop().await;
}

/// Returns the mean duration of one run.
async fn timed(times: u32, mut what: impl AsyncFnMut()) -> Duration {
    let begun = Instant::now();
    for _ in 0..times {
        what().await;
    }
    begun.elapsed() / times
}

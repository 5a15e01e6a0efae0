//! `why` on an API server with depguard in force, for users with different rights.

use std::path::{Path, PathBuf};
use std::time::Duration;

use depguard_controller::{Controller, WebhookTarget, manifests};
use depguard_core::api::ACCEPT_ANNOTATION;
use depguard_core::{ControlPlane, ExportName};
use depguard_kcp::{ConnectOptions, Connection, Endpoint};
use depguard_testbed::{Kind, Options, Testbed};
use depguard_webhook::Webhook;
use kubectl_depguard::ExitStatus;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::tool::depguard_reading;

const NETWORK: &str = "root:providers:network";
const COMPUTE: &str = "root:providers:compute";
const TENANT: &str = "root:tenant";
const VPC: &str = "/apis/network.example.com/v1alpha1/namespaces/default/vpcs/a";

/// Scene with a VPC `a`, a virtual machine `m1` in it, and an enforced rule.
struct Scene {
    testbed: Testbed,
    folder: TempDir,
    control_plane: ControlPlane,
    /// Endpoint of the objects.
    tenant: Endpoint,
    running: Option<(Webhook, Controller)>,
}

impl Scene {
    async fn kcp() -> Self {
        let (testbed, folder) = bed(Kind::Kcp).await;
        let root = connect(&testbed, &folder, "root", "admin", ControlPlane::Kcp).await;
        let at = |path: &str| root.workspace(&path.parse().unwrap());
        for path in ["root:dep-ctrl", "root:providers", NETWORK, COMPUTE, TENANT] {
            let (parent, name) = path.rsplit_once(':').unwrap();
            let workspace =
                json!({"apiVersion": "tenancy.kcp.io/v1alpha1", "kind": "Workspace", "metadata": {"name": name}});
            create(&at(parent), &workspace).await;
            eventually("the workspace is there", async || at(path).get_json("/apis").await.is_ok()).await;
        }
        for object in [manifests::api_resource_schema(), manifests::api_export()] {
            create(&at("root:dep-ctrl"), &object).await;
        }
        for (path, exports) in [
            (NETWORK, include_str!("../../../../examples/quickstart/network.yaml")),
            (COMPUTE, include_str!("../../../../examples/quickstart/compute.yaml")),
        ] {
            create_all(&at(path), exports).await;
            create(&at(path), &manifests::provider_binding("root:dep-ctrl")).await;
        }
        create_all(&at(COMPUTE), include_str!("../../../../examples/quickstart/rule.yaml")).await;
        create_all(&at(TENANT), include_str!("../../../../examples/quickstart/tenant.yaml")).await;
        Self { testbed, folder, control_plane: ControlPlane::Kcp, tenant: at(TENANT), running: None }
            .run("root:dep-ctrl")
            .await
    }

    async fn kubernetes() -> Self {
        let (testbed, folder) = bed(Kind::Kubernetes).await;
        let cluster = connect(&testbed, &folder, "", "admin", ControlPlane::Kubernetes).await.own_endpoint();
        create(&cluster, &manifests::crd()).await;
        create_all(&cluster, include_str!("../../../../examples/provider/crds.yaml")).await;
        create_all(&cluster, include_str!("../../../../examples/provider/rule.yaml")).await;
        Self { testbed, folder, control_plane: ControlPlane::Kubernetes, tenant: cluster, running: None }.run("").await
    }

    /// Creates the objects, starts the webhook and the controller, and waits until the deletion is refused.
    async fn run(mut self, place: &str) -> Self {
        create_all(&self.tenant, include_str!("../../../../examples/quickstart/objects.yaml")).await;
        let certificate = rcgen::generate_simple_self_signed(["127.0.0.1".to_owned()]).unwrap();
        let path = |file: &str| self.folder.path().join(file);
        std::fs::write(path("tls.crt"), certificate.cert.pem()).unwrap();
        std::fs::write(path("tls.key"), certificate.signing_key.serialize_pem()).unwrap();
        let kubeconfig = Some(kubeconfig(&self.testbed, &self.folder, place, "admin"));
        let webhook = Webhook::start(
            depguard_webhook::Config::default()
                .control_plane(self.control_plane)
                .kubeconfig(kubeconfig.clone())
                .review_addr(([127, 0, 0, 1], 0).into())
                .probe_addr(None)
                .metrics_addr(None)
                .tls_cert_dir(self.folder.path().to_owned())
                .shutdown_delay(Duration::ZERO),
        )
        .await
        .unwrap();
        let target = WebhookTarget::Url(format!("https://{}/validate", webhook.review_addr()));
        let export = ExportName::parse("dependencies.opendefense.cloud").unwrap();
        let controller = Controller::start(
            depguard_controller::Config::new(self.control_plane, export, target)
                .kubeconfig(kubeconfig)
                .probe_addr(None)
                .metrics_addr(None)
                .ca_bundle_path(Some(path("tls.crt"))),
        )
        .await
        .unwrap();
        self.running = Some((webhook, controller));
        eventually("the deletion is refused", async || {
            let refused = self.tenant.delete_dry_run(VPC).await.err();
            refused.is_some_and(|why| why.to_string().contains("still referenced by VirtualMachine/m1"))
        })
        .await;
        self
    }

    /// Grants a user these rights in the cluster or workspace of the objects.
    async fn grant(&self, user: &str, rules: &[[&str; 3]]) {
        let rules: Vec<_> = rules
            .iter()
            .map(|[group, resource, verbs]| {
                json!({"apiGroups": [group], "resources": [resource], "verbs": verbs.split(',').collect::<Vec<_>>()})
            })
            .collect();
        let api = "rbac.authorization.k8s.io";
        let role = json!({"apiVersion": format!("{api}/v1"), "kind": "ClusterRole", "metadata": {"name": user}, "rules": rules});
        create(&self.tenant, &role).await;
        let roles = [user, "system:kcp:workspace:access"];
        for role in roles.iter().take(if self.control_plane == ControlPlane::Kcp { 2 } else { 1 }) {
            let binding = json!({
                "apiVersion": format!("{api}/v1"), "kind": "ClusterRoleBinding",
                "metadata": {"name": format!("{user}-{}", role.replace(':', "-"))},
                "roleRef": {"apiGroup": api, "kind": "ClusterRole", "name": role},
                "subjects": [{"apiGroup": api, "kind": "User", "name": user}],
            });
            create(&self.tenant, &binding).await;
        }
    }

    async fn why(&self, user: &str, args: &[&str]) -> (ExitStatus, String, String) {
        let place = if self.control_plane == ControlPlane::Kcp { TENANT } else { "" };
        let kubeconfig = kubeconfig(&self.testbed, &self.folder, place, user);
        let fixed = ["why", "vpc", "a", "--kubeconfig", kubeconfig.to_str().unwrap()];
        depguard_reading(&[fixed.as_slice(), args].concat(), "").await
    }

    async fn stop(self) {
        if let Some((webhook, controller)) = self.running {
            controller.stop().await;
            webhook.stop().await;
        }
        self.testbed.stop().await;
    }
}

const RULES: [&str; 3] = ["dependencies.opendefense.cloud", "dependencyrules", "list"];
const VPCS: [&str; 3] = ["network.example.com", "vpcs", "get,delete"];
const VMS: [&str; 3] = ["compute.example.com", "virtualmachines", "get,list"];
const BINDINGS: [&str; 3] = ["apis.kcp.io", "apibindings", "list"];

/// Checks the answers for users with different rights, which are the same on both control planes.
async fn told_by_rights(scene: &Scene) {
    // The administrator can read everything.
    let (status, out, err) = scene.why("admin", &[]).await;
    assert_eq!((status, err.as_str()), (ExitStatus::Finding, ""), "{out}");
    assert!(
        out.starts_with(
            "refused: vpcs/a is blocked by 1 object (source: the rules that you may read, and a dry run)\n"
        ),
        "{out}"
    );
    assert!(
        out.contains("virtualmachines   spec.vpcRef.name   ") && out.contains("delete it, or change .spec.vpcRef.name"),
        "{out}"
    );

    // The API server answers a user who may not read the rules.
    scene.grant("alice", &[VPCS, VMS, BINDINGS]).await;
    let (status, out, err) = scene.why("alice", &[]).await;
    assert_eq!((status, err.as_str()), (ExitStatus::Finding, ""), "{out}");
    assert!(out.starts_with("refused: vpcs/a is blocked by 1 object (source: a dry run)\n"), "{out}");
    assert!(out.contains("VirtualMachine/m1   <unread>   spec.vpcRef.name   delete it, or change"), "{out}");
    let (_, out, _) = scene.why("alice", &["-o", "json"]).await;
    let json = answer(&out);
    assert_eq!((&json["source"], &json["state"]), (&json!("dry-run"), &json!("refused")));
    assert_eq!(json["blockers"][0]["name"], "m1");
    assert!(!json["unread"].as_array().unwrap().is_empty(), "{json}");

    // A user who may do neither learns which right is missing.
    scene.grant("carol", &[[VPCS[0], VPCS[1], "get"], BINDINGS]).await;
    let (status, out, err) = scene.why("carol", &[]).await;
    assert_eq!(status, ExitStatus::Failure, "{out}");
    assert!(err.starts_with("error: could not find out what blocks vpcs/a\n"), "{err}");
    assert!(err.contains("delete vpcs.network.example.com in namespace default"), "{err}");

    // When nothing refers to the VPC any more, the API server says so, too.
    let machine = "/apis/compute.example.com/v1alpha1/namespaces/default/virtualmachines/m1";
    scene.tenant.delete(machine, Default::default()).await.unwrap();
    for (user, way) in
        [("admin", "(source: the rules that you may read, and a dry run)"), ("alice", "(source: a dry run)")]
    {
        let (status, out, err) = scene.why(user, &[]).await;
        assert_eq!((status, err.as_str()), (ExitStatus::Well, ""), "{out}");
        assert!(out.contains("; nothing blocks the deletion of ") && out.contains(way), "{out}");
    }
    // The dry run has not deleted the VPC.
    scene.tenant.get_json(VPC).await.unwrap();
}

#[tokio::test]
async fn in_kcp_a_tenant_is_told_by_the_api_server() {
    let scene = Scene::kcp().await;
    told_by_rights(&scene).await;
    scene.stop().await;
}

#[tokio::test]
async fn a_rule_that_the_targets_provider_does_not_accept_blocks_nothing() {
    let scene = Scene::kcp().await;
    let (status, out, _) = scene.why("admin", &[]).await;
    assert_eq!(status, ExitStatus::Finding, "{out}");

    let network = connect(&scene.testbed, &scene.folder, NETWORK, "admin", ControlPlane::Kcp).await.own_endpoint();
    for (accepted, blocked) in [("root:else", false), ("root:else, root:providers:*", true)] {
        let path = "/apis/apis.kcp.io/v1alpha2/apiexports/network.example.com";
        let mut export = network.get_json(path).await.unwrap();
        export["metadata"]["annotations"][ACCEPT_ANNOTATION] = json!(accepted);
        network.put_json(path, &export).await.unwrap();
        eventually("the API server goes by it", async || scene.tenant.delete_dry_run(VPC).await.is_err() == blocked)
            .await;
        let (status, out, err) = scene.why("admin", &[]).await;
        let expected = if blocked { ExitStatus::Finding } else { ExitStatus::Well };
        assert_eq!((status, err.as_str()), (expected, ""), "{out}");
        let (_, out, _) = scene.why("admin", &["-o", "json"]).await;
        let json = answer(&out);
        let state = if blocked { "refused" } else { "free" };
        assert_eq!((&json["source"], &json["state"]), (&json!("rules-and-dry-run"), &json!(state)));
    }
    scene.stop().await;
}

#[tokio::test]
async fn in_a_cluster_rights_decide_who_tells() {
    let scene = Scene::kubernetes().await;
    told_by_rights(&scene).await;
    // The API server also answers a user who may read the rules but not the dependents.
    create_all(
        &scene.tenant,
        include_str!("../../../../examples/quickstart/objects.yaml").split("---").nth(1).unwrap(),
    )
    .await;
    scene.grant("dave", &[VPCS, RULES]).await;
    let (status, out, _) = scene.why("dave", &[]).await;
    assert_eq!(status, ExitStatus::Finding, "{out}");
    assert!(out.starts_with("refused: vpcs/a is blocked by 1 object (source: a dry run)\n"), "{out}");
    scene.stop().await;
}

/// The lock has no webhook of depguard: a stored lock doesn't show whether API servers call a webhook for it.
#[tokio::test]
async fn a_lock_and_a_foreign_webhook_are_never_nothing() {
    let (testbed, folder) = bed(Kind::Kubernetes).await;
    let cluster = connect(&testbed, &folder, "", "admin", ControlPlane::Kubernetes).await.own_endpoint();
    for crd in [manifests::crd()].into_iter().chain(manifests::lock_crds()) {
        create(&cluster, &crd).await;
    }
    create_all(&cluster, include_str!("../../../../examples/provider/crds.yaml")).await;
    create_all(&cluster, include_str!("../../../../examples/quickstart/objects.yaml")).await;
    let scene = Scene { testbed, folder, control_plane: ControlPlane::Kubernetes, tenant: cluster, running: None };
    let (status, out, err) = scene.why("admin", &[]).await;
    assert_eq!((status, err.as_str()), (ExitStatus::Well, ""), "{out}");

    let lock = json!({
        "apiVersion": "dependencies.opendefense.cloud/v1alpha1", "kind": "ObjectLock",
        "metadata": {"name": "freeze", "namespace": "default"},
        "spec": {"reason": "change freeze", "operations": ["Delete"], "holder": {"users": ["alice"]},
            "targets": [{"group": "network.example.com", "resource": "vpcs", "name": "a"}]},
    });
    create(&scene.tenant, &lock).await;
    // No webhook enforces the lock yet, as the API server's answer shows.
    let (status, out, _) = scene.why("admin", &[]).await;
    assert_eq!(status, ExitStatus::Well, "{out}");
    // For a user who may not ask the API server, the command doesn't say that nothing blocks the deletion.
    scene.grant("carol", &[[VPCS[0], VPCS[1], "get"], RULES, [RULES[0], "*", "list"], VMS]).await;
    let (status, out, _) = scene.why("carol", &[]).await;
    assert_eq!(status, ExitStatus::Failure, "{out}");
    assert!(out.contains("ObjectLock default/freeze   change freeze   user alice"), "{out}");

    let path = "/apis/dependencies.opendefense.cloud/v1alpha1/namespaces/default/objectlocks/freeze";
    let mut programmed = scene.tenant.get_json(path).await.unwrap();
    programmed["status"] = json!({"conditions": [{"type": "Programmed", "status": "True", "reason": "Programmed",
        "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z"}]});
    scene.tenant.put_json(&format!("{path}/status"), &programmed).await.unwrap();
    for user in ["admin", "carol"] {
        let (status, out, err) = scene.why(user, &[]).await;
        assert_eq!((status, err.as_str()), (ExitStatus::Finding, ""), "{out}");
        assert!(out.starts_with("refused: vpcs/a is locked by 1 lock"), "{out}");
        // Nothing enforces the lock, which only somebody who may delete the object can find out.
        let is_told = out.contains("warning: a dry run says that the API server would delete it for you all the same");
        assert_eq!(is_told, user == "admin", "{out}");
        assert!(out.contains("delete the lock, or act as its holder"), "{out}");
    }
    scene.tenant.delete(path, Default::default()).await.unwrap();

    // Another webhook that can't be reached refuses, too.
    let configuration = json!({
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingWebhookConfiguration",
        "metadata": {"name": "other"},
        "webhooks": [{"name": "other.example.com", "admissionReviewVersions": ["v1"], "sideEffects": "None",
            "failurePolicy": "Fail", "clientConfig": {"url": "https://127.0.0.1:1/"},
            "rules": [{"operations": ["DELETE"], "apiGroups": ["*"], "apiVersions": ["*"], "resources": ["vpcs"]}]}],
    });
    let path = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations";
    scene.tenant.post_json(path, &configuration).await.unwrap();
    eventually("the API server goes by it", async || scene.tenant.delete_dry_run(VPC).await.is_err()).await;
    let (status, out, err) = scene.why("admin", &[]).await;
    assert_eq!((status, err.as_str()), (ExitStatus::Finding, ""), "{out}");
    assert!(out.starts_with("refused: vpcs/a is refused by other.example.com (source: "), "{out}");
    assert!(out.contains("refuses: the API server can't call webhook other.example.com"), "{out}");
    assert!(!out.contains("may refuse"), "{out}");
    scene.stop().await;
}

/// Returns the answer about one object, from the report for programs.
fn answer(out: &str) -> Value {
    let report: Value = serde_json::from_str(out).unwrap();
    report["objects"][0].clone()
}

async fn bed(kind: Kind) -> (Testbed, TempDir) {
    let testbed = Testbed::start(Options::new(kind).rbac()).await.unwrap();
    (testbed, tempfile::tempdir().unwrap())
}

fn kubeconfig(testbed: &Testbed, folder: &TempDir, cluster: &str, user: &str) -> PathBuf {
    let file: PathBuf = Path::new(folder.path()).join(format!("{user}-{}.kubeconfig", cluster.replace(':', "-")));
    std::fs::write(&file, testbed.kubeconfig(cluster, user)).unwrap();
    file
}

async fn connect(
    testbed: &Testbed,
    folder: &TempDir,
    cluster: &str,
    user: &str,
    control_plane: ControlPlane,
) -> Connection {
    let kubeconfig = Some(kubeconfig(testbed, folder, cluster, user));
    Connection::open(&ConnectOptions::new(control_plane).kubeconfig(kubeconfig)).await.unwrap()
}

async fn create_all(endpoint: &Endpoint, yaml: &str) {
    for object in serde_saphyr::from_multiple::<Value>(yaml).unwrap() {
        create(endpoint, &object).await;
    }
}

/// Creates an object, as soon as its kind is served.
async fn create(endpoint: &Endpoint, object: &Value) {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let plural = match text(&object["kind"]).to_lowercase() {
        kind if kind.ends_with('y') => format!("{}ies", kind.trim_end_matches('y')),
        kind => format!("{kind}s"),
    };
    let namespace = object["metadata"]["namespace"].as_str().map(|name| format!("/namespaces/{name}"));
    let path = format!("/apis/{}{}/{plural}", text(&object["apiVersion"]), namespace.unwrap_or_default());
    eventually(&path, async || match endpoint.post_json(&path, object).await {
        Ok(_) => true,
        Err(why) if why.is_not_found() => false,
        Err(why) => panic!("{why}"),
    })
    .await;
}

/// Repeats a check until it succeeds, for a generous time.
async fn eventually(what: &str, mut is_so: impl AsyncFnMut() -> bool) {
    for _ in 0..1_200 {
        if is_so().await {
            return;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    panic!("never: {what}");
}

//! Testbed with depguard's export, two providers, and a client.

use std::path::PathBuf;
use std::time::Duration;

use depguard_controller::{Config, Controller, WebhookTarget, manifests};
use depguard_core::{ControlPlane, ExportName};
use depguard_kcp::{ApiError, ConnectOptions, Connection, Endpoint, Preconditions};
use depguard_testbed::{Kind, Options, Testbed};
use serde_json::{Value, json};
use tempfile::TempDir;

pub(crate) const URL: &str = "https://127.0.0.1:9443/validate";
pub(crate) const NETWORK: &str = "root:network";
pub(crate) const COMPUTE: &str = "root:compute";

const CONFIGURATION: &str =
    "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations/dependency-controller";
/// Configuration that has references reviewed.
pub(crate) const REFERENCES: &str =
    "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations/dependency-references";
/// Path of all rules.
pub(crate) const RULES: &str = "/apis/dependencies.opendefense.cloud/v1alpha1/dependencyrules";
const BINDINGS: &str = "/apis/apis.kcp.io/v1alpha2/apibindings";
const PATIENCE: Duration = Duration::from_secs(60);

pub(crate) struct Bed {
    pub(crate) testbed: Testbed,
    pub(crate) folder: TempDir,
    control_plane: ControlPlane,
    connection: Connection,
}

impl Bed {
    /// Starts a kcp with depguard's export and a workspace for each provider. `compute` has bound the export, `network`
    /// not yet.
    pub(crate) async fn kcp() -> Self {
        let bed = Self::start(Kind::Kcp, ControlPlane::Kcp, "root:dep-ctrl").await;
        for name in ["dep-ctrl", "compute", "network"] {
            bed.workspace(name).await;
        }
        let dep_ctrl = bed.at("root:dep-ctrl");
        for (path, object) in [
            ("/apis/apis.kcp.io/v1alpha1/apiresourceschemas", manifests::api_resource_schema()),
            ("/apis/apis.kcp.io/v1alpha2/apiexports", manifests::api_export()),
        ] {
            until("depguard's workspace takes it", async || ok(dep_ctrl.post_json(path, &object).await)).await;
        }
        bed.bind(COMPUTE, &manifests::provider_binding("root:dep-ctrl")).await;
        bed
    }

    /// Makes a workspace in `root`.
    pub(crate) async fn workspace(&self, name: &str) {
        let object = json!({"apiVersion": "tenancy.kcp.io/v1alpha1", "kind": "Workspace", "metadata": {"name": name}});
        self.at("root").post_json("/apis/tenancy.kcp.io/v1alpha1/workspaces", &object).await.unwrap();
    }

    /// Starts the same kcp, and `network` has bound depguard, too.
    pub(crate) async fn kcp_bound() -> Self {
        let bed = Self::kcp().await;
        bed.bind(NETWORK, &manifests::provider_binding("root:dep-ctrl")).await;
        bed
    }

    pub(crate) async fn kubernetes() -> Self {
        let bed = Self::start(Kind::Kubernetes, ControlPlane::Kubernetes, "").await;
        let crds = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
        bed.at("").post_json(crds, &manifests::crd()).await.unwrap();
        until("rules are served", async || ok(bed.at("").list_json(RULES).await)).await;
        bed
    }

    /// Defines a kind of the one cluster, whose objects may name a VPC.
    pub(crate) async fn define(&self, group: &str, kind: &str) {
        let plural = format!("{}s", kind.to_lowercase());
        let text = json!({"type": "object", "properties": {"name": {"type": "string"}}});
        let spec = json!({"type": "object", "properties": {"vpcRef": text}});
        let schema = json!({"type": "object", "properties": {"spec": spec}});
        let definition = json!({
            "apiVersion": "apiextensions.k8s.io/v1",
            "kind": "CustomResourceDefinition",
            "metadata": {"name": format!("{plural}.{group}")},
            "spec": {
                "group": group,
                "names": {"kind": kind, "listKind": format!("{kind}List"), "plural": plural, "singular": plural},
                "scope": "Namespaced",
                "versions": [{"name": "v1alpha1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema}}],
            },
        });
        let path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
        self.at("").post_json(path, &definition).await.unwrap();
    }

    async fn start(kind: Kind, control_plane: ControlPlane, workspace: &str) -> Self {
        let testbed = Testbed::start(Options::new(kind)).await.unwrap();
        let folder = tempfile::tempdir().unwrap();
        let kubeconfig = folder.path().join("kubeconfig");
        std::fs::write(&kubeconfig, testbed.kubeconfig(workspace, "admin")).unwrap();
        let options = ConnectOptions::new(control_plane).kubeconfig(kubeconfig);
        let connection = Connection::open(&options).await.unwrap();
        Self { testbed, folder, control_plane, connection }
    }

    /// Makes depguard's own namespace, where its Leases are.
    pub(crate) async fn own_namespace(&self, workspace: &str) {
        let object = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": manifests::NAMESPACE}});
        self.at(workspace).post_json("/api/v1/namespaces", &object).await.unwrap();
    }

    /// Returns the settings of a controller, with probes on any free port and without metrics.
    pub(crate) fn config(&self) -> Config {
        let export = ExportName::parse("dependencies.opendefense.cloud").unwrap();
        Config::new(self.control_plane, export, WebhookTarget::Url(URL.to_owned()))
            .kubeconfig(Some(self.folder.path().join("kubeconfig")))
            .probe_addr(Some(([127, 0, 0, 1], 0).into()))
            .metrics_addr(None)
    }

    pub(crate) async fn controller(&self) -> Controller {
        Controller::start(self.config()).await.unwrap()
    }

    /// Returns the endpoint of a workspace by its path; `""` in plain Kubernetes.
    pub(crate) fn at(&self, workspace: &str) -> Endpoint {
        match self.control_plane {
            ControlPlane::Kcp => self.connection.workspace(&workspace.parse().unwrap()),
            ControlPlane::Kubernetes => self.connection.own_endpoint(),
        }
    }

    pub(crate) async fn bind(&self, workspace: &str, binding: &Value) {
        let at = self.at(workspace);
        until("the workspace takes the binding", async || ok(at.post_json(BINDINGS, binding).await)).await;
        until("rules are served there", async || ok(at.list_json(RULES).await)).await;
    }

    /// Changes the binding of a workspace.
    pub(crate) async fn rebind(&self, workspace: &str, edit: impl Fn(&mut Value)) {
        let path = format!("{BINDINGS}/dependencies.opendefense.cloud");
        self.edit(workspace, &path, edit).await;
    }

    /// Reads, changes and replaces an object, until there is no conflict.
    pub(crate) async fn edit(&self, workspace: &str, path: &str, edit: impl Fn(&mut Value)) {
        until("the object can be changed", async || {
            let mut object = self.at(workspace).get_json(path).await.map_err(|error| error.to_string())?;
            edit(&mut object);
            ok(self.at(workspace).put_json(path, &object).await)
        })
        .await;
    }

    /// Makes a rule in `compute`: dependents of the export `compute.example.com`, one target a resource.
    pub(crate) async fn rule(&self, name: &str, resources: &[&str]) {
        self.at(COMPUTE).post_json(RULES, &rule(name, resources)).await.unwrap();
    }

    pub(crate) async fn delete_rule(&self, workspace: &str, name: &str) {
        self.at(workspace).delete(&format!("{RULES}/{name}"), Preconditions::default()).await.unwrap();
    }

    /// Returns the configuration in a workspace.
    pub(crate) async fn configuration(&self, workspace: &str) -> Option<Value> {
        self.found(workspace, CONFIGURATION).await
    }

    /// Returns the object at a path of a workspace, if it is there.
    pub(crate) async fn found(&self, workspace: &str, path: &str) -> Option<Value> {
        match self.at(workspace).get_json(path).await {
            Ok(found) => Some(found),
            Err(error) if error.is_not_found() => None,
            Err(error) => panic!("{error}"),
        }
    }

    pub(crate) async fn put_configuration(&self, workspace: &str, object: &Value) {
        let collection = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations";
        self.at(workspace).post_json(collection, object).await.unwrap();
    }

    pub(crate) async fn edit_configuration(&self, workspace: &str, edit: impl Fn(&mut Value)) {
        self.edit(workspace, CONFIGURATION, edit).await;
    }

    pub(crate) async fn delete_configuration(&self, workspace: &str) {
        self.at(workspace).delete(CONFIGURATION, Preconditions::default()).await.unwrap();
    }

    /// Returns the resources that are installed in a workspace.
    pub(crate) async fn installed(&self, workspace: &str) -> Vec<String> {
        let found = self.configuration(workspace).await.unwrap_or_default();
        let rules = found.pointer("/webhooks/0/rules").and_then(Value::as_array).cloned().unwrap_or_default();
        rules.iter().map(|rule| rule["resources"][0].as_str().unwrap().to_owned()).collect()
    }

    pub(crate) async fn until_installed(&self, workspace: &str, resources: &[&str]) {
        until(&format!("{resources:?} is installed"), async || {
            let installed = self.installed(workspace).await;
            if installed == resources { Ok(()) } else { Err(format!("installed: {installed:?}")) }
        })
        .await;
    }

    /// Waits until a condition of a rule has this status and reason, such as `False NotBound`. Returns its message.
    pub(crate) async fn until_condition(&self, workspace: &str, rule: &str, type_: &str, expected: &str) -> String {
        until(&format!("{type_} of {rule} is {expected}"), async || {
            let object = self.at(workspace).get_json(&format!("{RULES}/{rule}")).await.unwrap();
            let conditions = object.pointer("/status/conditions").and_then(Value::as_array).cloned();
            let found = conditions.unwrap_or_default().into_iter().find(|condition| condition["type"] == type_);
            let Some(found) = found else { return Err("no such condition".to_owned()) };
            let text = |field: &str| found[field].as_str().unwrap().to_owned();
            let said = format!("{} {}", text("status"), text("reason"));
            if said == expected { Ok(text("message")) } else { Err(format!("{said}: {}", text("message"))) }
        })
        .await
    }
}

/// Sends a `GET` to the controller's probe port, and returns the status code.
pub(crate) async fn probe(controller: &Controller, path: &str) -> u16 {
    answer(controller, path).await.split(' ').nth(1).unwrap().parse().unwrap()
}

/// Returns the whole answer of a probe.
pub(crate) async fn answer(controller: &Controller, path: &str) -> String {
    page(controller.probe_addr().unwrap(), path).await
}

/// Returns the value of one of the controller's metrics, or 0 if it is not there.
pub(crate) async fn metric(controller: &Controller, name: &str) -> f64 {
    let page = page(controller.metrics_addr().unwrap(), "/metrics").await;
    let value = page.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    value.map_or(0.0, |value| value.parse().unwrap())
}

async fn page(address: std::net::SocketAddr, path: &str) -> String {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    let mut stream = tokio::net::TcpStream::connect(address).await.unwrap();
    stream.write_all(format!("GET {path} HTTP/1.1\r\nHost: x\r\n\r\n").as_bytes()).await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    answer
}

pub(crate) async fn until_ready(controller: &Controller) {
    until("the controller is ready", async || match probe(controller, "/readyz").await {
        200 => Ok(()),
        code => Err(code.to_string()),
    })
    .await;
}

/// Tries until it succeeds; panics with the last reason after some time.
pub(crate) async fn until<T>(what: &str, mut attempt: impl AsyncFnMut() -> Result<T, String>) -> T {
    let end = tokio::time::Instant::now() + PATIENCE;
    loop {
        match attempt().await {
            Ok(value) => return value,
            Err(why) => assert!(tokio::time::Instant::now() < end, "waited in vain until {what}: {why}"),
        }
        tokio::time::sleep(Duration::from_millis(25)).await;
    }
}

pub(crate) fn rule(name: &str, resources: &[&str]) -> Value {
    let dependencies = resources.iter().map(|resource| {
        json!({
            "apiExportRef": {"path": NETWORK, "name": "network.example.com"},
            "group": "network.example.com",
            "version": "v1alpha1",
            "resource": resource,
            "fieldRef": {"path": ".spec.vpcRef.name"},
        })
    });
    json!({
        "apiVersion": "dependencies.opendefense.cloud/v1alpha1",
        "kind": "DependencyRule",
        "metadata": {"name": name},
        "spec": {
            "dependent": {
                "apiExportName": "compute.example.com",
                "group": "compute.example.com",
                "version": "v1alpha1",
                "kind": "VirtualMachine",
                "resource": "virtualmachines",
            },
            "dependencies": dependencies.collect::<Vec<_>>(),
        },
    })
}

/// Writes a CA bundle and returns its path: any PEM will do, as nobody calls the webhook here.
pub(crate) fn write_bundle(folder: &TempDir, content: &str) -> PathBuf {
    let path = folder.path().join("ca.crt");
    let pem = format!("-----BEGIN CERTIFICATE-----\n{content}\n-----END CERTIFICATE-----\n");
    std::fs::write(&path, pem).unwrap();
    path
}

pub(crate) fn ok<T>(result: Result<T, ApiError>) -> Result<(), String> {
    result.map(drop).map_err(|error| error.to_string())
}

/// Makes a rule of plain Kubernetes: its dependents are Pods, which may name an object of this kind.
pub(crate) fn local_rule(name: &str, group: &str, version: &str, resource: &str) -> Value {
    json!({
        "apiVersion": "dependencies.opendefense.cloud/v1alpha1",
        "kind": "DependencyRule",
        "metadata": {"name": name},
        "spec": {
            "dependent": {"group": "", "version": "v1", "kind": "Pod", "resource": "pods"},
            "dependencies": [
                {"group": group, "version": version, "resource": resource, "fieldRef": {"path": ".spec.name"}},
            ],
        },
    })
}

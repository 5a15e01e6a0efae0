//! Virtual machines that refer to VPCs, protected by rules, on a testbed of either control plane.

use depguard_kcp::Endpoint;
use depguard_testbed::{Fault, FaultId, Place, When};
use serde_json::{Value, json};

use crate::bed::Bed;
use crate::tool::{Ran, depguard};

/// Kinds, each with a group and an export of its own.
const KINDS: [(&str, &str, &str, &str); 2] = [
    ("compute.example.com", "virtualmachines", "VirtualMachine", "Namespaced"),
    ("network.example.com", "vpcs", "VPC", "Namespaced"),
];

pub(crate) struct Scene {
    bed: Bed,
    /// Endpoint of the objects.
    objects: Endpoint,
    kubeconfig: String,
}

impl Scene {
    pub(crate) async fn kubernetes() -> Self {
        Self::on_kubernetes(Bed::kubernetes().await).await
    }

    /// Sets the scene in a cluster with RBAC, in which alice has no right yet.
    pub(crate) async fn kubernetes_with_rights() -> Self {
        Self::on_kubernetes(Bed::kubernetes_with_rights().await).await
    }

    async fn on_kubernetes(bed: Bed) -> Self {
        let objects = bed.endpoint();
        for (group, resource, kind, scope) in KINDS {
            define(&objects, group, "v1", resource, kind, scope).await;
        }
        define_rules(&objects).await;
        post(&objects, RULES, &rule(None)).await;
        let kubeconfig = bed.kubeconfig("alice", "", "alice");
        Self { bed, objects, kubeconfig }
    }

    pub(crate) async fn kcp() -> Self {
        let bed = Bed::kcp().await;
        for name in ["provider", "tenant"] {
            let workspace =
                json!({"apiVersion": "tenancy.kcp.io/v1alpha1", "kind": "Workspace", "metadata": {"name": name}});
            post(&bed.endpoint(), "/apis/tenancy.kcp.io/v1alpha1/workspaces", &workspace).await;
        }
        let (provider, objects) = (bed.workspace("root:provider"), bed.workspace("root:tenant"));
        until("both workspaces are there", async || {
            provider.get_json("/api/v1/namespaces").await.is_ok()
                && objects.get_json("/api/v1/namespaces").await.is_ok()
        })
        .await;
        for (group, resource, kind, scope) in KINDS {
            export(&provider, group, resource, kind, scope).await;
            bind(&objects, group).await;
        }
        define_rules(&provider).await;
        post(&provider, RULES, &rule(Some("root:provider"))).await;
        let kubeconfig = bed.kubeconfig("alice", "root:tenant", "alice");
        Self { bed, objects, kubeconfig }
    }

    /// Runs a command as a tenant.
    pub(crate) async fn run(&self, args: &[&str]) -> Ran {
        depguard(&[args, &["--kubeconfig", &self.kubeconfig]].concat()).await
    }

    /// Binds an export of the provider in `root`, too.
    pub(crate) async fn bind_in_root(&self, export: &str) {
        bind(&self.bed.endpoint(), export).await;
    }

    /// Runs a command with every right.
    pub(crate) async fn run_as_admin(&self, args: &[&str]) -> Ran {
        self.bed.depguard(args).await
    }

    /// Runs a command in the workspace that exports the kinds.
    pub(crate) async fn run_as_provider(&self, args: &[&str]) -> Ran {
        let kubeconfig = self.bed.kubeconfig("provider", "root:provider", "admin");
        depguard(&[args, &["--kubeconfig", &kubeconfig]].concat()).await
    }

    pub(crate) async fn vpc(&self, namespace: &str, name: &str) {
        self.create("network.example.com", "vpcs", "VPC", namespace, name, json!({})).await;
    }

    /// Creates a machine that refers to these VPCs, each `a` or `namespace/a`.
    pub(crate) async fn vm(&self, namespace: &str, name: &str, vpcs: &[&str]) {
        let vpcs: Vec<_> = vpcs.iter().map(|vpc| json!({"vpc": vpc})).collect();
        let spec = json!({"networks": vpcs});
        self.create("compute.example.com", "virtualmachines", "VirtualMachine", namespace, name, spec).await;
    }

    /// Makes the API server refuse requests with this in their path, from now on.
    pub(crate) fn forbid(&self, path: &str) {
        self.bed.testbed.faults().inject(Fault::Forbidden, When::always().method("GET").path(path));
    }

    /// Makes the API server answer such requests as if it didn't serve their kind, from now on.
    pub(crate) fn unserve(&self, path: &str) {
        self.bed.testbed.faults().inject(Fault::NotFound, When::always().method("GET").path(path));
    }

    /// Makes the API server fail on such requests, from now on.
    pub(crate) fn fail(&self, when: When) {
        self.bed.testbed.faults().inject(Fault::InternalError, when);
    }

    /// Puts objects into a namespace, which need not exist.
    pub(crate) fn fill(&self, (group, resource): (&str, &str), namespace: &str, objects: impl Iterator<Item = Value>) {
        self.bed.testbed.fill(&Place::new(group, "v1", resource).namespace(namespace), objects).unwrap();
    }

    pub(crate) fn kubeconfig(&self) -> &str {
        &self.kubeconfig
    }

    /// Returns the endpoint of the objects, with every right.
    pub(crate) fn objects(&self) -> &Endpoint {
        &self.objects
    }

    /// Turns a fault on.
    pub(crate) fn inject(&self, fault: Fault, when: When) -> FaultId {
        self.bed.testbed.faults().inject(fault, when)
    }

    /// Turns all faults off.
    pub(crate) fn clear_faults(&self) {
        self.bed.testbed.faults().clear_all();
    }

    /// Returns the number of requests that a fault has hit.
    pub(crate) fn hits(&self, fault: FaultId) -> u64 {
        self.bed.testbed.faults().hits(fault).unwrap()
    }

    /// Returns the number of lists of a kind that were begun.
    pub(crate) fn lists(&self, group: &str, resource: &str) -> u64 {
        self.bed.testbed.lists(group, resource).begun
    }

    async fn create(&self, group: &str, resource: &str, kind: &str, namespace: &str, name: &str, spec: Value) {
        let object = json!({
            "apiVersion": format!("{group}/v1"), "kind": kind, "metadata": {"name": name, "namespace": namespace}, "spec": spec,
        });
        let path = format!("/apis/{group}/v1/namespaces/{namespace}/{resource}");
        if self.objects.get_json(&format!("/api/v1/namespaces/{namespace}")).await.is_err() {
            let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}});
            post(&self.objects, "/api/v1/namespaces", &namespace).await;
        }
        post(&self.objects, &path, &object).await;
    }
}

pub(crate) const RULES: &str = "/apis/dependencies.opendefense.cloud/v1alpha1/dependencyrules";

/// Builds the rule. A machine names a VPC as `namespace/name`, or by a name in its own namespace.
fn rule(provider: Option<&str>) -> Value {
    let mut rule = json!({
        "apiVersion": "dependencies.opendefense.cloud/v1alpha1", "kind": "DependencyRule", "metadata": {"name": "machines"},
        "spec": {
            "dependent": {"group": "compute.example.com", "version": "v1", "kind": "VirtualMachine", "resource": "virtualmachines"},
            "dependencies": [{
                "group": "network.example.com", "version": "v1", "resource": "vpcs",
                "fieldRef": {"path": ".spec.networks[*].vpc", "pattern": "([^/]+)$", "namespacePattern": "^([^/]+)/"},
            }],
        },
    });
    if let Some(path) = provider {
        rule["spec"]["dependent"]["apiExportName"] = "compute.example.com".into();
        rule["spec"]["dependencies"][0]["apiExportRef"] = json!({"path": path, "name": "network.example.com"});
    }
    rule
}

fn definition(group: &str, version: &str, resource: &str, kind: &str, scope: &str, schema: &Value) -> Value {
    json!({
        "group": group, "scope": scope,
        "names": {"kind": kind, "listKind": format!("{kind}List"), "plural": resource, "singular": kind.to_lowercase()},
        "versions": [{"name": version, "served": true, "storage": true, "schema": schema}],
    })
}

pub(crate) async fn define(at: &Endpoint, group: &str, version: &str, resource: &str, kind: &str, scope: &str) {
    let schema = json!({"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}});
    let crd = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("{resource}.{group}")},
        "spec": definition(group, version, resource, kind, scope, &schema),
    });
    post(at, "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", &crd).await;
    let path = format!("/apis/{group}/{version}/{resource}");
    until(&path, async || at.get_json(&path).await.is_ok()).await;
}

async fn define_rules(at: &Endpoint) {
    define(at, "dependencies.opendefense.cloud", "v1alpha1", "dependencyrules", "DependencyRule", "Cluster").await;
}

async fn export(at: &Endpoint, group: &str, resource: &str, kind: &str, scope: &str) {
    let schema = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    let schema = json!({
        "apiVersion": "apis.kcp.io/v1alpha1", "kind": "APIResourceSchema",
        "metadata": {"name": format!("v1.{resource}.{group}")},
        "spec": definition(group, "v1", resource, kind, scope, &schema),
    });
    post(at, "/apis/apis.kcp.io/v1alpha1/apiresourceschemas", &schema).await;
    let export = json!({
        "apiVersion": "apis.kcp.io/v1alpha2", "kind": "APIExport", "metadata": {"name": group},
        "spec": {"resources": [
            {"group": group, "name": resource, "schema": schema["metadata"]["name"], "storage": {"crd": {}}},
        ]},
    });
    post(at, "/apis/apis.kcp.io/v1alpha2/apiexports", &export).await;
}

async fn bind(at: &Endpoint, group: &str) {
    let bindings = "/apis/apis.kcp.io/v1alpha2/apibindings";
    let binding = json!({
        "apiVersion": "apis.kcp.io/v1alpha2", "kind": "APIBinding", "metadata": {"name": group},
        "spec": {"reference": {"export": {"path": "root:provider", "name": group}}},
    });
    post(at, bindings, &binding).await;
    let path = format!("{bindings}/{group}");
    until(&path, async || at.get_json(&path).await.is_ok_and(|found| found["status"]["phase"] == "Bound")).await;
}

pub(crate) async fn post(at: &Endpoint, path: &str, object: &Value) {
    at.post_json(path, object).await.unwrap_or_else(|why| panic!("{object}: {why}"));
}

async fn until(what: &str, mut is_so: impl AsyncFnMut() -> bool) {
    for _ in 0..2000 {
        if is_so().await {
            return;
        }
        tokio::time::sleep(std::time::Duration::from_millis(30)).await;
    }
    panic!("never: {what}");
}

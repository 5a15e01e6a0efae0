//! An API server with a provider of VPCs, one of VMs, and a tenant who has both: in workspaces of their own, or all in
//! one plain cluster.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::time::Duration;

use base64::Engine;
use depguard_core::{Home, LogicalCluster};
use depguard_kcp::{ConnectOptions, Connection, Endpoint, Preconditions};
use depguard_testbed::{Fault, FaultId, Kind, Options, Place, Testbed, When};
use depguard_webhook::{Config, ReadThrough};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

pub(crate) const VPCS: &str = "/apis/network.example.com/v1/namespaces/default/vpcs";
const VMS: &str = "/apis/compute.example.com/v1/namespaces/default/virtualmachines";
const RULES: &str = "/apis/dependencies.opendefense.cloud/v1alpha1/dependencyrules";
const CONFIGURATIONS: &str = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations";
const BINDINGS: &str = "/apis/apis.kcp.io/v1alpha2/apibindings";
const EXPORTS: &str = "/apis/apis.kcp.io/v1alpha2/apiexports";
const OURS: &str = "dependencies.opendefense.cloud";

/// Each has the name of its workspace. `b` is for another tenant, `other` for another provider.
const SHARDS: [&str; 6] = ["dep-ctrl", "network", "compute", "tenant", "b", "other"];

/// Group, version, kind, plural and scope.
type Described = [&'static str; 5];
const RULE: Described = [OURS, "v1alpha1", "DependencyRule", "dependencyrules", "Cluster"];
const VPC: Described = ["network.example.com", "v1", "VPC", "vpcs", "Namespaced"];
const VM: Described = ["compute.example.com", "v1", "VirtualMachine", "virtualmachines", "Namespaced"];

const THING: Described = ["other.example.com", "v1", "Thing", "things", "Namespaced"];

/// Where depguard runs and how it reads.
pub(crate) type Way = (Home, ReadThrough);

pub(crate) const WAYS: [Way; 3] = [
    (Home::Kcp, ReadThrough::FrontProxy),
    (Home::Kcp, ReadThrough::Export),
    (Home::Kubernetes, ReadThrough::FrontProxy),
];

pub(crate) struct Scene {
    home: Home,
    testbed: Testbed,
    folder: tempfile::TempDir,
    /// Where rules are written: the workspace of the VMs' provider.
    rules: Endpoint,
    /// Where the configuration is looked up: the workspace of the VPCs' provider.
    provider: Endpoint,
    /// Where the objects are.
    pub(crate) tenant: Endpoint,
    pub(crate) config: Config,
}

impl Scene {
    /// With VPCs `a` and `b`, and no rule.
    ///
    /// Where exports are read through, nobody reads their objects in any other way.
    pub(crate) async fn reading((home, read_through): Way) -> Self {
        Self::set_up(home).await.through(read_through)
    }

    /// The same in a kcp where each workspace lies on a shard of its own.
    pub(crate) async fn on_shards(read_through: ReadThrough) -> Self {
        Self::with_shards(|options| options).await.through(read_through)
    }

    /// The same, where a shard is listed only so long after its first binding.
    pub(crate) async fn on_shards_listed(late: Duration, read_through: ReadThrough) -> Self {
        Self::with_shards(|options| options.listed_after(late)).await.through(read_through)
    }

    /// The same, where the shard of tenant `b` has a host of its own.
    pub(crate) async fn on_shards_with_b_at(host: &str, read_through: ReadThrough) -> Self {
        Self::with_shards(|options| options.shard_at("b", host)).await.through(read_through)
    }

    async fn with_shards(options: impl FnOnce(Options) -> Options) -> Self {
        Self::placed(Home::Kcp, options(Options::kcp().shards(SHARDS))).await
    }

    fn through(self, read_through: ReadThrough) -> Self {
        if read_through == ReadThrough::Export {
            let elsewhere = When::always().method("GET").under("/clusters/").path(&format!("/apis/{}/", VM[0]));
            self.testbed.faults().inject(Fault::Forbidden, elsewhere);
        }
        Self { config: self.config.read_through(read_through), ..self }
    }

    /// The same by the front-proxy.
    pub(crate) async fn set_up(home: Home) -> Self {
        let kind = match home {
            Home::Kcp => Kind::Kcp,
            Home::Kubernetes => Kind::Kubernetes,
        };
        Self::placed(home, Options::new(kind)).await
    }

    async fn placed(home: Home, options: Options) -> Self {
        let testbed = Testbed::start(options).await.unwrap();
        let folder = tempfile::tempdir().unwrap();
        let made = rcgen::generate_simple_self_signed(["127.0.0.1".to_owned()]).unwrap();
        std::fs::write(folder.path().join("tls.crt"), made.cert.pem()).unwrap();
        std::fs::write(folder.path().join("tls.key"), made.signing_key.serialize_pem()).unwrap();
        let (home_of_rules, [rules, provider, tenant]) = match home {
            Home::Kcp => ("root:dep-ctrl", in_workspaces(&testbed, folder.path()).await),
            Home::Kubernetes => ("", in_one_cluster(&testbed, folder.path()).await),
        };
        for name in ["a", "b"] {
            let vpc = json!({"apiVersion": "network.example.com/v1", "kind": "VPC", "metadata": {"name": name}});
            tenant.post_json(VPCS, &vpc).await.unwrap();
        }
        let config = Config::default()
            .home(home)
            .kubeconfig(Some(write_kubeconfig(&testbed, folder.path(), home_of_rules, "admin")))
            .review_addr((Ipv4Addr::LOCALHOST, 0).into())
            .probe_addr(Some((Ipv4Addr::LOCALHOST, 0).into()))
            .metrics_addr(None)
            .tls_cert_dir(folder.path().to_owned())
            .shutdown_delay(Duration::ZERO);
        Self { home, testbed, folder, rules, provider, tenant, config }
    }

    /// A connection of another user's.
    pub(crate) async fn connection(&self, workspace: &str, user: &str) -> Connection {
        connect(&self.testbed, self.folder.path(), workspace, user).await
    }

    /// Writes the rule, or changes it.
    pub(crate) async fn write_rule(&self, path: &str) {
        let mut dependent = json!({
            "group": VM[0], "version": VM[1], "kind": VM[2], "resource": VM[3],
        });
        let mut dependency = json!({
            "group": VPC[0], "version": VPC[1], "resource": VPC[3], "fieldRef": {"path": path},
        });
        if self.home == Home::Kcp {
            dependent["apiExportName"] = json!(VM[0]);
            dependency["apiExportRef"] = json!({"path": "root:network", "name": VPC[0]});
        }
        let rule = json!({
            "apiVersion": "dependencies.opendefense.cloud/v1alpha1", "kind": "DependencyRule",
            "metadata": {"name": "vm-vpc"},
            "spec": {"dependent": dependent, "dependencies": [dependency]},
        });
        self.rules.apply(&format!("{RULES}/vm-vpc"), &rule, "test", true).await.unwrap();
    }

    /// Writes another rule about VMs and VPCs: its `spec` as it is in a plain cluster, with one edit.
    pub(crate) async fn write_another_rule(&self, edit: impl FnOnce(&mut Value)) {
        let mut rule = json!({
            "apiVersion": "dependencies.opendefense.cloud/v1alpha1", "kind": "DependencyRule",
            "metadata": {"name": "another"},
            "spec": {
                "dependent": {"group": VM[0], "version": VM[1], "kind": VM[2], "resource": VM[3]},
                "dependencies": [{"group": VPC[0], "version": VPC[1], "resource": VPC[3], "kind": VPC[2]}],
            },
        });
        edit(&mut rule["spec"]);
        self.rules.post_json(RULES, &rule).await.unwrap();
    }

    pub(crate) async fn remove_rule(&self) {
        self.rules.delete(&format!("{RULES}/vm-vpc"), Preconditions::default()).await.unwrap();
    }

    pub(crate) async fn create_vm(&self, name: &str, vpc: &str) {
        create_vm(&self.tenant, name, vpc).await;
    }

    /// Another tenant with the same APIs and a VPC `a`, on the shard of its name.
    pub(crate) async fn add_tenant(&self, name: &str) -> Endpoint {
        make_workspace(&self.connection("root", "admin").await.home(), name).await;
        let tenant = self.connection(&format!("root:{name}"), "admin").await.home();
        bind(&tenant, "root:network", VPC[0]).await;
        bind(&tenant, "root:compute", VM[0]).await;
        eventually(VPCS, async || tenant.get_json(VPCS).await.is_ok()).await;
        let vpc = json!({"apiVersion": "network.example.com/v1", "kind": "VPC", "metadata": {"name": "a"}});
        tenant.post_json(VPCS, &vpc).await.unwrap();
        tenant
    }

    /// Another provider, of Things that refer to VPCs, with a rule, on the shard `other`. Nobody has bound its API.
    pub(crate) async fn add_provider(&self) -> Endpoint {
        make_workspace(&self.connection("root", "admin").await.home(), "other").await;
        let other = self.connection("root:other", "admin").await.home();
        export(&other, THING).await;
        bind(&other, "root:dep-ctrl", OURS).await;
        eventually(RULES, async || other.get_json(RULES).await.is_ok()).await;
        self.write_rule_about_things(&other, ".spec.vpcRef.name").await;
        other
    }

    /// Writes that provider's rule, or changes it.
    pub(crate) async fn write_rule_about_things(&self, other: &Endpoint, path: &str) {
        let rule = json!({
            "apiVersion": "dependencies.opendefense.cloud/v1alpha1", "kind": "DependencyRule",
            "metadata": {"name": "thing-vpc"},
            "spec": {
                "dependent": {
                    "apiExportName": THING[0], "group": THING[0], "version": THING[1], "kind": THING[2], "resource": THING[3],
                },
                "dependencies": [{
                    "apiExportRef": {"path": "root:network", "name": VPC[0]},
                    "group": VPC[0], "version": VPC[1], "resource": VPC[3], "fieldRef": {"path": path},
                }],
            },
        });
        other.apply(&format!("{RULES}/thing-vpc"), &rule, "test", true).await.unwrap();
    }

    /// A tenant binds that provider's API.
    pub(crate) async fn bind_things(&self, tenant: &Endpoint) {
        bind(tenant, "root:other", THING[0]).await;
    }

    /// depguard asks to see APIExports, and the VMs' provider lets it.
    pub(crate) async fn show_exports(&self) {
        let ours = self.connection("root:dep-ctrl", "admin").await.home();
        let path = format!("/apis/apis.kcp.io/v1alpha2/apiexports/{OURS}");
        let mut export = ours.get_json(&path).await.unwrap();
        export["spec"]["permissionClaims"] = json!([exports_claim()]);
        ours.put_json(&path, &export).await.unwrap();
    }

    /// A workspace that has bound depguard and lets it see its APIExports.
    pub(crate) async fn add_workspace(&self, name: &str) {
        make_workspace(&self.connection("root", "admin").await.home(), name).await;
        let provider = self.connection(&format!("root:{name}"), "admin").await.home();
        bind(&provider, "root:dep-ctrl", OURS).await;
        let path = format!("{BINDINGS}/{OURS}");
        let mut claim = exports_claim();
        claim["state"] = json!("Accepted");
        claim["selector"] = json!({"matchAll": true});
        let mut binding = provider.get_json(&path).await.unwrap();
        binding["spec"]["permissionClaims"] = json!([claim]);
        provider.put_json(&path, &binding).await.unwrap();
    }

    /// The VMs' provider takes back its binding of depguard, and with it its rules.
    pub(crate) async fn unbind_rules(&self) {
        unbind(&self.rules).await;
    }

    pub(crate) async fn bind_rules(&self) {
        bind(&self.rules, "root:dep-ctrl", OURS).await;
        eventually(RULES, async || self.rules.get_json(RULES).await.is_ok()).await;
    }

    /// Where the configuration is looked up for VPCs.
    pub(crate) fn provider(&self) -> &Endpoint {
        &self.provider
    }

    /// What the webhook shows, as PEM.
    pub(crate) fn certificate(&self) -> Vec<u8> {
        std::fs::read(self.folder.path().join("tls.crt")).unwrap()
    }

    pub(crate) fn testbed(&self) -> &Testbed {
        &self.testbed
    }

    /// Puts as many VPCs and VMs there, each VM with a reference.
    pub(crate) fn fill(&self, many: usize, refers_to: impl Fn(usize) -> usize) {
        let vpcs = (0..many).map(|n| json!({"metadata": {"name": format!("vpc-{n}")}}));
        let vms = (0..many).map(|n| {
            json!({"metadata": {"name": format!("vm-{n}")}, "spec": {"vpcRef": {"name": format!("vpc-{}", refers_to(n))}}})
        });
        let place = |[group, version, _, resource, _]: Described| {
            Place::of(group, version, resource).namespace("default").workspace("root:tenant")
        };
        self.testbed.fill(&place(VPC), vpcs).unwrap();
        self.testbed.fill(&place(VM), vms).unwrap();
    }

    /// Has each page of VMs take so long.
    pub(crate) fn slow_lists_of_vms(&self, time: Duration) -> FaultId {
        self.testbed.faults().inject(Fault::Latency(time), When::always().path("/virtualmachines?"))
    }

    /// Waits until one of those is under way.
    pub(crate) async fn until_hit(&self, fault: FaultId) {
        eventually("it is under way", async || self.testbed.faults().hits(fault) > Some(0)).await;
    }

    /// How many lists of VMs were begun so far.
    pub(crate) fn lists_of_vms(&self) -> u64 {
        self.testbed.lists(VM[0], VM[3]).begun
    }

    pub(crate) fn lists_of_bindings(&self) -> u64 {
        self.testbed.lists("apis.kcp.io", "apibindings").begun
    }

    pub(crate) async fn delete_vm(&self, name: &str) {
        self.tenant.delete(&format!("{VMS}/{name}"), Preconditions::default()).await.unwrap();
    }

    /// The message with which the deletion of a VPC would be refused.
    pub(crate) async fn delete_dry(&self, vpc: &str) -> Option<String> {
        delete_dry(&self.tenant, vpc).await
    }

    /// Somebody binds depguard in a workspace that says to be the VPCs' provider.
    pub(crate) async fn lie(&self) {
        make_workspace(&self.connection("root", "admin").await.home(), "liar").await;
        bind_forged(&self.connection("root:liar", "admin").await.home(), "root:network").await;
    }

    /// The workspace of the rules says that it is another one, which is made.
    pub(crate) async fn forge_path_of_rules(&self, name: &str) {
        make_workspace(&self.connection("root", "admin").await.home(), name).await;
        unbind(&self.rules).await;
        bind_forged(&self.rules, &format!("root:{name}")).await;
    }

    /// depguard may see what the VPCs' provider exports.
    pub(crate) async fn claim_exports(&self) {
        let claim = json!({"group": "apis.kcp.io", "resource": "apiexports", "verbs": ["get", "list", "watch"]});
        let depguard = self.connection("root:dep-ctrl", "admin").await.home();
        let path = format!("{EXPORTS}/{OURS}");
        let mut export = depguard.get_json(&path).await.unwrap();
        export["spec"]["permissionClaims"] = json!([claim]);
        depguard.put_json(&path, &export).await.unwrap();
        let mut accepted = claim;
        accepted["selector"] = json!({"matchAll": true});
        accepted["state"] = json!("Accepted");
        unbind(&self.provider).await;
        bind_accepting(&self.provider, "root:dep-ctrl", OURS, &[accepted]).await;
    }

    /// The VPCs' provider accepts only these workspaces' rules.
    pub(crate) async fn accept_rules_from(&self, workspaces: &str) {
        let path = format!("{EXPORTS}/{}", VPC[0]);
        let mut export = self.provider.get_json(&path).await.unwrap();
        export["metadata"]["annotations"]["dependencies.opendefense.cloud/accept-rules-from"] = json!(workspaces);
        self.provider.put_json(&path, &export).await.unwrap();
    }

    /// The VPCs' provider takes back its binding of depguard; what was installed there stays.
    pub(crate) async fn unbind_provider(&self) {
        unbind(&self.provider).await;
    }

    /// The same, where nobody looks whether it is done.
    pub(crate) async fn unbind_provider_unseen(&self) {
        self.provider.delete(&format!("{BINDINGS}/{OURS}"), Preconditions::default()).await.unwrap();
    }

    /// The VPCs' provider binds depguard again.
    pub(crate) async fn bind_provider(&self) {
        bind(&self.provider, "root:dep-ctrl", OURS).await;
    }

    /// The logical clusters of the VPCs' provider, of the VMs' provider, and of the tenant.
    pub(crate) async fn clusters(&self) -> [Option<LogicalCluster>; 3] {
        let mut clusters = [None, None, None];
        for (cluster, endpoint) in clusters.iter_mut().zip([&self.provider, &self.rules, &self.tenant]) {
            *cluster = self.cluster_of(endpoint).await;
        }
        clusters
    }

    /// The logical cluster of a workspace; in a plain cluster there is none.
    pub(crate) async fn cluster_of(&self, workspace: &Endpoint) -> Option<LogicalCluster> {
        if self.home == Home::Kubernetes {
            return None;
        }
        let itself = workspace.get_json("/apis/core.kcp.io/v1alpha1/logicalclusters/cluster").await.unwrap();
        let id = itself["metadata"]["annotations"]["kcp.io/cluster"].as_str().unwrap();
        Some(LogicalCluster::parse(id).unwrap())
    }

    /// A file that the webhook may be given.
    pub(crate) fn write(&self, name: &str, content: &str) -> std::path::PathBuf {
        let file = self.folder.path().join(name);
        std::fs::write(&file, content).unwrap();
        file
    }

    /// Nobody may look at the Workspace object of the VPCs' provider any more.
    pub(crate) fn hide_workspaces(&self) {
        self.hide_workspace("network");
    }

    /// Nobody may look where the workspace `root:<name>` is.
    pub(crate) fn hide_workspace(&self, name: &str) -> [FaultId; 2] {
        [format!("/workspaces/{name}"), format!("/clusters/root:{name}/apis/core.kcp.io")]
            .map(|path| self.testbed.faults().inject(Fault::Forbidden, When::always().path(&path)))
    }

    /// They may again.
    pub(crate) fn show(&self, hidden: [FaultId; 2]) {
        hidden.into_iter().for_each(|fault| self.testbed.faults().clear(fault));
    }

    /// Installs the webhook as the controller does.
    pub(crate) async fn configure(&self, address: SocketAddr) {
        self.configure_at(address, "/validate").await;
    }

    /// The same at another path, or anew.
    pub(crate) async fn configure_at(&self, address: SocketAddr, path: &str) {
        let certificate = self.certificate();
        let configuration = json!({
            "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingWebhookConfiguration",
            "metadata": {"name": "dependency-controller"},
            "webhooks": [{
                "name": "dependency-controller.dependencies.opendefense.cloud",
                "admissionReviewVersions": ["v1"], "sideEffects": "None", "failurePolicy": "Fail", "timeoutSeconds": 10,
                "clientConfig": {
                    "url": format!("https://{address}{path}"),
                    "caBundle": base64::engine::general_purpose::STANDARD.encode(certificate),
                },
                "rules": [{"operations": ["DELETE"], "apiGroups": [VPC[0]], "apiVersions": ["*"], "resources": [VPC[3]]}],
            }],
        });
        let name = format!("{CONFIGURATIONS}/dependency-controller");
        self.provider.apply(&name, &configuration, "test", true).await.unwrap();
    }
}

pub(crate) async fn create_vm(tenant: &Endpoint, name: &str, vpc: &str) {
    let vm = json!({
        "apiVersion": "compute.example.com/v1", "kind": "VirtualMachine",
        "metadata": {"name": name}, "spec": {"vpcRef": {"name": vpc}},
    });
    tenant.post_json(VMS, &vm).await.unwrap();
}

/// See [`Scene::delete_dry`].
pub(crate) async fn delete_dry(tenant: &Endpoint, vpc: &str) -> Option<String> {
    // Without a body: beside one, an API server does not look at the query.
    let request = http::Request::delete(format!("{VPCS}/{vpc}?dryRun=All")).body(bytes::Bytes::new()).unwrap();
    let response = tenant.send(request).await.unwrap();
    (!response.status().is_success()).then(|| String::from_utf8_lossy(response.body()).into_owned())
}

fn exports_claim() -> Value {
    json!({"group": "apis.kcp.io", "resource": "apiexports", "verbs": ["get", "list", "watch"]})
}

/// Asks again until it is so: 500 times, or for as long as a minute where answers are slow.
pub(crate) async fn eventually(what: &str, mut is_so: impl AsyncFnMut() -> bool) {
    let end = tokio::time::Instant::now() + Duration::from_secs(60);
    for _ in 0..500 {
        if is_so().await {
            return;
        }
        if tokio::time::Instant::now() > end {
            break;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    panic!("never: {what}");
}

/// The status and the text of a probe.
pub(crate) async fn probe(address: SocketAddr, path: &str) -> (u16, String) {
    let mut stream = TcpStream::connect(address).await.unwrap();
    let request = format!("GET {path} HTTP/1.1\r\nhost: probe\r\nconnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut response = String::new();
    stream.read_to_string(&mut response).await.unwrap();
    let (head, body) = response.split_once("\r\n\r\n").unwrap();
    (head.split(' ').nth(1).unwrap().parse().unwrap(), body.to_owned())
}

async fn in_workspaces(testbed: &Testbed, folder: &Path) -> [Endpoint; 3] {
    let root = connect(testbed, folder, "root", "admin").await.home();
    for name in ["dep-ctrl", "network", "compute", "tenant"] {
        make_workspace(&root, name).await;
    }
    let at = async |name: &str| connect(testbed, folder, &format!("root:{name}"), "admin").await.home();
    let (dep_ctrl, network, compute, tenant) =
        (at("dep-ctrl").await, at("network").await, at("compute").await, at("tenant").await);
    export(&dep_ctrl, RULE).await;
    export(&network, VPC).await;
    export(&compute, VM).await;
    for provider in [&network, &compute] {
        bind(provider, "root:dep-ctrl", OURS).await;
    }
    bind(&tenant, "root:network", VPC[0]).await;
    bind(&tenant, "root:compute", VM[0]).await;
    for (endpoint, path) in [(&compute, RULES), (&tenant, VPCS), (&tenant, VMS)] {
        eventually(path, async || endpoint.get_json(path).await.is_ok()).await;
    }
    [compute, network, tenant]
}

async fn make_workspace(root: &Endpoint, name: &str) {
    let workspaces = "/apis/tenancy.kcp.io/v1alpha1/workspaces";
    let object = json!({
        "apiVersion": "tenancy.kcp.io/v1alpha1", "kind": "Workspace", "metadata": {"name": name},
        "spec": {"location": {"selector": {"matchLabels": {"name": name}}}},
    });
    root.post_json(workspaces, &object).await.unwrap();
    let path = format!("{workspaces}/{name}");
    eventually(name, async || root.get_json(&path).await.is_ok_and(|w| w["status"]["phase"] == "Ready")).await;
}

async fn in_one_cluster(testbed: &Testbed, folder: &Path) -> [Endpoint; 3] {
    let cluster = connect(testbed, folder, "", "admin").await.home();
    for [group, version, kind, plural, scope] in [RULE, VPC, VM] {
        let mut served = versioned(version);
        served["schema"] = json!({"openAPIV3Schema": served["schema"]});
        let object = json!({
            "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
            "metadata": {"name": format!("{plural}.{group}")},
            "spec": {"group": group, "names": names(kind, plural), "scope": scope, "versions": [served]},
        });
        cluster.post_json("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", &object).await.unwrap();
    }
    for path in [RULES, VPCS, VMS] {
        eventually(path, async || cluster.get_json(path).await.is_ok()).await;
    }
    [cluster.clone(), cluster.clone(), cluster]
}

async fn export(workspace: &Endpoint, [group, version, kind, plural, scope]: Described) {
    let schema = json!({
        "apiVersion": "apis.kcp.io/v1alpha1", "kind": "APIResourceSchema",
        "metadata": {"name": format!("v1.{plural}.{group}")},
        "spec": {"group": group, "names": names(kind, plural), "scope": scope, "versions": [versioned(version)]},
    });
    workspace.post_json("/apis/apis.kcp.io/v1alpha1/apiresourceschemas", &schema).await.unwrap();
    let resource = json!({
        "group": group, "name": plural, "schema": schema["metadata"]["name"], "storage": {"crd": {}},
    });
    let export = json!({
        "apiVersion": "apis.kcp.io/v1alpha2", "kind": "APIExport", "metadata": {"name": group},
        "spec": {"resources": [resource]},
    });
    workspace.post_json(EXPORTS, &export).await.unwrap();
}

/// Binds depguard in a workspace that says to be at `path`.
async fn bind_forged(workspace: &Endpoint, path: &str) {
    let itself = "/apis/core.kcp.io/v1alpha1/logicalclusters/cluster";
    let mut forged = workspace.get_json(itself).await.unwrap();
    forged["metadata"]["annotations"]["kcp.io/path"] = json!(path);
    workspace.put_json(itself, &forged).await.unwrap();
    bind(workspace, "root:dep-ctrl", OURS).await;
    let binding = workspace.get_json(&format!("{BINDINGS}/{OURS}")).await.unwrap();
    assert_eq!(binding["metadata"]["annotations"]["kcp.io/path"], path);
}

/// The workspace takes back its binding of depguard.
async fn unbind(workspace: &Endpoint) {
    let path = format!("{BINDINGS}/{OURS}");
    workspace.delete(&path, Preconditions::default()).await.unwrap();
    eventually("unbound", async || workspace.get_json(&path).await.is_err()).await;
}

async fn bind(workspace: &Endpoint, path: &str, export: &str) {
    bind_accepting(workspace, path, export, &[]).await;
}

async fn bind_accepting(workspace: &Endpoint, path: &str, export: &str, claims: &[Value]) {
    let binding = json!({
        "apiVersion": "apis.kcp.io/v1alpha2", "kind": "APIBinding", "metadata": {"name": export},
        "spec": {"reference": {"export": {"path": path, "name": export}}, "permissionClaims": claims},
    });
    workspace.post_json(BINDINGS, &binding).await.unwrap();
    let path = format!("{BINDINGS}/{export}");
    eventually(export, async || workspace.get_json(&path).await.is_ok_and(|b| b["status"]["phase"] == "Bound")).await;
}

fn names(kind: &str, plural: &str) -> Value {
    json!({"kind": kind, "listKind": format!("{kind}List"), "plural": plural, "singular": kind.to_lowercase()})
}

fn versioned(name: &str) -> Value {
    let anything = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    json!({
        "name": name, "served": true, "storage": true,
        "schema": {"type": "object", "properties": {"spec": anything}},
    })
}

async fn connect(testbed: &Testbed, folder: &Path, cluster: &str, user: &str) -> Connection {
    let home = if cluster.is_empty() { Home::Kubernetes } else { Home::Kcp };
    let kubeconfig = Some(write_kubeconfig(testbed, folder, cluster, user));
    Connection::open(&ConnectOptions::new(home).kubeconfig(kubeconfig)).await.unwrap()
}

fn write_kubeconfig(testbed: &Testbed, folder: &Path, cluster: &str, user: &str) -> std::path::PathBuf {
    let file = folder.join(format!("{}-{user}.kubeconfig", cluster.replace(':', "-")));
    std::fs::write(&file, testbed.kubeconfig(cluster, user)).unwrap();
    file
}

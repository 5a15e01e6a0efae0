//! API server with a provider of VPCs, a provider of VMs, and a tenant who has both: in workspaces of their own, or all
//! in one plain cluster.

mod setup;

use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use base64::Engine;
use depguard_core::{ControlPlane, LogicalCluster};
use depguard_kcp::{Connection, Endpoint, Preconditions};
use depguard_testbed::{Fault, FaultId, Kind, Options, Place, Testbed, When};
use depguard_webhook::{Config, ReadThrough};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use self::setup::{
    bind, bind_forged, bind_showing_exports, connect, export, exports_claim, in_one_cluster, in_workspaces,
    make_workspace, unbind, write_kubeconfig,
};

pub(crate) const VPCS: &str = "/apis/network.example.com/v1/namespaces/default/vpcs";
const VMS: &str = "/apis/compute.example.com/v1/namespaces/default/virtualmachines";
const RULES: &str = "/apis/dependencies.opendefense.cloud/v1alpha1/dependencyrules";
const CONFIGURATIONS: &str = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations";
const BINDINGS: &str = "/apis/apis.kcp.io/v1alpha2/apibindings";
const EXPORTS: &str = "/apis/apis.kcp.io/v1alpha2/apiexports";
const OURS: &str = "dependencies.opendefense.cloud";

/// Names of the shards, the same as those of their workspaces. `b` is for another tenant, `other` for another provider.
const SHARDS: [&str; 6] = ["dep-ctrl", "network", "compute", "tenant", "b", "other"];

/// Group, version, kind, plural and scope of a kind.
type Described = [&'static str; 5];
const RULE: Described = [OURS, "v1alpha1", "DependencyRule", "dependencyrules", "Cluster"];
const VPC: Described = ["network.example.com", "v1", "VPC", "vpcs", "Namespaced"];
const VM: Described = ["compute.example.com", "v1", "VirtualMachine", "virtualmachines", "Namespaced"];

const THING: Described = ["other.example.com", "v1", "Thing", "things", "Namespaced"];

/// Control plane of depguard, and its way to read dependents.
pub(crate) type Way = (ControlPlane, ReadThrough);

pub(crate) const WAYS: [Way; 3] = [
    (ControlPlane::Kcp, ReadThrough::FrontProxy),
    (ControlPlane::Kcp, ReadThrough::Export),
    (ControlPlane::Kubernetes, ReadThrough::FrontProxy),
];

pub(crate) struct Scene {
    control_plane: ControlPlane,
    testbed: Testbed,
    folder: tempfile::TempDir,
    /// Endpoint of the rules: the workspace of the VMs' provider.
    rules: Endpoint,
    /// Endpoint of the configuration: the workspace of the VPCs' provider.
    provider: Endpoint,
    /// Endpoint of the objects.
    pub(crate) tenant: Endpoint,
    pub(crate) config: Config,
}

impl Scene {
    /// Sets up a scene with VPCs `a` and `b`, and without a rule.
    ///
    /// If dependents are read through exports, reads of VMs in any other way are forbidden.
    pub(crate) async fn reading((control_plane, read_through): Way) -> Self {
        Self::set_up(control_plane).await.through(read_through)
    }

    /// Does the same in a kcp with each workspace on a shard of its own.
    pub(crate) async fn on_shards(read_through: ReadThrough) -> Self {
        Self::with_shards(|options| options).await.through(read_through)
    }

    /// Does the same with shards that are listed only so long after their first binding.
    pub(crate) async fn on_shards_listed(late: Duration, read_through: ReadThrough) -> Self {
        Self::with_shards(|options| options.listed_after(late)).await.through(read_through)
    }

    /// Does the same with a host of its own for the shard of tenant `b`.
    pub(crate) async fn on_shards_with_b_at(host: &str, read_through: ReadThrough) -> Self {
        Self::with_shards(|options| options.shard_at("b", host)).await.through(read_through)
    }

    async fn with_shards(options: impl FnOnce(Options) -> Options) -> Self {
        Self::placed(ControlPlane::Kcp, options(Options::kcp().shards(SHARDS))).await
    }

    fn through(self, read_through: ReadThrough) -> Self {
        if read_through == ReadThrough::Export {
            let elsewhere = When::always().method("GET").under("/clusters/").path(&format!("/apis/{}/", VM[0]));
            self.testbed.faults().inject(Fault::Forbidden, elsewhere);
        }
        Self { config: self.config.read_through(read_through), ..self }
    }

    /// Does the same with reads through the front-proxy.
    pub(crate) async fn set_up(control_plane: ControlPlane) -> Self {
        let kind = match control_plane {
            ControlPlane::Kcp => Kind::Kcp,
            ControlPlane::Kubernetes => Kind::Kubernetes,
        };
        Self::placed(control_plane, Options::new(kind)).await
    }

    async fn placed(control_plane: ControlPlane, options: Options) -> Self {
        let testbed = Testbed::start(options).await.unwrap();
        let folder = tempfile::tempdir().unwrap();
        let made = rcgen::generate_simple_self_signed(["127.0.0.1".to_owned()]).unwrap();
        std::fs::write(folder.path().join("tls.crt"), made.cert.pem()).unwrap();
        std::fs::write(folder.path().join("tls.key"), made.signing_key.serialize_pem()).unwrap();
        let (workspace_of_rules, [rules, provider, tenant]) = match control_plane {
            ControlPlane::Kcp => ("root:dep-ctrl", in_workspaces(&testbed, folder.path()).await),
            ControlPlane::Kubernetes => ("", in_one_cluster(&testbed, folder.path()).await),
        };
        for name in ["a", "b"] {
            let vpc = json!({"apiVersion": "network.example.com/v1", "kind": "VPC", "metadata": {"name": name}});
            tenant.post_json(VPCS, &vpc).await.unwrap();
        }
        let config = Config::default()
            .control_plane(control_plane)
            .kubeconfig(Some(write_kubeconfig(&testbed, folder.path(), workspace_of_rules, "admin")))
            .review_addr((Ipv4Addr::LOCALHOST, 0).into())
            .probe_addr(Some((Ipv4Addr::LOCALHOST, 0).into()))
            .metrics_addr(None)
            .tls_cert_dir(folder.path().to_owned())
            .shutdown_delay(Duration::ZERO);
        Self { control_plane, testbed, folder, rules, provider, tenant, config }
    }

    /// Opens a connection of another user.
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
        if self.control_plane == ControlPlane::Kcp {
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

    /// Writes another rule about VMs and VPCs. `edit` changes its `spec`, which is that of a plain cluster.
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

    /// Adds another tenant with the same APIs and a VPC `a`, on the shard of its name.
    pub(crate) async fn add_tenant(&self, name: &str) -> Endpoint {
        make_workspace(&self.connection("root", "admin").await.own_endpoint(), name).await;
        let tenant = self.connection(&format!("root:{name}"), "admin").await.own_endpoint();
        bind(&tenant, "root:network", VPC[0]).await;
        bind(&tenant, "root:compute", VM[0]).await;
        eventually(VPCS, async || tenant.get_json(VPCS).await.is_ok()).await;
        let vpc = json!({"apiVersion": "network.example.com/v1", "kind": "VPC", "metadata": {"name": "a"}});
        tenant.post_json(VPCS, &vpc).await.unwrap();
        tenant
    }

    /// Adds another provider, of Things that refer to VPCs, with a rule, on the shard `other`. Nobody has bound its
    /// API.
    pub(crate) async fn add_provider(&self) -> Endpoint {
        make_workspace(&self.connection("root", "admin").await.own_endpoint(), "other").await;
        let other = self.connection("root:other", "admin").await.own_endpoint();
        export(&other, THING).await;
        bind(&other, "root:dep-ctrl", OURS).await;
        eventually(RULES, async || other.get_json(RULES).await.is_ok()).await;
        self.write_rule_about_things(&other, ".spec.vpcRef.name").await;
        other
    }

    /// Writes this provider's rule, or changes it.
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

    /// Binds this provider's API in a tenant's workspace.
    pub(crate) async fn bind_things(&self, tenant: &Endpoint) {
        bind(tenant, "root:other", THING[0]).await;
    }

    /// Makes depguard claim to see APIExports.
    pub(crate) async fn claim_exports(&self) {
        let depguard = self.connection("root:dep-ctrl", "admin").await.own_endpoint();
        let path = format!("{EXPORTS}/{OURS}");
        let mut export = depguard.get_json(&path).await.unwrap();
        export["spec"]["permissionClaims"] = json!([exports_claim()]);
        depguard.put_json(&path, &export).await.unwrap();
    }

    /// Lets depguard see the APIExports of the VPCs' provider.
    pub(crate) async fn show_exports(&self) {
        unbind(&self.provider).await;
        bind_showing_exports(&self.provider).await;
    }

    /// Adds a workspace that has bound depguard and lets it see its APIExports.
    pub(crate) async fn add_workspace(&self, name: &str) {
        make_workspace(&self.connection("root", "admin").await.own_endpoint(), name).await;
        bind_showing_exports(&self.connection(&format!("root:{name}"), "admin").await.own_endpoint()).await;
    }

    /// Deletes the binding of depguard of the VMs' provider, and with it the provider's rules.
    pub(crate) async fn unbind_rules(&self) {
        unbind(&self.rules).await;
    }

    pub(crate) async fn bind_rules(&self) {
        bind(&self.rules, "root:dep-ctrl", OURS).await;
        eventually(RULES, async || self.rules.get_json(RULES).await.is_ok()).await;
    }

    /// Returns the endpoint at which the configuration for VPCs is looked up.
    pub(crate) fn provider(&self) -> &Endpoint {
        &self.provider
    }

    /// Returns the webhook's certificate, as PEM.
    pub(crate) fn certificate(&self) -> Vec<u8> {
        std::fs::read(self.folder.path().join("tls.crt")).unwrap()
    }

    pub(crate) fn testbed(&self) -> &Testbed {
        &self.testbed
    }

    /// Stores so many VPCs and VMs, each VM with a reference.
    pub(crate) fn fill(&self, many: usize, refers_to: impl Fn(usize) -> usize) {
        let vpcs = (0..many).map(|n| json!({"metadata": {"name": format!("vpc-{n}")}}));
        let vms = (0..many).map(|n| {
            json!({"metadata": {"name": format!("vm-{n}")}, "spec": {"vpcRef": {"name": format!("vpc-{}", refers_to(n))}}})
        });
        let place = |[group, version, _, resource, _]: Described| {
            Place::new(group, version, resource).namespace("default").workspace("root:tenant")
        };
        self.testbed.fill(&place(VPC), vpcs).unwrap();
        self.testbed.fill(&place(VM), vms).unwrap();
    }

    /// Makes each page of VMs take so long.
    pub(crate) fn slow_lists_of_vms(&self, time: Duration) -> FaultId {
        self.testbed.faults().inject(Fault::Latency(time), When::always().path("/virtualmachines?"))
    }

    /// Waits until a request with this fault is under way.
    pub(crate) async fn until_hit(&self, fault: FaultId) {
        eventually("it is under way", async || self.testbed.faults().hits(fault) > Some(0)).await;
    }

    /// Returns the number of lists of VMs that were begun so far.
    pub(crate) fn lists_of_vms(&self) -> u64 {
        self.testbed.lists(VM[0], VM[3]).begun
    }

    pub(crate) fn lists_of_bindings(&self) -> u64 {
        self.testbed.lists("apis.kcp.io", "apibindings").begun
    }

    pub(crate) async fn delete_vm(&self, name: &str) {
        self.tenant.delete(&format!("{VMS}/{name}"), Preconditions::default()).await.unwrap();
    }

    /// Returns the message with which the deletion of a VPC would be refused.
    pub(crate) async fn delete_dry(&self, vpc: &str) -> Option<String> {
        delete_dry(&self.tenant, vpc).await
    }

    /// Binds depguard in a workspace that claims the path of the VPCs' provider.
    pub(crate) async fn lie(&self) {
        make_workspace(&self.connection("root", "admin").await.own_endpoint(), "liar").await;
        bind_forged(&self.connection("root:liar", "admin").await.own_endpoint(), "root:network").await;
    }

    /// Makes the workspace of the rules claim this path, and makes another workspace.
    pub(crate) async fn forge_path_of_rules(&self, claim: &str, name: &str) {
        make_workspace(&self.connection("root", "admin").await.own_endpoint(), name).await;
        unbind(&self.rules).await;
        bind_forged(&self.rules, claim).await;
    }

    /// Makes the VPCs' provider accept only these workspaces' rules.
    pub(crate) async fn accept_rules_from(&self, workspaces: &str) {
        let path = format!("{EXPORTS}/{}", VPC[0]);
        let mut export = self.provider.get_json(&path).await.unwrap();
        export["metadata"]["annotations"]["dependencies.opendefense.cloud/accept-rules-from"] = json!(workspaces);
        self.provider.put_json(&path, &export).await.unwrap();
    }

    /// Deletes the binding of depguard of the VPCs' provider; the installed configuration stays.
    pub(crate) async fn unbind_provider(&self) {
        unbind(&self.provider).await;
    }

    /// Does the same without waiting until it is done.
    pub(crate) async fn unbind_provider_unseen(&self) {
        self.provider.delete(&format!("{BINDINGS}/{OURS}"), Preconditions::default()).await.unwrap();
    }

    /// Binds depguard again for the VPCs' provider.
    pub(crate) async fn bind_provider(&self) {
        bind(&self.provider, "root:dep-ctrl", OURS).await;
    }

    /// Returns the logical clusters of the VPCs' provider, of the VMs' provider, and of the tenant.
    pub(crate) async fn clusters(&self) -> [Option<LogicalCluster>; 3] {
        let mut clusters = [None, None, None];
        for (cluster, endpoint) in clusters.iter_mut().zip([&self.provider, &self.rules, &self.tenant]) {
            *cluster = self.cluster_of(endpoint).await;
        }
        clusters
    }

    /// Returns the logical cluster of a workspace; `None` in a plain cluster.
    pub(crate) async fn cluster_of(&self, workspace: &Endpoint) -> Option<LogicalCluster> {
        if self.control_plane == ControlPlane::Kubernetes {
            return None;
        }
        let itself = workspace.get_json("/apis/core.kcp.io/v1alpha1/logicalclusters/cluster").await.unwrap();
        let id = itself["metadata"]["annotations"]["kcp.io/cluster"].as_str().unwrap();
        Some(LogicalCluster::parse(id).unwrap())
    }

    /// Writes a file that the webhook may be given.
    pub(crate) fn write(&self, name: &str, content: &str) -> std::path::PathBuf {
        let file = self.folder.path().join(name);
        std::fs::write(&file, content).unwrap();
        file
    }

    /// Forbids everybody to look at the Workspace object of the VPCs' provider.
    pub(crate) fn hide_workspaces(&self) {
        self.hide_workspace("network");
    }

    /// Forbids everybody to look up the workspace `root:<name>`, and to see that it is not missing by its parent.
    pub(crate) fn hide_workspace(&self, name: &str) -> [FaultId; 3] {
        let inside = |path: &str| format!("/clusters/{path}/apis/core.kcp.io");
        [format!("/workspaces/{name}"), inside(&format!("root:{name}")), inside("root")]
            .map(|path| self.testbed.faults().inject(Fault::Forbidden, When::always().path(&path)))
    }

    /// Allows it again.
    pub(crate) fn show(&self, hidden: impl IntoIterator<Item = FaultId>) {
        hidden.into_iter().for_each(|fault| self.testbed.faults().clear(fault));
    }

    /// Ends depguard's watch of the providers' exports, and lets no other begin.
    pub(crate) fn silence_exports(&self) -> [FaultId; 2] {
        [Fault::InternalError, Fault::WatchDropped]
            .map(|fault| self.testbed.faults().inject(fault, When::always().under("/services/").path("/apiexports")))
    }

    /// Installs the webhook as the controller does.
    pub(crate) async fn configure(&self, address: SocketAddr) {
        self.configure_at(address, "/validate").await;
    }

    /// Does the same for another path, or once more.
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

/// Does the same as [`Scene::delete_dry`], for any tenant.
pub(crate) async fn delete_dry(tenant: &Endpoint, vpc: &str) -> Option<String> {
    // The request has no body: with a body, an API server does not look at the query.
    let request = http::Request::delete(format!("{VPCS}/{vpc}?dryRun=All")).body(bytes::Bytes::new()).unwrap();
    let response = tenant.send(request).await.unwrap();
    (!response.status().is_success()).then(|| String::from_utf8_lossy(response.body()).into_owned())
}

/// Asks again until it is so, for a minute at most.
pub(crate) async fn eventually(what: &str, mut is_so: impl AsyncFnMut() -> bool) {
    let end = tokio::time::Instant::now() + Duration::from_secs(60);
    while !is_so().await {
        assert!(tokio::time::Instant::now() < end, "never: {what}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// Returns the status and the text of a probe.
pub(crate) async fn probe(address: SocketAddr, path: &str) -> (u16, String) {
    let mut stream = TcpStream::connect(address).await.unwrap();
    let request = format!("GET {path} HTTP/1.1\r\nhost: probe\r\nconnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut response = String::new();
    stream.read_to_string(&mut response).await.unwrap();
    let (head, body) = response.split_once("\r\n\r\n").unwrap();
    (head.split(' ').nth(1).unwrap().parse().unwrap(), body.to_owned())
}

//! Rules about Cluster API: the classes, templates, extensions, Secrets and ConfigMaps that its kinds name.

use depguard_core::ControlPlane;
use serde_json::Value;

use super::notation::{CONFIG_MAP, Dependency, Kind, SECRET, SERVICE, out, rule, saying_left_out, without_label};
use super::{LeftOut, RulePack};

const GROUP: &str = "cluster.x-k8s.io";
const BOOTSTRAP: &str = "bootstrap.cluster.x-k8s.io";
const CONTROL_PLANE: &str = "controlplane.cluster.x-k8s.io";
const CLUSTER: Kind = Kind::new(GROUP, "v1beta2", "Cluster", "clusters");
const CLUSTER_CLASS: Kind = Kind::new(GROUP, "v1beta2", "ClusterClass", "clusterclasses");
const MACHINE: Kind = Kind::new(GROUP, "v1beta2", "Machine", "machines");
const MACHINE_SET: Kind = Kind::new(GROUP, "v1beta2", "MachineSet", "machinesets");
const MACHINE_DEPLOYMENT: Kind = Kind::new(GROUP, "v1beta2", "MachineDeployment", "machinedeployments");
const MACHINE_POOL: Kind = Kind::new(GROUP, "v1beta2", "MachinePool", "machinepools");
const CONFIG: Kind = Kind::new(BOOTSTRAP, "v1beta2", "KubeadmConfig", "kubeadmconfigs");
const CONFIG_TEMPLATE: Kind = Kind::new(BOOTSTRAP, "v1beta2", "KubeadmConfigTemplate", "kubeadmconfigtemplates");
const KUBEADM: Kind = Kind::new(CONTROL_PLANE, "v1beta2", "KubeadmControlPlane", "kubeadmcontrolplanes");
const KUBEADM_TEMPLATE: Kind =
    Kind::new(CONTROL_PLANE, "v1beta2", "KubeadmControlPlaneTemplate", "kubeadmcontrolplanetemplates");
const RESOURCE_SET: Kind = Kind::new("addons.cluster.x-k8s.io", "v1beta2", "ClusterResourceSet", "clusterresourcesets");
const EXTENSION_CONFIG: Kind = Kind::new("runtime.cluster.x-k8s.io", "v1beta2", "ExtensionConfig", "extensionconfigs");

/// Label of the objects that Cluster API makes for the topology of a Cluster.
const TOPOLOGY_OWNED: &str = "topology.cluster.x-k8s.io/owned";

/// Annotation of an ExtensionConfig with the namespace and name of the Secret that has its CA.
const INJECT_CA: &str = ".metadata.annotations['runtime.cluster.x-k8s.io/inject-ca-from-secret']";

/// Paths of a ClusterClass that name extensions.
const EXTENSIONS: [&str; 4] = [
    ".spec.patches[*].external.generatePatchesExtension",
    ".spec.patches[*].external.validateTopologyExtension",
    ".spec.patches[*].external.discoverVariablesExtension",
    ".spec.upgrade.external.generateUpgradePlanExtension",
];

pub(super) const PACK: RulePack = RulePack {
    name: "cluster-api",
    control_plane: ControlPlane::Kubernetes,
    protects: "keeps the ClusterClasses of Clusters, the kubeadm templates and ExtensionConfigs that ClusterClasses \
               name, the KubeadmConfigTemplates of MachineDeployments and MachineSets, the Secrets and ConfigMaps that \
               Machines, kubeadm configurations and ClusterResourceSets use, and the Services of ExtensionConfigs",
    notes: &[
        "Apply the rules in a management cluster.",
        "Delete the rules in the source cluster before `clusterctl move`: the command deletes the objects there in an \
         order of its own, and fails after a refusal.",
        "No rule keeps a Cluster: Cluster API deletes the Machines, the control plane and the infrastructure while the \
         Cluster is being deleted.",
        "In Clusters with a topology, Cluster API itself deletes the templates of a MachineDeployment or MachineSet \
         that is being deleted, so MachineDeployments and MachineSets with the label topology.cluster.x-k8s.io/owned \
         keep nothing.",
        "A Secret with bootstrap data stays until its Machine is gone: some infrastructure providers still read the \
         Secret to delete a Machine. The garbage collector's first attempt may be refused.",
        "Write rules of your own for the kinds of your infrastructure provider. Its credentials must outlive its \
         Clusters: the dependents are its cluster and machine kinds, such as AWSCluster or OpenStackCluster, and the \
         targets are the Secrets or identities that .spec.identityRef names. `kubectl depguard suggest --live` lists \
         these fields; you name the kinds.",
        "A rule of your own for templates of machines needs the same selector as the rules for MachineDeployments and \
         MachineSets here.",
    ],
    held_against: "the CustomResourceDefinitions of Cluster API, commit ae7ff047db (2026-08-21)",
    rules,
    left_out: &[
        ended_with_cluster("clusters", ".spec.controlPlaneRef"),
        ended_with_cluster("clusters", ".spec.infrastructureRef"),
        of_class("clusters", ".spec.topology.workers.machineDeployments[*].class"),
        of_class("clusters", ".spec.topology.workers.machinePools[*].class"),
        out("clusters", ".spec.topology.workers.machineDeployments[*].name", "part of the name of a new object"),
        out("clusters", ".spec.topology.workers.machinePools[*].name", "part of the name of a new object"),
        of_class("clusters", ".spec.topology.variables[*].name"),
        of_class("clusters", ".spec.topology.controlPlane.variables.overrides[*].name"),
        of_class("clusters", ".spec.topology.workers.machineDeployments[*].variables.overrides[*].name"),
        of_class("clusters", ".spec.topology.workers.machinePools[*].variables.overrides[*].name"),
        of_provider("clusters", ".spec.topology.controlPlane.healthCheck.remediation.templateRef"),
        of_provider("clusters", ".spec.topology.workers.machineDeployments[*].healthCheck.remediation.templateRef"),
        out("clusters", ".spec.topology.workers.machineDeployments[*].failureDomain", "name outside of the cluster"),
        out("clusters", ".spec.topology.workers.machinePools[*].failureDomains", "name outside of the cluster"),
        out("clusters", ".status.failureDomains[*].name", "name outside of the cluster"),
        of_provider("clusterclasses", ".spec.infrastructure.templateRef"),
        of_provider("clusterclasses", ".spec.controlPlane.machineInfrastructure.templateRef"),
        of_provider("clusterclasses", ".spec.controlPlane.healthCheck.remediation.templateRef"),
        of_provider("clusterclasses", ".spec.workers.machineDeployments[*].infrastructure.templateRef"),
        of_provider("clusterclasses", ".spec.workers.machineDeployments[*].healthCheck.remediation.templateRef"),
        of_provider("clusterclasses", ".spec.workers.machinePools[*].infrastructure.templateRef"),
        of_class("clusterclasses", ".spec.patches[*].definitions[*].selector"),
        out("clusterclasses", ".spec.workers.machineDeployments[*].failureDomain", "name outside of the cluster"),
        out("clusterclasses", ".spec.workers.machinePools[*].failureDomains", "name outside of the cluster"),
        of_its_cluster("machines", ".spec.clusterName"),
        of_its_cluster("machinesets", ".spec.clusterName"),
        of_its_cluster("machinesets", ".spec.template.spec.clusterName"),
        of_its_cluster("machinedeployments", ".spec.clusterName"),
        of_its_cluster("machinedeployments", ".spec.template.spec.clusterName"),
        of_its_cluster("machinepools", ".spec.clusterName"),
        of_its_cluster("machinepools", ".spec.template.spec.clusterName"),
        of_its_cluster("machinehealthchecks", ".spec.clusterName"),
        of_its_cluster("ipaddressclaims", ".spec.clusterName"),
        of_its_cluster("clusterresourcesetbindings", ".spec.clusterName"),
        ended_with_machines("machines", ".spec.bootstrap.configRef"),
        ended_with_machines("machines", ".spec.infrastructureRef"),
        ended_with_machines("machinepools", ".spec.template.spec.bootstrap.configRef"),
        ended_with_machines("machinepools", ".spec.template.spec.infrastructureRef"),
        of_provider("machinesets", ".spec.template.spec.infrastructureRef"),
        of_provider("machinedeployments", ".spec.template.spec.infrastructureRef"),
        of_provider("machinehealthchecks", ".spec.remediation.templateRef"),
        of_provider("kubeadmcontrolplanes", ".spec.machineTemplate.spec.infrastructureRef"),
        of_workload("machines", ".status.nodeRef"),
        of_workload("machinepools", ".status.nodeRefs"),
        out("machinepools", ".spec.providerIDList", "names outside of the cluster"),
        out("machinepools", ".spec.failureDomains", "names outside of the cluster"),
        out("machinehealthchecks", ".status.targets", "names of the Machines that the health check watches"),
        of_workload("kubeadmconfigs", ".spec.clusterConfiguration"),
        of_workload("kubeadmconfigs", ".spec.initConfiguration"),
        of_workload("kubeadmconfigs", ".spec.joinConfiguration"),
        of_workload("kubeadmconfigs", ".spec.users[*].name"),
        out("kubeadmconfigs", ".status.dataSecretName", "Cluster API makes the Secret"),
        of_workload("kubeadmconfigtemplates", ".spec.template.spec.clusterConfiguration"),
        of_workload("kubeadmconfigtemplates", ".spec.template.spec.initConfiguration"),
        of_workload("kubeadmconfigtemplates", ".spec.template.spec.joinConfiguration"),
        of_workload("kubeadmconfigtemplates", ".spec.template.spec.users[*].name"),
        of_workload("kubeadmcontrolplanes", ".spec.kubeadmConfigSpec.clusterConfiguration"),
        of_workload("kubeadmcontrolplanes", ".spec.kubeadmConfigSpec.initConfiguration"),
        of_workload("kubeadmcontrolplanes", ".spec.kubeadmConfigSpec.joinConfiguration"),
        of_workload("kubeadmcontrolplanes", ".spec.kubeadmConfigSpec.users[*].name"),
        out(
            "kubeadmcontrolplanetemplates",
            ".spec.template.spec.kubeadmConfigSpec",
            "the KubeadmControlPlane made of the template, maybe in another namespace, has a rule",
        ),
        out("clusterresourcesets", ".spec.clusterSelector", "selects the Clusters that get the resources"),
        out(
            "clusterresourcesetbindings",
            ".spec.bindings[*].clusterResourceSetName",
            "Cluster API removes the entry while the ClusterResourceSet is being deleted",
        ),
        out("clusterresourcesetbindings", ".spec.bindings[*].resources[*].name", "record of what was applied"),
        of_provider("ipaddressclaims", ".spec.poolRef"),
        out("ipaddressclaims", ".status.addressRef.name", "the provider makes the IPAddress for the claim"),
        of_provider("ipaddresses", ".spec.poolRef"),
        out("ipaddresses", ".spec.claimRef.name", "the provider deletes the IPAddress with its claim"),
    ],
};

fn rules() -> Vec<Value> {
    let extensions = EXTENSIONS.map(|path| EXTENSION_CONFIG.at(path).pattern(r"^[^.]+\.(.+)$"));
    let templates = [
        template(KUBEADM_TEMPLATE, ".spec.controlPlane.templateRef"),
        template(CONFIG_TEMPLATE, ".spec.workers.machineDeployments[*].bootstrap.templateRef"),
        template(CONFIG_TEMPLATE, ".spec.workers.machinePools[*].bootstrap.templateRef"),
    ];
    vec![
        rule(
            "cluster-api-clusters",
            CLUSTER,
            [CLUSTER_CLASS.at(".spec.topology.classRef.name").namespace_at(".spec.topology.classRef.namespace")],
        ),
        saying_left_out(
            rule("cluster-api-clusterclasses", CLUSTER_CLASS, templates.into_iter().chain(extensions)),
            PACK.left_out,
        ),
        rule("cluster-api-machines", MACHINE, [SECRET.at(".spec.bootstrap.dataSecretName")]),
        rule("cluster-api-machinepools", MACHINE_POOL, [SECRET.at(".spec.template.spec.bootstrap.dataSecretName")]),
        without_topology(rule("cluster-api-machinesets", MACHINE_SET, machine_template())),
        without_topology(rule("cluster-api-machinedeployments", MACHINE_DEPLOYMENT, machine_template())),
        rule("cluster-api-kubeadmconfigs", CONFIG, kubeadm(".spec")),
        rule("cluster-api-kubeadmconfigtemplates", CONFIG_TEMPLATE, kubeadm(".spec.template.spec")),
        rule("cluster-api-kubeadmcontrolplanes", KUBEADM, kubeadm(".spec.kubeadmConfigSpec")),
        rule(
            "cluster-api-clusterresourcesets",
            RESOURCE_SET,
            [SECRET, CONFIG_MAP].map(|kind| kind.at(".spec.resources[*].name").kind_at(".spec.resources[*].kind")),
        ),
        rule(
            "cluster-api-extensionconfigs",
            EXTENSION_CONFIG,
            [
                SERVICE.at(".spec.clientConfig.service.name").namespace_at(".spec.clientConfig.service.namespace"),
                SECRET.at(INJECT_CA).pattern("^[^/]+/(.+)$").namespace_pattern("^([^/]+)/"),
            ],
        ),
    ]
}

/// Returns the references of a template of Machines, in a MachineSet or MachineDeployment.
fn machine_template() -> [Dependency; 2] {
    let bootstrap = ".spec.template.spec.bootstrap";
    let config = format!("{bootstrap}.configRef");
    [
        CONFIG_TEMPLATE
            .at(format!("{config}.name"))
            .kind_at(format!("{config}.kind"))
            .group_at(format!("{config}.apiGroup")),
        SECRET.at(format!("{bootstrap}.dataSecretName")),
    ]
}

/// Returns the references of a kubeadm configuration at a path.
fn kubeadm(spec: &str) -> [Dependency; 2] {
    ["files[*].contentFrom", "users[*].passwdFrom"].map(|from| SECRET.at(format!("{spec}.{from}.secret.name")))
}

/// Returns a reference of a ClusterClass to a template; other kinds of templates are possible.
fn template(target: Kind, at: &str) -> Dependency {
    target.at(format!("{at}.name")).kind_at(format!("{at}.kind")).api_version_at(format!("{at}.apiVersion"))
}

/// Returns the rule for dependents that Cluster API doesn't make for a topology. The others have a finalizer, by which
/// Cluster API deletes their templates while they are being deleted: refusals would keep them for ever.
fn without_topology(rule: Value) -> Value {
    without_label(rule, TOPOLOGY_OWNED)
}

const fn ended_with_cluster(resource: &'static str, path: &'static str) -> LeftOut {
    out(resource, path, "Cluster API deletes the object while the Cluster is being deleted")
}

const fn ended_with_machines(resource: &'static str, path: &'static str) -> LeftOut {
    out(resource, path, "Cluster API deletes the object while the Machine or MachinePool is being deleted")
}

const fn of_its_cluster(resource: &'static str, path: &'static str) -> LeftOut {
    out(resource, path, "belongs to the Cluster and ends while the Cluster is being deleted")
}

const fn of_class(resource: &'static str, path: &'static str) -> LeftOut {
    out(resource, path, "names a part of the ClusterClass")
}

const fn of_provider(resource: &'static str, path: &'static str) -> LeftOut {
    out(resource, path, "the kind is a provider's")
}

const fn of_workload(resource: &'static str, path: &'static str) -> LeftOut {
    out(resource, path, "is about the inside of the new cluster")
}

//! Rules about Kubernetes' own kinds that run no Pods: storage, networks, rights, and the API server's own.

use depguard_core::ControlPlane;
use serde_json::Value;

use crate::packs::notation::{Dependency, Kind, SECRET, SERVICE, SERVICE_ACCOUNT, out, rule};
use crate::packs::{LeftOut, RulePack};

use super::{PERSISTENT_VOLUME, PERSISTENT_VOLUME_CLAIM, STORAGE_CLASS};

const NETWORKING: &str = "networking.k8s.io";
const RBAC: &str = "rbac.authorization.k8s.io";
const ADMISSION: &str = "admissionregistration.k8s.io";
const FLOW_CONTROL: &str = "flowcontrol.apiserver.k8s.io";

const INGRESS: Kind = Kind::new(NETWORKING, "v1", "Ingress", "ingresses");
const INGRESS_CLASS: Kind = Kind::new(NETWORKING, "v1", "IngressClass", "ingressclasses");
const ROLE: Kind = Kind::new(RBAC, "v1", "Role", "roles");
const ROLE_BINDING: Kind = Kind::new(RBAC, "v1", "RoleBinding", "rolebindings");
const CLUSTER_ROLE: Kind = Kind::new(RBAC, "v1", "ClusterRole", "clusterroles");
const CLUSTER_ROLE_BINDING: Kind = Kind::new(RBAC, "v1", "ClusterRoleBinding", "clusterrolebindings");
const MUTATING_WEBHOOKS: Kind =
    Kind::new(ADMISSION, "v1", "MutatingWebhookConfiguration", "mutatingwebhookconfigurations");
const VALIDATING_WEBHOOKS: Kind =
    Kind::new(ADMISSION, "v1", "ValidatingWebhookConfiguration", "validatingwebhookconfigurations");
const DEFINITION: Kind =
    Kind::new("apiextensions.k8s.io", "v1", "CustomResourceDefinition", "customresourcedefinitions");
const API_SERVICE: Kind = Kind::new("apiregistration.k8s.io", "v1", "APIService", "apiservices");
const FLOW_SCHEMA: Kind = Kind::new(FLOW_CONTROL, "v1", "FlowSchema", "flowschemas");
const PRIORITY_LEVEL: Kind = Kind::new(FLOW_CONTROL, "v1", "PriorityLevelConfiguration", "prioritylevelconfigurations");

pub(in crate::packs) const PACK: RulePack = RulePack {
    name: "kubernetes-cluster",
    control_plane: ControlPlane::Kubernetes,
    protects: "keeps the PersistentVolumes, storage classes and Secrets that storage uses, the Services, Secrets and \
               IngressClasses of Ingresses, the roles of bindings, the Services behind webhooks and aggregated APIs, \
               the pull Secrets of ServiceAccounts, and the priority levels of FlowSchemas",
    notes: &[
        "Apply the rules in the cluster, from Kubernetes 1.34 on together with the pack kubernetes-1.34.",
        "Before you delete a namespace with the Services of webhooks or aggregated APIs, delete the webhook \
         configurations, APIServices and CustomResourceDefinitions that name the Services. These objects have no \
         namespace, and the namespace stays in Terminating until they are gone.",
        "A CustomResourceDefinition that stays after its product is uninstalled keeps the Service of its conversion \
         webhook: delete the definition, or set its conversion strategy to None.",
        "A StorageClass, and a PersistentVolume that is not yet released, keep the Secrets of their storage driver: \
         delete StorageClasses and volumes before the driver and its namespace.",
        "A PersistentVolume with the reclaim policy Delete keeps the Secret by which its driver deletes the volume \
         until the volume is gone, even while the Secret's namespace is being deleted.",
        "The parameters of a StorageClass never change. Who deletes a class to make the class anew needs the \
         break-glass annotation while claims name the class.",
        "An Ingress keeps the Secret of its certificate: have cert-manager issue a certificate anew by `cmctl renew` \
         instead of a deletion of the Secret.",
        "kubectl deletes the objects of a manifest in the order of the manifest: if a Role or a Service stands before \
         the object that uses it, repeat the command after the refusal. The same holds for `helm uninstall`: older \
         versions of Helm delete a Service before the webhook configuration that names the Service.",
        "The dataSourceRef of a PersistentVolumeClaim counts only if it names another claim: if the cluster has \
         VolumeSnapshots, write a rule of your own about them.",
        "Selectors, the subjects of bindings and the targets of autoscalers don't count: nothing breaks without the \
         objects that they name.",
        "An API server asks no webhook about deletions of webhook configurations and admission policies, so no rule \
         can keep these.",
        "Take `failurePolicy: Ignore` where these objects must go even while depguard can't be reached.",
    ],
    held_against: "the OpenAPI definitions of Kubernetes v1.36.3",
    rules,
    left_out: &LEFT_OUT,
};

fn rules() -> Vec<Value> {
    vec![
        rule("kubernetes-cluster-persistentvolumeclaims", PERSISTENT_VOLUME_CLAIM, persistent_volume_claim()),
        rule("kubernetes-cluster-persistentvolumes", PERSISTENT_VOLUME, persistent_volume()),
        rule("kubernetes-cluster-storageclasses", STORAGE_CLASS, storage_class()),
        rule("kubernetes-cluster-serviceaccounts", SERVICE_ACCOUNT, [SECRET.at(".imagePullSecrets[*].name")]),
        rule(
            "kubernetes-cluster-ingresses",
            INGRESS,
            [
                SERVICE.at(".spec.defaultBackend.service.name"),
                SERVICE.at(".spec.rules[*].http.paths[*].backend.service.name"),
                SECRET.at(".spec.tls[*].secretName"),
                INGRESS_CLASS.at(".spec.ingressClassName"),
            ],
        ),
        rule("kubernetes-cluster-rolebindings", ROLE_BINDING, [role(ROLE), role(CLUSTER_ROLE)]),
        rule("kubernetes-cluster-clusterrolebindings", CLUSTER_ROLE_BINDING, [role(CLUSTER_ROLE)]),
        rule(
            "kubernetes-cluster-mutatingwebhookconfigurations",
            MUTATING_WEBHOOKS,
            [referred(SERVICE, ".webhooks[*].clientConfig.service")],
        ),
        rule(
            "kubernetes-cluster-validatingwebhookconfigurations",
            VALIDATING_WEBHOOKS,
            [referred(SERVICE, ".webhooks[*].clientConfig.service")],
        ),
        rule(
            "kubernetes-cluster-customresourcedefinitions",
            DEFINITION,
            [referred(SERVICE, ".spec.conversion.webhook.clientConfig.service")],
        ),
        rule("kubernetes-cluster-apiservices", API_SERVICE, [referred(SERVICE, ".spec.service")]),
        rule(
            "kubernetes-cluster-flowschemas",
            FLOW_SCHEMA,
            [PRIORITY_LEVEL.at(".spec.priorityLevelConfiguration.name")],
        ),
    ]
}

fn persistent_volume_claim() -> [Dependency; 3] {
    [
        PERSISTENT_VOLUME.at(".spec.volumeName"),
        STORAGE_CLASS.at(".spec.storageClassName"),
        // Once there is a volume, it has its own copy of the source.
        referred(PERSISTENT_VOLUME_CLAIM, ".spec.dataSourceRef")
            .kind_at(".spec.dataSourceRef.kind")
            .when(".status.phase", &["Pending"]),
    ]
}

/// Returns the references of a PersistentVolume. The Secrets by which nodes mount a volume count until the volume is
/// released, and the Secret by which its driver deletes the volume until the volume is gone.
fn persistent_volume() -> impl Iterator<Item = Dependency> {
    let secrets = [
        "csi.controllerExpandSecretRef",
        "csi.controllerPublishSecretRef",
        "csi.nodeExpandSecretRef",
        "csi.nodePublishSecretRef",
        "csi.nodeStageSecretRef",
        "cephfs.secretRef",
        "cinder.secretRef",
        "flexVolume.secretRef",
        "iscsi.secretRef",
        "rbd.secretRef",
        "scaleIO.secretRef",
        "storageos.secretRef",
    ];
    let azure_file = SECRET.at(".spec.azureFile.secretName").namespace_at(".spec.azureFile.secretNamespace");
    let secrets = secrets.into_iter().map(|at| referred(SECRET, &format!(".spec.{at}"))).chain([azure_file]);
    let secrets = secrets.map(|secret| secret.when(".status.phase", &["Pending", "Available", "Bound"]));
    let deletes = SECRET
        .at(".metadata.annotations['volume.kubernetes.io/provisioner-deletion-secret-name']")
        .namespace_at(".metadata.annotations['volume.kubernetes.io/provisioner-deletion-secret-namespace']")
        .when(".spec.persistentVolumeReclaimPolicy", &["Delete"]);
    secrets.chain([deletes])
}

/// Returns the references of a StorageClass, by the parameters that all CSI drivers share. A parameter with a variable,
/// such as `${pvc.name}`, names no object.
fn storage_class() -> impl Iterator<Item = Dependency> {
    let purposes = [
        "provisioner",
        "controller-publish",
        "controller-expand",
        "controller-modify",
        "node-stage",
        "node-publish",
        "node-expand",
    ];
    purposes.into_iter().map(|purpose| {
        let parameter = |part: &str| format!(".parameters['csi.storage.k8s.io/{purpose}-secret-{part}']");
        SECRET.at(parameter("name")).namespace_at(parameter("namespace"))
    })
}

/// Returns the reference of a binding to its role.
fn role(kind: Kind) -> Dependency {
    kind.at(".roleRef.name").kind_at(".roleRef.kind")
}

/// Returns a reference by the name and namespace in the object at a path.
fn referred(target: Kind, at: &str) -> Dependency {
    target.at(format!("{at}.name")).namespace_at(format!("{at}.namespace"))
}

const LEFT_OUT: [LeftOut; 60] = [
    out("persistentvolumes", ".spec.claimRef", "the claim goes first: a rule follows its volumeName"),
    out(
        "persistentvolumes",
        ".spec.storageClassName",
        "a bound volume needs its class for its claim, which has a rule; otherwise it is a mark",
    ),
    out("persistentvolumes", ".spec.storageos.volumeNamespace", "names something in a storage system"),
    out("persistentvolumes", ".spec.glusterfs", "no kubelet since 1.26 mounts GlusterFS"),
    out("persistentvolumes", ".spec.csi.driver", "an upgrade of a driver deletes its CSIDriver and makes it anew"),
    out("persistentvolumes", ".spec.flexVolume.driver", "names a program on the node"),
    out("persistentvolumes", ".spec.azureDisk.diskName", "names something in a storage system"),
    out("persistentvolumes", ".spec.azureFile.shareName", "names something in a storage system"),
    out("persistentvolumes", ".spec.flocker.datasetName", "names something in a storage system"),
    out("persistentvolumes", ".spec.gcePersistentDisk.pdName", "names something in a storage system"),
    out("persistentvolumes", ".spec.iscsi.initiatorName", "names something in a storage system"),
    out("persistentvolumes", ".spec.quobyte.volume", "names something in a storage system"),
    out("persistentvolumes", ".spec.scaleIO.volumeName", "names something in a storage system"),
    out("persistentvolumes", ".spec.storageos.volumeName", "names something in a storage system"),
    out("persistentvolumes", ".spec.vsphereVolume.storagePolicyName", "names something in a storage system"),
    out("persistentvolumeclaims", ".spec.dataSource", "the API server copies the value to dataSourceRef"),
    out("storageclasses", ".provisioner", "an upgrade of a driver deletes its CSIDriver and makes it anew"),
    out("csistoragecapacities", ".storageClassName", "the provisioner writes the object"),
    out("volumeattachments", ".spec", "Kubernetes writes the object, and a finalizer of the attacher keeps the volume"),
    out("serviceaccounts", ".secrets", "Kubernetes writes and deletes the Secrets of tokens"),
    out("services", ".spec.selector", "selects Pods, and needs none"),
    out("services", ".spec.externalName", "names a host"),
    out("services", ".spec.loadBalancerClass", "names an implementation, which is no object"),
    out("services", ".spec.ports[*].name", "names the port itself"),
    out("endpoints", ".subsets", "Kubernetes writes the object"),
    out("endpointslices", ".endpoints", "Kubernetes writes the object"),
    out("endpointslices", ".ports[*].name", "names the port itself"),
    out("ipaddresses", ".spec.parentRef", "Kubernetes writes the object for the Service"),
    out("ingresses", ".spec.defaultBackend.resource", "may name any kind"),
    out("ingresses", ".spec.defaultBackend.service.port.name", "names a port of the Service"),
    out("ingresses", ".spec.rules[*].http.paths[*].backend.resource", "may name any kind"),
    out("ingresses", ".spec.rules[*].http.paths[*].backend.service.port.name", "names a port of the Service"),
    out("ingressclasses", ".spec.parameters", "may name any kind"),
    out("networkpolicies", ".spec", "selects Pods, and needs none"),
    out("poddisruptionbudgets", ".spec.selector", "selects Pods, and needs none"),
    out(
        "horizontalpodautoscalers",
        ".spec.scaleTargetRef",
        "an autoscaler acts upon its target; a deletion of the target breaks nothing",
    ),
    out("horizontalpodautoscalers", ".spec.metrics", "names metrics, and an object of any kind that they describe"),
    out(
        "clusterrolebindings",
        ".subjects",
        "gives rights to a name, and bindings usually outlive it: a namespace would wait for bindings elsewhere",
    ),
    out("rolebindings", ".subjects", "gives rights to a name, and bindings usually outlive the ServiceAccount"),
    out("clusterroles", ".rules[*].resourceNames", "grants rights to names, whether or not the objects exist"),
    out("roles", ".rules[*].resourceNames", "grants rights to names, whether or not the objects exist"),
    out(
        "mutatingadmissionpolicybindings",
        ".spec.policyName",
        "the API server asks no webhook about a deletion of policies",
    ),
    out("mutatingadmissionpolicybindings", ".spec.paramRef", "the policy says the kind"),
    out("mutatingadmissionpolicybindings", ".spec.matchResources", "names the objects of requests"),
    out("mutatingadmissionpolicies", ".spec.matchConstraints", "names the objects of requests"),
    out(
        "validatingadmissionpolicybindings",
        ".spec.policyName",
        "the API server asks no webhook about a deletion of policies",
    ),
    out("validatingadmissionpolicybindings", ".spec.paramRef", "the policy says the kind"),
    out("validatingadmissionpolicybindings", ".spec.matchResources", "names the objects of requests"),
    out("validatingadmissionpolicies", ".spec.matchConstraints", "names the objects of requests"),
    out("mutatingadmissionpolicies", ".spec.variables", "names the variable itself"),
    out("customresourcedefinitions", ".spec.names", "names the kind itself"),
    out("customresourcedefinitions", ".spec.versions", "names the versions and columns themselves"),
    out("flowschemas", ".spec.rules", "names the makers of requests, whether or not they exist"),
    out("certificatesigningrequests", ".spec.signerName", "names a signer, which is no object"),
    out("certificatesigningrequests", ".spec.username", "names a user"),
    out("events", ".involvedObject", "an event outlives its object"),
    out("events", ".regarding", "an event outlives its object"),
    out("events", ".related", "an event outlives its object"),
    out("nodes", ".spec.configSource", "no kubelet since 1.24 reads the ConfigMap"),
    out("resourcequotas", ".spec.scopeSelector", "limits what names a class, and needs none"),
];

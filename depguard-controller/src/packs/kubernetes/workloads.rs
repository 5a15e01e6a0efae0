//! Rules about Pods, and about the kinds that run Pods.

use depguard_core::ControlPlane;
use serde_json::Value;

use crate::packs::notation::{CONFIG_MAP, Dependency, Kind, SECRET, SERVICE_ACCOUNT, out, rule};
use crate::packs::{LeftOut, RulePack};

use super::{
    CLAIM_TEMPLATES, CRON_JOB, CRON_JOB_TEMPLATE, DAEMON_SET, DEPLOYMENT, JOB, NOT_ENDED, PERSISTENT_VOLUME_CLAIM, POD,
    STATEFUL_SET, STORAGE_CLASS, TEMPLATE, ephemeral_claim,
};

const RUNTIME_CLASS: Kind = Kind::new("node.k8s.io", "v1", "RuntimeClass", "runtimeclasses");
const PRIORITY_CLASS: Kind = Kind::new("scheduling.k8s.io", "v1", "PriorityClass", "priorityclasses");

const CONTAINERS: [&str; 3] = ["containers", "initContainers", "ephemeralContainers"];

/// References of a container.
const IN_CONTAINER: [(Kind, &str); 4] = [
    (CONFIG_MAP, "envFrom[*].configMapRef.name"),
    (CONFIG_MAP, "env[*].valueFrom.configMapKeyRef.name"),
    (SECRET, "envFrom[*].secretRef.name"),
    (SECRET, "env[*].valueFrom.secretKeyRef.name"),
];

/// References of a Pod's specification, besides those of its containers.
const IN_SPEC: [(Kind, &str); 17] = [
    (CONFIG_MAP, "volumes[*].configMap.name"),
    (CONFIG_MAP, "volumes[*].projected.sources[*].configMap.name"),
    (SECRET, "imagePullSecrets[*].name"),
    (SECRET, "volumes[*].secret.secretName"),
    (SECRET, "volumes[*].projected.sources[*].secret.name"),
    (SECRET, "volumes[*].csi.nodePublishSecretRef.name"),
    (SECRET, "volumes[*].iscsi.secretRef.name"),
    (SECRET, "volumes[*].azureFile.secretName"),
    (SECRET, "volumes[*].flexVolume.secretRef.name"),
    (SECRET, "volumes[*].cephfs.secretRef.name"),
    (SECRET, "volumes[*].cinder.secretRef.name"),
    (SECRET, "volumes[*].rbd.secretRef.name"),
    (SECRET, "volumes[*].scaleIO.secretRef.name"),
    (SECRET, "volumes[*].storageos.secretRef.name"),
    (PERSISTENT_VOLUME_CLAIM, "volumes[*].persistentVolumeClaim.claimName"),
    (SERVICE_ACCOUNT, "serviceAccountName"),
    (RUNTIME_CLASS, "runtimeClassName"),
];

pub(in crate::packs) const PACK: RulePack = RulePack {
    name: "kubernetes-workloads",
    control_plane: ControlPlane::Kubernetes,
    protects: "keeps ConfigMaps, Secrets, PersistentVolumeClaims, ServiceAccounts and RuntimeClasses that Pods and \
               workloads use, and PriorityClasses and storage classes that workloads need for new Pods",
    notes: &[
        "Apply the rules in the cluster, from Kubernetes 1.34 on together with the pack kubernetes-1.34.",
        "A Pod that is being deleted still uses all that it names.",
        "A Pod that has ended uses nothing any more, but a Job that has ended counts until somebody deletes the Job: \
         set ttlSecondsAfterFinished.",
        "Begin with `onDelete: Warn` where tools delete both at once.",
        "Take `failurePolicy: Ignore` where these objects must go even while depguard can't be reached.",
        "ReplicaSets don't count, since a Deployment keeps the ReplicaSets of its former revisions: before a rollback, \
         look whether their ConfigMaps and Secrets still exist.",
    ],
    held_against: "the OpenAPI definitions of Kubernetes v1.36.3",
    rules,
    left_out: &LEFT_OUT,
};

fn rules() -> Vec<Value> {
    vec![
        rule("pods", POD, pod(".spec").map(|dependency| dependency.when(".status.phase", NOT_ENDED))),
        rule("deployments", DEPLOYMENT, template(TEMPLATE)),
        rule("statefulsets", STATEFUL_SET, stateful_set()),
        rule("daemonsets", DAEMON_SET, template(TEMPLATE)),
        rule("jobs", JOB, template(TEMPLATE)),
        rule("cronjobs", CRON_JOB, template(CRON_JOB_TEMPLATE)),
    ]
}

/// Returns the references of a Pod that runs, by its specification at a path.
fn pod(spec: &str) -> impl Iterator<Item = Dependency> {
    let in_containers = CONTAINERS.into_iter().flat_map(move |containers| {
        IN_CONTAINER.map(|(kind, field)| kind.at(format!("{spec}.{containers}[*].{field}")))
    });
    IN_SPEC.into_iter().map(move |(kind, field)| kind.at(format!("{spec}.{field}"))).chain(in_containers)
}

/// Returns the references of a specification of which new Pods are made: those of a Pod, and those that Kubernetes
/// follows only while it makes a Pod.
fn template(spec: &str) -> impl Iterator<Item = Dependency> {
    pod(spec).chain([PRIORITY_CLASS.at(format!("{spec}.priorityClassName"))]).chain(claim(&ephemeral_claim(spec)))
}

/// Returns the references of a StatefulSet: its Pods' and its claims'.
fn stateful_set() -> impl Iterator<Item = Dependency> {
    template(TEMPLATE).chain(claim(CLAIM_TEMPLATES))
}

/// Returns the references of a specification of which new PersistentVolumeClaims are made.
fn claim(spec: &str) -> [Dependency; 3] {
    let source = |field: &str| {
        let source = format!("{spec}.{field}");
        PERSISTENT_VOLUME_CLAIM.at(format!("{source}.name")).kind_at(format!("{source}.kind"))
    };
    [
        STORAGE_CLASS.at(format!("{spec}.storageClassName")),
        source("dataSource"),
        source("dataSourceRef").namespace_at(format!("{spec}.dataSourceRef.namespace")),
    ]
}

/// Fields that no rule follows. Those of Pods stand for the same fields of all templates.
const LEFT_OUT: [LeftOut; 82] = [
    out("pods", ".spec.nodeName", "autoscalers and cloud controllers delete Nodes under their Pods"),
    out("pods", ".spec.serviceAccount", "the API server copies the value from and to serviceAccountName"),
    out("pods", ".spec.priorityClassName", "a Pod has the class's value since its creation; templates have a rule"),
    out(
        "pods",
        ".spec.volumes[*].ephemeral",
        "a Pod has its claim once it runs, and the claim the references; templates have a rule",
    ),
    out("pods", ".spec.schedulingGroup.podGroupName", "PodGroups are alpha"),
    out("pods", ".spec.schedulerName", "names a program"),
    out("pods", ".spec.hostname", "names the Pod itself"),
    out("pods", ".spec.subdomain", "a part of a DNS name; a Pod runs without the Service of that name"),
    out("pods", ".spec.hostAliases", "names hosts"),
    out("pods", ".spec.dnsConfig", "names options of the resolver"),
    out("pods", ".spec.os.name", "names an operating system"),
    out("pods", ".spec.securityContext.sysctls", "names settings of the kernel"),
    out("pods", ".spec.securityContext.windowsOptions.gmsaCredentialSpecName", "the kind is none of Kubernetes itself"),
    out("pods", ".spec.securityContext.seLinuxOptions.role", "names a role of the system"),
    out("pods", ".spec.securityContext.windowsOptions.runAsUserName", "names a user of the system"),
    out(
        "pods",
        ".spec.containers[*].securityContext.windowsOptions.gmsaCredentialSpecName",
        "the kind is none of Kubernetes itself",
    ),
    out("pods", ".spec.containers[*].securityContext.seLinuxOptions.role", "names a role of the system"),
    out("pods", ".spec.containers[*].securityContext.windowsOptions.runAsUserName", "names a user of the system"),
    out(
        "pods",
        ".spec.initContainers[*].securityContext.windowsOptions.gmsaCredentialSpecName",
        "the kind is none of Kubernetes itself",
    ),
    out("pods", ".spec.initContainers[*].securityContext.seLinuxOptions.role", "names a role of the system"),
    out("pods", ".spec.initContainers[*].securityContext.windowsOptions.runAsUserName", "names a user of the system"),
    out(
        "pods",
        ".spec.ephemeralContainers[*].securityContext.windowsOptions.gmsaCredentialSpecName",
        "the kind is none of Kubernetes itself",
    ),
    out("pods", ".spec.ephemeralContainers[*].securityContext.seLinuxOptions.role", "names a role of the system"),
    out(
        "pods",
        ".spec.ephemeralContainers[*].securityContext.windowsOptions.runAsUserName",
        "names a user of the system",
    ),
    out("pods", ".spec.containers[*].env[*].valueFrom.fileKeyRef.volumeName", "names a volume of the Pod"),
    out("pods", ".spec.containers[*].env[*].valueFrom.resourceFieldRef.containerName", "names a container of the Pod"),
    out("pods", ".spec.containers[*].volumeMounts[*].name", "names a volume of the Pod"),
    out("pods", ".spec.containers[*].volumeDevices[*].name", "names a volume of the Pod"),
    out("pods", ".spec.containers[*].ports[*].name", "names the port itself"),
    out("pods", ".spec.containers[*].resizePolicy[*].resourceName", "names a resource such as cpu"),
    out("pods", ".spec.containers[*].lifecycle", "names headers of HTTP"),
    out("pods", ".spec.containers[*].livenessProbe", "names headers of HTTP"),
    out("pods", ".spec.containers[*].readinessProbe", "names headers of HTTP"),
    out("pods", ".spec.containers[*].startupProbe", "names headers of HTTP"),
    out("pods", ".spec.initContainers[*].env[*].valueFrom.fileKeyRef.volumeName", "names a volume of the Pod"),
    out(
        "pods",
        ".spec.initContainers[*].env[*].valueFrom.resourceFieldRef.containerName",
        "names a container of the Pod",
    ),
    out("pods", ".spec.initContainers[*].volumeMounts[*].name", "names a volume of the Pod"),
    out("pods", ".spec.initContainers[*].volumeDevices[*].name", "names a volume of the Pod"),
    out("pods", ".spec.initContainers[*].ports[*].name", "names the port itself"),
    out("pods", ".spec.initContainers[*].resizePolicy[*].resourceName", "names a resource such as cpu"),
    out("pods", ".spec.initContainers[*].lifecycle", "names headers of HTTP"),
    out("pods", ".spec.initContainers[*].livenessProbe", "names headers of HTTP"),
    out("pods", ".spec.initContainers[*].readinessProbe", "names headers of HTTP"),
    out("pods", ".spec.initContainers[*].startupProbe", "names headers of HTTP"),
    out("pods", ".spec.ephemeralContainers[*].env[*].valueFrom.fileKeyRef.volumeName", "names a volume of the Pod"),
    out(
        "pods",
        ".spec.ephemeralContainers[*].env[*].valueFrom.resourceFieldRef.containerName",
        "names a container of the Pod",
    ),
    out("pods", ".spec.ephemeralContainers[*].volumeMounts[*].name", "names a volume of the Pod"),
    out("pods", ".spec.ephemeralContainers[*].volumeDevices[*].name", "names a volume of the Pod"),
    out("pods", ".spec.ephemeralContainers[*].ports[*].name", "names the port itself"),
    out("pods", ".spec.ephemeralContainers[*].resizePolicy[*].resourceName", "names a resource such as cpu"),
    out("pods", ".spec.ephemeralContainers[*].lifecycle", "names headers of HTTP"),
    out("pods", ".spec.ephemeralContainers[*].livenessProbe", "names headers of HTTP"),
    out("pods", ".spec.ephemeralContainers[*].readinessProbe", "names headers of HTTP"),
    out("pods", ".spec.ephemeralContainers[*].startupProbe", "names headers of HTTP"),
    out("pods", ".spec.ephemeralContainers[*].targetContainerName", "names a container of the Pod"),
    out(
        "pods",
        ".spec.volumes[*].projected.sources[*].clusterTrustBundle",
        "ClusterTrustBundles are beta, and off by default",
    ),
    out(
        "pods",
        ".spec.volumes[*].projected.sources[*].podCertificate.signerName",
        "names a signer, which is no object",
    ),
    out("pods", ".spec.volumes[*].downwardAPI.items[*].resourceFieldRef.containerName", "names a container of the Pod"),
    out(
        "pods",
        ".spec.volumes[*].projected.sources[*].downwardAPI.items[*].resourceFieldRef.containerName",
        "names a container of the Pod",
    ),
    out("pods", ".spec.affinity", "selects Pods and Nodes, and needs none"),
    out("pods", ".spec.volumes[*].storageos.volumeNamespace", "names something in a storage system"),
    out("pods", ".spec.volumes[*].glusterfs", "no kubelet since 1.26 mounts GlusterFS"),
    out("pods", ".spec.volumes[*].csi.driver", "names a program on the node"),
    out("pods", ".spec.volumes[*].flexVolume.driver", "names a program on the node"),
    out("pods", ".spec.volumes[*].image.reference", "names an image in a registry"),
    out("pods", ".spec.volumes[*].azureDisk.diskName", "names something in a storage system"),
    out("pods", ".spec.volumes[*].azureFile.shareName", "names something in a storage system"),
    out("pods", ".spec.volumes[*].flocker.datasetName", "names something in a storage system"),
    out("pods", ".spec.volumes[*].gcePersistentDisk.pdName", "names something in a storage system"),
    out("pods", ".spec.volumes[*].iscsi.initiatorName", "names something in a storage system"),
    out("pods", ".spec.volumes[*].quobyte.volume", "names something in a storage system"),
    out("pods", ".spec.volumes[*].scaleIO.volumeName", "names something in a storage system"),
    out("pods", ".spec.volumes[*].storageos.volumeName", "names something in a storage system"),
    out("pods", ".spec.volumes[*].vsphereVolume.storagePolicyName", "names something in a storage system"),
    out("statefulsets", ".spec.serviceName", "the Pods run without it, and `helm uninstall` deletes the Service first"),
    out(
        "statefulsets",
        ".spec.volumeClaimTemplates[*].spec.volumeName",
        "the claim made of the template names the volume",
    ),
    out("statefulsets", ".spec.volumeClaimTemplates[*].status", "a template has no status"),
    out("jobs", ".spec.podFailurePolicy.rules[*].onExitCodes.containerName", "names a container of the Pod"),
    out(
        "cronjobs",
        ".spec.jobTemplate.spec.podFailurePolicy.rules[*].onExitCodes.containerName",
        "names a container of the Pod",
    ),
    out(
        "replicasets",
        ".spec.template",
        "a Deployment keeps the ReplicaSets of its former revisions, with all that they used",
    ),
    out(
        "replicationcontrollers",
        ".spec.template",
        "OpenShift keeps those of former revisions, as a Deployment its ReplicaSets; their Pods count",
    ),
    out("podtemplates", ".template", "no controller of Kubernetes makes Pods of a PodTemplate"),
];

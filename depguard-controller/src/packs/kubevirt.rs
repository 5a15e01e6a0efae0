//! Rules about KubeVirt and its Containerized Data Importer (CDI): what machines, pools and imports of disks use.

use depguard_core::ControlPlane;
use serde_json::Value;

use super::notation::{CONFIG_MAP, Dependency, Kind, SECRET, SERVICE_ACCOUNT, out, rule, without_label};
use super::{LeftOut, RulePack};

const GROUP: &str = "kubevirt.io";
const KUBE_VIRT: Kind = Kind::new(GROUP, "v1", "KubeVirt", "kubevirts");
const MACHINE: Kind = Kind::new(GROUP, "v1", "VirtualMachine", "virtualmachines");
const INSTANCE: Kind = Kind::new(GROUP, "v1", "VirtualMachineInstance", "virtualmachineinstances");
const REPLICA_SET: Kind =
    Kind::new(GROUP, "v1", "VirtualMachineInstanceReplicaSet", "virtualmachineinstancereplicasets");
const POOL: Kind = Kind::new("pool.kubevirt.io", "v1beta1", "VirtualMachinePool", "virtualmachinepools");

const TYPES: &str = "instancetype.kubevirt.io";
const INSTANCETYPE: Kind = Kind::new(TYPES, "v1beta1", "VirtualMachineInstancetype", "virtualmachineinstancetypes");
const CLUSTER_INSTANCETYPE: Kind =
    Kind::new(TYPES, "v1beta1", "VirtualMachineClusterInstancetype", "virtualmachineclusterinstancetypes");
const PREFERENCE: Kind = Kind::new(TYPES, "v1beta1", "VirtualMachinePreference", "virtualmachinepreferences");
const CLUSTER_PREFERENCE: Kind =
    Kind::new(TYPES, "v1beta1", "VirtualMachineClusterPreference", "virtualmachineclusterpreferences");

const SNAPSHOT: Kind =
    Kind::new("snapshot.kubevirt.io", "v1beta1", "VirtualMachineSnapshot", "virtualmachinesnapshots");
const CLONE: Kind = Kind::new("clone.kubevirt.io", "v1beta1", "VirtualMachineClone", "virtualmachineclones");
/// Read in a version that older releases of KubeVirt serve, too.
const EXPORT: Kind = Kind::new("export.kubevirt.io", "v1beta1", "VirtualMachineExport", "virtualmachineexports");

const CDI_GROUP: &str = "cdi.kubevirt.io";
const CDI: Kind = Kind::new(CDI_GROUP, "v1beta1", "CDI", "cdis");
const DATA_IMPORT_CRON: Kind = Kind::new(CDI_GROUP, "v1beta1", "DataImportCron", "dataimportcrons");
const DATA_SOURCE: Kind = Kind::new(CDI_GROUP, "v1beta1", "DataSource", "datasources");
const DATA_VOLUME: Kind = Kind::new(CDI_GROUP, "v1beta1", "DataVolume", "datavolumes");
const STORAGE_PROFILE: Kind = Kind::new(CDI_GROUP, "v1beta1", "StorageProfile", "storageprofiles");
const VOLUME_CLONE_SOURCE: Kind = Kind::new(CDI_GROUP, "v1beta1", "VolumeCloneSource", "volumeclonesources");
const VOLUME_IMPORT_SOURCE: Kind = Kind::new(CDI_GROUP, "v1beta1", "VolumeImportSource", "volumeimportsources");

const FORKLIFT: &str = "forklift.cdi.kubevirt.io";
const OPENSTACK_POPULATOR: Kind =
    Kind::new(FORKLIFT, "v1beta1", "OpenstackVolumePopulator", "openstackvolumepopulators");
const OVIRT_POPULATOR: Kind = Kind::new(FORKLIFT, "v1beta1", "OvirtVolumePopulator", "ovirtvolumepopulators");

const CLAIM: Kind = Kind::new("", "v1", "PersistentVolumeClaim", "persistentvolumeclaims");
const NETWORK: Kind =
    Kind::new("k8s.cni.cncf.io", "v1", "NetworkAttachmentDefinition", "network-attachment-definitions");
const PRIORITY_CLASS: Kind = Kind::new("scheduling.k8s.io", "v1", "PriorityClass", "priorityclasses");
const RESOURCE_CLAIM: Kind = Kind::new("resource.k8s.io", "v1", "ResourceClaim", "resourceclaims");
const RESOURCE_CLAIM_TEMPLATE: Kind =
    Kind::new("resource.k8s.io", "v1", "ResourceClaimTemplate", "resourceclaimtemplates");
const RUNTIME_CLASS: Kind = Kind::new("node.k8s.io", "v1", "RuntimeClass", "runtimeclasses");
const STORAGE_CLASS: Kind = Kind::new("storage.k8s.io", "v1", "StorageClass", "storageclasses");
const VOLUME_SNAPSHOT: Kind = Kind::new("snapshot.storage.k8s.io", "v1", "VolumeSnapshot", "volumesnapshots");
const VOLUME_SNAPSHOT_CLASS: Kind =
    Kind::new("snapshot.storage.k8s.io", "v1", "VolumeSnapshotClass", "volumesnapshotclasses");

/// Phases in which a DataVolume still needs its source.
const IMPORTING: &[&str] = &[
    "Pending",
    "PVCBound",
    "ImportScheduled",
    "ImportInProgress",
    "CloneScheduled",
    "CloneInProgress",
    "SnapshotForSmartCloneInProgress",
    "CloneFromSnapshotSourceInProgress",
    "SmartClonePVCInProgress",
    "CSICloneInProgress",
    "ExpansionInProgress",
    "NamespaceTransferInProgress",
    "WaitForFirstConsumer",
    "PendingPopulation",
    "Unknown",
    "Paused",
    "PrepClaimInProgress",
    "RebindInProgress",
];

pub(super) const PACK: RulePack = RulePack {
    name: "kubevirt",
    control_plane: ControlPlane::Kubernetes,
    protects: "keeps the disks, networks, Secrets, ConfigMaps, instance types and preferences of virtual machines, and \
               the sources of imports, clones and exports while they run",
    notes: &[
        "Apply the rules in each cluster in which KubeVirt and CDI run; network-attachment-definitions come with \
         Multus.",
        "A VirtualMachine does not keep the DataVolumes that it names: it may own them, and a deletion in the \
         foreground, as by Argo CD, deletes those before the machine. Its VirtualMachineInstance keeps them as long \
         as it exists.",
        "A machine keeps its instance type and preference, though KubeVirt remembers a revision of both. So KubeVirt \
         cannot withdraw a common instance type in an upgrade while machines name it; it tries again.",
        "KubeVirt accepts the kind of an instance type in lower case and in the plural; the rules know these forms \
         for a VirtualMachineInstancetype and a VirtualMachinePreference, but no mixture of them.",
        "DataVolumes, clones and snapshots keep their source only while they run. A DataVolume, clone or snapshot \
         without a phase does not count yet.",
        "A DataSource that a DataImportCron manages keeps nothing, since the DataImportCron replaces failed and old \
         images.",
        "virt-operator serves VirtualMachinePools in v1beta1 only in newer releases; leave the rule of pools out \
         before.",
        "The references to ResourceClaims and ResourceClaimTemplates need resource.k8s.io/v1, and so Kubernetes 1.34; \
         leave them out before.",
    ],
    held_against: "KubeVirt's published validations, commit d923fdb8 (2026-08-22), and CDI's definitions, commit \
                   c07cdb6f (2026-08-20), by hand; not held against the definitions of an installed KubeVirt",
    rules,
    left_out: &[
        out(
            "virtualmachines",
            ".spec.template.spec.volumes[*].dataVolume.name",
            "the machine may own the DataVolume, and a deletion in the foreground would wait forever",
        ),
        out(
            "virtualmachines",
            ".spec.dataVolumeTemplates[*]",
            "the DataVolume keeps its source while it needs the source",
        ),
        made("virtualmachines", ".spec.instancetype.revisionName"),
        made("virtualmachines", ".spec.preference.revisionName"),
        made("virtualmachines", ".status"),
        made("virtualmachineinstances", ".status"),
        made("virtualmachinepools", ".spec.virtualMachineTemplate.spec.instancetype.revisionName"),
        made("virtualmachinepools", ".spec.virtualMachineTemplate.spec.preference.revisionName"),
        claim("virtualmachinepools", ".spec.virtualMachineTemplate.spec.dataVolumeTemplates[*].spec.pvc"),
        claim("virtualmachinepools", ".spec.virtualMachineTemplate.spec.dataVolumeTemplates[*].spec.storage"),
        claim("datavolumes", ".spec.pvc"),
        claim("datavolumes", ".spec.storage"),
        claim("dataimportcrons", ".spec.template.spec.pvc"),
        claim("dataimportcrons", ".spec.template.spec.storage"),
        device("virtualmachines", ".spec.template.spec.domain.devices"),
        device("virtualmachineinstances", ".spec.domain.devices"),
        device("virtualmachineinstancereplicasets", ".spec.template.spec.domain.devices"),
        device("virtualmachinepools", ".spec.virtualMachineTemplate.spec.template.spec.domain.devices"),
        device("virtualmachineinstancepresets", ".spec.domain.devices"),
        device("virtualmachineinstancetypes", ".spec.gpus[*]"),
        device("virtualmachineinstancetypes", ".spec.hostDevices[*]"),
        device("virtualmachineclusterinstancetypes", ".spec.gpus[*]"),
        device("virtualmachineclusterinstancetypes", ".spec.hostDevices[*]"),
        device("virtualmachines", ".spec.template.spec.domain.firmware.acpi"),
        device("virtualmachineinstances", ".spec.domain.firmware.acpi"),
        device("virtualmachineinstancereplicasets", ".spec.template.spec.domain.firmware.acpi"),
        device("virtualmachinepools", ".spec.virtualMachineTemplate.spec.template.spec.domain.firmware.acpi"),
        device("virtualmachineinstancepresets", ".spec.domain.firmware.acpi"),
        device("virtualmachines", ".spec.template.spec.resourceClaims[*].name"),
        device("virtualmachineinstances", ".spec.resourceClaims[*].name"),
        device("virtualmachineinstancereplicasets", ".spec.template.spec.resourceClaims[*].name"),
        device("virtualmachinepools", ".spec.virtualMachineTemplate.spec.template.spec.resourceClaims[*].name"),
        device("virtualmachines", ".spec.template.spec.networks[*].resourceClaim"),
        device("virtualmachineinstances", ".spec.networks[*].resourceClaim"),
        device("virtualmachineinstancereplicasets", ".spec.template.spec.networks[*].resourceClaim"),
        device("virtualmachinepools", ".spec.virtualMachineTemplate.spec.template.spec.networks[*].resourceClaim"),
        out(
            "virtualmachineinstancepresets",
            ".spec.domain.firmware.kernelBoot.container.imagePullSecret",
            "deprecated; the instance that uses the preset has the reference",
        ),
        out("virtualmachinepreferences", ".spec.volumes.preferredStorageClassName", "only a preference"),
        out("virtualmachineclusterpreferences", ".spec.volumes.preferredStorageClassName", "only a preference"),
        out(
            "virtualmachineinstancemigrations",
            ".spec.vmiName",
            "KubeVirt deletes the instance to stop or restart a machine",
        ),
        made("virtualmachineinstancemigrations", ".status"),
        out(
            "virtualmachinerestores",
            ".spec.virtualMachineSnapshotName",
            "a finished restore no longer needs the snapshot, and no string says that it is finished",
        ),
        out(
            "virtualmachinerestores",
            ".spec.target.name",
            "a finished restore no longer needs the machine, and no string says that it is finished",
        ),
        out(
            "virtualmachinerestores",
            ".spec.volumeRestoreOverrides[*].restoreName",
            "KubeVirt makes the PersistentVolumeClaim",
        ),
        made("virtualmachinerestores", ".status"),
        made("virtualmachinesnapshots", ".status"),
        made("virtualmachinesnapshotcontents", ".spec.volumeBackups[*]"),
        out(
            "virtualmachinesnapshotcontents",
            ".spec.source.virtualMachine",
            "a copy of the machine, in case of a restore",
        ),
        out(
            "virtualmachinesnapshotcontents",
            ".spec.virtualMachineSnapshotName",
            "refers back to the snapshot, whose deletion deletes the content",
        ),
        made("virtualmachinesnapshotcontents", ".status"),
        out("virtualmachineclones", ".spec.target.name", "KubeVirt makes the machine"),
        made("virtualmachineclones", ".status"),
        made("virtualmachineexports", ".status"),
        backup("virtualmachinebackups", ".spec.source.name"),
        backup("virtualmachinebackups", ".spec.pvcName"),
        backup("virtualmachinebackups", ".spec.tokenSecretRef"),
        out(
            "virtualmachinebackuptrackers",
            ".spec.source.name",
            "describes the machine's backups, and does not need the machine",
        ),
        plugin(".spec.mutatingAdmissionPolicies[*].name"),
        plugin(".spec.mutatingAdmissionWebhooks[*].name"),
        plugin(".spec.validatingAdmissionPolicies[*].name"),
        plugin(".spec.validatingAdmissionWebhooks[*].name"),
        out("dataimportcrons", ".spec.managedDataSource", "the DataImportCron makes the DataSource"),
        made("dataimportcrons", ".status"),
        made("dataimportcrons", ".spec.template.status"),
        made("datavolumes", ".status.claimName"),
        out("datasources", ".status.source", "repeats the spec"),
        out("objecttransfers", ".spec.source.name", "CDI deletes the source during the transfer"),
        out("objecttransfers", ".spec.target.name", "CDI makes the target"),
        out("objecttransfers", ".spec.parentName", "refers back to the object that made the transfer"),
        out(
            "volumeimportsources",
            ".spec.targetClaim",
            "the claim that the import fills, and that refers to the import",
        ),
        out("cdis", ".spec.config.imagePullSecrets[*].name", "no field says in which namespace the Secret is"),
        out(
            "cdis",
            ".spec.config.filesystemOverhead.storageClass",
            "amounts of space by the name of a class, which need no class",
        ),
        out("cdiconfigs", ".spec", "CDI copies the spec from the CDI object"),
        out("cdiconfigs", ".status", "CDI copies the status from the spec"),
        out("storageprofiles", ".status.storageClass", "refers back to the StorageClass of the profile"),
        out("storageprofiles", ".status.snapshotClass", "repeats the spec"),
    ],
};

fn rules() -> Vec<Value> {
    let pool = ".spec.virtualMachineTemplate.spec";
    vec![
        rule("kubevirt-virtualmachines", MACHINE, [machine(".spec.template.spec"), types(".spec")].concat()),
        rule("kubevirt-virtualmachineinstances", INSTANCE, [machine(".spec"), disks(".spec")].concat()),
        rule(
            "kubevirt-virtualmachineinstancereplicasets",
            REPLICA_SET,
            [machine(".spec.template.spec"), disks(".spec.template.spec")].concat(),
        ),
        rule(
            "kubevirt-virtualmachinepools",
            POOL,
            [
                machine(&format!("{pool}.template.spec")),
                disks(&format!("{pool}.template.spec")),
                types(pool),
                images(&format!("{pool}.dataVolumeTemplates[*].spec")),
                sources(&format!("{pool}.dataVolumeTemplates[*].spec")),
            ]
            .concat(),
        ),
        rule("kubevirt-virtualmachinesnapshots", SNAPSHOT, [source(MACHINE).when(".status.phase", &["InProgress"])]),
        rule(
            "kubevirt-virtualmachineclones",
            CLONE,
            [MACHINE, SNAPSHOT].map(|kind| {
                source(kind).when(".status.phase", &["SnapshotInProgress", "CreatingTargetVM", "RestoreInProgress"])
            }),
        ),
        rule(
            "kubevirt-virtualmachineexports",
            EXPORT,
            [source(MACHINE), source(SNAPSHOT), source(CLAIM), SECRET.at(".spec.tokenSecretRef")],
        ),
        rule(
            "kubevirt-kubevirts",
            KUBE_VIRT,
            [
                SECRET.at(".spec.imagePullSecrets[*].name"),
                RUNTIME_CLASS.at(".spec.configuration.defaultRuntimeClass"),
                STORAGE_CLASS.at(".spec.configuration.vmStateStorageClass"),
                // Without a namespace the definition is one of the machine's namespace.
                NETWORK
                    .at(".spec.configuration.network.binding[*].networkAttachmentDefinition")
                    .pattern("^[^/]+/([^/]+)$")
                    .namespace_pattern("^([^/]+)/"),
            ],
        ),
        rule(
            "kubevirt-datavolumes",
            DATA_VOLUME,
            [
                images(".spec"),
                sources(".spec"),
                vec![CONFIG_MAP.at(".spec.source.vddk.certConfigMap"), SERVICE_ACCOUNT.at(".spec.serviceAccountName")],
            ]
            .concat()
            .into_iter()
            .map(|dependency| dependency.when(".status.phase", IMPORTING)),
        ),
        rule(
            "kubevirt-dataimportcrons",
            DATA_IMPORT_CRON,
            [
                images(".spec.template.spec"),
                sources(".spec.template.spec"),
                vec![
                    CONFIG_MAP.at(".spec.template.spec.source.vddk.certConfigMap"),
                    SERVICE_ACCOUNT.at(".spec.template.spec.serviceAccountName"),
                    SERVICE_ACCOUNT.at(".spec.serviceAccountName"),
                ],
            ]
            .concat(),
        ),
        unmanaged(rule(
            "kubevirt-datasources",
            DATA_SOURCE,
            [
                referred(CLAIM, ".spec.source.pvc"),
                referred(VOLUME_SNAPSHOT, ".spec.source.snapshot"),
                referred(DATA_SOURCE, ".spec.source.dataSource"),
            ],
        )),
        rule(
            "kubevirt-volumeclonesources",
            VOLUME_CLONE_SOURCE,
            [source(CLAIM), source(VOLUME_SNAPSHOT), PRIORITY_CLASS.at(".spec.priorityClassName")],
        ),
        rule(
            "kubevirt-volumeimportsources",
            VOLUME_IMPORT_SOURCE,
            [images(".spec"), vec![CONFIG_MAP.at(".spec.source.vddk.certConfigMap")]].concat(),
        ),
        rule("kubevirt-storageprofiles", STORAGE_PROFILE, [VOLUME_SNAPSHOT_CLASS.at(".spec.snapshotClass")]),
        rule(
            "kubevirt-cdis",
            CDI,
            [STORAGE_CLASS.at(".spec.config.scratchSpaceStorageClass"), PRIORITY_CLASS.at(".spec.priorityClass")],
        ),
        rule("kubevirt-openstackvolumepopulators", OPENSTACK_POPULATOR, [SECRET.at(".spec.secretRef")]),
        rule("kubevirt-ovirtvolumepopulators", OVIRT_POPULATOR, [SECRET.at(".spec.secretRef")]),
    ]
}

/// Returns the references in the spec of an instance, but for DataVolumes.
fn machine(at: &str) -> Vec<Dependency> {
    let fields: [(Kind, &[&str]); 7] = [
        (
            CLAIM,
            &[
                "volumes[*].persistentVolumeClaim.claimName",
                "volumes[*].ephemeral.persistentVolumeClaim.claimName",
                "volumes[*].memoryDump.claimName",
                "utilityVolumes[*].claimName",
            ],
        ),
        (CONFIG_MAP, &["volumes[*].configMap.name", "volumes[*].sysprep.configMap.name"]),
        (
            SECRET,
            &[
                "volumes[*].secret.secretName",
                "volumes[*].sysprep.secret.name",
                "volumes[*].cloudInitNoCloud.secretRef.name",
                "volumes[*].cloudInitNoCloud.networkDataSecretRef.name",
                "volumes[*].cloudInitConfigDrive.secretRef.name",
                "volumes[*].cloudInitConfigDrive.networkDataSecretRef.name",
                "volumes[*].containerDisk.imagePullSecret",
                "domain.firmware.kernelBoot.container.imagePullSecret",
                "accessCredentials[*].sshPublicKey.source.secret.secretName",
                "accessCredentials[*].userPassword.source.secret.secretName",
            ],
        ),
        (SERVICE_ACCOUNT, &["volumes[*].serviceAccount.serviceAccountName", "serviceAccountName"]),
        (PRIORITY_CLASS, &["priorityClassName"]),
        (RESOURCE_CLAIM, &["resourceClaims[*].resourceClaimName"]),
        (RESOURCE_CLAIM_TEMPLATE, &["resourceClaims[*].resourceClaimTemplateName"]),
    ];
    let network =
        NETWORK.at(format!("{at}.networks[*].multus.networkName")).pattern("([^/]+)$").namespace_pattern("^([^/]+)/");
    let named = fields.into_iter().flat_map(|(kind, paths)| paths.iter().map(move |path| (kind, path)));
    named.map(|(kind, path)| kind.at(format!("{at}.{path}"))).chain([network]).collect()
}

/// Returns the references to DataVolumes in the spec of an instance: each has the name of its claim, and may be gone.
fn disks(at: &str) -> Vec<Dependency> {
    [DATA_VOLUME, CLAIM].map(|kind| kind.at(format!("{at}.volumes[*].dataVolume.name"))).into()
}

/// Returns the references to an instance type and a preference in the spec of a machine. Without a kind, the one of the
/// cluster is meant; KubeVirt reads the kind without regard to case, and as a plural, too.
fn types(at: &str) -> Vec<Dependency> {
    let cluster = |kind: Kind, field: &str, other: &str| {
        kind.at(format!("{at}.{field}.name")).kind_at(format!("{at}.{field}.kind")).kind_pattern(other)
    };
    let namespaced = |kind: Kind, field: &str, names: &[&str]| {
        kind.at(format!("{at}.{field}.name")).when(format!("{at}.{field}.kind"), names)
    };
    vec![
        cluster(CLUSTER_INSTANCETYPE, "instancetype", "(?i)^(virtualmachineinstancetypes?)$"),
        namespaced(
            INSTANCETYPE,
            "instancetype",
            &["VirtualMachineInstancetype", "virtualmachineinstancetype", "virtualmachineinstancetypes"],
        ),
        cluster(CLUSTER_PREFERENCE, "preference", "(?i)^(virtualmachinepreferences?)$"),
        namespaced(
            PREFERENCE,
            "preference",
            &["VirtualMachinePreference", "virtualmachinepreference", "virtualmachinepreferences"],
        ),
    ]
}

/// Returns the Secrets and ConfigMaps with which an import reads an image.
fn images(at: &str) -> Vec<Dependency> {
    let secret = |field: &str| SECRET.at(format!("{at}.source.{field}"));
    let certificates = |server: &str| CONFIG_MAP.at(format!("{at}.source.{server}.certConfigMap"));
    let mut dependencies: Vec<_> = [
        "http.secretRef",
        "http.secretExtraHeaders[*]",
        "s3.secretRef",
        "gcs.secretRef",
        "registry.secretRef",
        "imageio.secretRef",
        "vddk.secretRef",
    ]
    .map(secret)
    .into();
    dependencies.extend(["http", "s3", "registry", "imageio"].map(certificates));
    dependencies
}

/// Returns the objects in the cluster from which a DataVolume is made, and the priority of the work.
fn sources(at: &str) -> Vec<Dependency> {
    vec![
        referred(CLAIM, &format!("{at}.source.pvc")),
        referred(VOLUME_SNAPSHOT, &format!("{at}.source.snapshot")),
        referred(DATA_SOURCE, &format!("{at}.sourceRef")).kind_at(format!("{at}.sourceRef.kind")),
        PRIORITY_CLASS.at(format!("{at}.priorityClassName")),
    ]
}

/// Returns a reference by the name and kind in `.spec.source`.
fn source(kind: Kind) -> Dependency {
    kind.at(".spec.source.name").kind_at(".spec.source.kind")
}

/// Returns a reference by the name and namespace in the object at a path.
fn referred(target: Kind, at: &str) -> Dependency {
    target.at(format!("{at}.name")).namespace_at(format!("{at}.namespace"))
}

/// Returns the rule for the dependents that no DataImportCron manages.
fn unmanaged(rule: Value) -> Value {
    without_label(rule, "cdi.kubevirt.io/dataImportCron")
}

const fn made(resource: &'static str, path: &'static str) -> LeftOut {
    out(resource, path, "KubeVirt or CDI writes the name, of an object that it makes or uses at the time")
}

const fn claim(resource: &'static str, path: &'static str) -> LeftOut {
    out(resource, path, "the PersistentVolumeClaim that CDI makes has the reference")
}

const fn device(resource: &'static str, path: &'static str) -> LeftOut {
    out(resource, path, "names devices of nodes, and entries of the same object")
}

const fn backup(resource: &'static str, path: &'static str) -> LeftOut {
    out(resource, path, "a finished backup needs nothing, and no string says that it is finished")
}

const fn plugin(path: &'static str) -> LeftOut {
    out("plugins", path, "an object of the plugin itself")
}

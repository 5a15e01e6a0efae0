//! The conventions by which fields of Kubernetes kinds say that they refer, as tables. What is done with them:
//! `reference.rs` and `targets.rs`.

/// Last words of a field that say that it refers: `vpcRef`, `vpcReference`, `vpcRefs`.
pub(super) const REFERRING: &[&str] = &["ref", "refs", "reference", "references"];

/// Last words of a field that holds a name: `secretName`, `networkNames`.
pub(super) const NAMING: &[&str] = &["name", "names"];

/// Words between the kind and what says that it refers: `secretKeyRef`, `secretKeySelector`, `secretObjectRef`.
pub(super) const BETWEEN: &[&str] = &["key", "object", "resource"];

/// The field of a reference that holds the name.
pub(super) const NAME: &str = "name";
/// The field of a reference that holds the kind.
pub(super) const KIND: &str = "kind";
/// The field of a reference that holds the namespace.
pub(super) const NAMESPACE: &str = "namespace";
/// The fields of a reference that hold the group.
pub(super) const GROUPS: &[&str] = &["apiGroup", "group"];
/// The field of a reference that holds group and version.
pub(super) const API_VERSION: &str = "apiVersion";

/// What an object holds that is a reference and nothing else: ObjectReference, LocalObjectReference, SecretKeySelector,
/// TypedObjectReference and their like.
pub(super) const OF_A_REFERENCE: &[&str] = &[
    "name",
    "namespace",
    "kind",
    "group",
    "apiGroup",
    "apiVersion",
    "uid",
    "resourceVersion",
    "fieldPath",
    "key",
    "keys",
    "optional",
    "items",
    "defaultMode",
    "port",
    "sectionName",
    "path",
    "readOnly",
    "version",
];

/// First words of a field that names what a controller is to make, and so holds nothing: `writeConnectionSecretToRef`.
pub(super) const MADE: &[&str] = &["write", "output", "generate", "generated", "create", "created", "publish"];

/// Fields that hold no references, however they and what is in them are called.
pub(super) const NEVER: &[&str] = &["metadata", "labels", "annotations", "matchLabels", "matchExpressions"];

/// A kind that every cluster has.
pub(super) struct WellKnown {
    pub(super) group: &'static str,
    pub(super) version: &'static str,
    pub(super) kind: &'static str,
    pub(super) resource: &'static str,
    pub(super) namespaced: bool,
    /// Other words for it, in fields that say that they name or refer: `claimName`.
    pub(super) also: &'static [&'static str],
    pub(super) use_of_word: Use,
}

/// How the word is used in names of fields.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Use {
    /// For this kind: a field of that name refers to it.
    Own,
    /// For many things, as `node` and `role` are: only a field that says more refers to it.
    Common,
}

const fn known(
    group: &'static str,
    version: &'static str,
    kind: &'static str,
    resource: &'static str,
    namespaced: bool,
    also: &'static [&'static str],
    use_of_word: Use,
) -> WellKnown {
    WellKnown { group, version, kind, resource, namespaced, also, use_of_word }
}

/// The kinds that fields name. Namespaces are not among them: a field that names one says where, not what.
pub(super) const WELL_KNOWN: &[WellKnown] = &[
    known("", "v1", "Secret", "secrets", true, &[], Use::Own),
    known("", "v1", "ConfigMap", "configmaps", true, &[], Use::Own),
    known(
        "",
        "v1",
        "PersistentVolumeClaim",
        "persistentvolumeclaims",
        true,
        &["claim", "claims", "pvc", "pvcs"],
        Use::Own,
    ),
    known("", "v1", "ServiceAccount", "serviceaccounts", true, &[], Use::Own),
    known("", "v1", "PersistentVolume", "persistentvolumes", false, &["pv", "pvs"], Use::Own),
    known("", "v1", "Service", "services", true, &[], Use::Common),
    known("", "v1", "Pod", "pods", true, &[], Use::Common),
    known("", "v1", "Node", "nodes", false, &[], Use::Common),
    known("apps", "v1", "Deployment", "deployments", true, &[], Use::Common),
    known("apps", "v1", "StatefulSet", "statefulsets", true, &[], Use::Common),
    known("apps", "v1", "DaemonSet", "daemonsets", true, &[], Use::Common),
    known("batch", "v1", "Job", "jobs", true, &[], Use::Common),
    known("batch", "v1", "CronJob", "cronjobs", true, &[], Use::Common),
    known("networking.k8s.io", "v1", "Ingress", "ingresses", true, &[], Use::Common),
    known("networking.k8s.io", "v1", "IngressClass", "ingressclasses", false, &[], Use::Own),
    known("node.k8s.io", "v1", "RuntimeClass", "runtimeclasses", false, &[], Use::Own),
    known("rbac.authorization.k8s.io", "v1", "ClusterRole", "clusterroles", false, &[], Use::Own),
    known("rbac.authorization.k8s.io", "v1", "Role", "roles", true, &[], Use::Common),
    known("resource.k8s.io", "v1", "ResourceClaim", "resourceclaims", true, &[], Use::Own),
    known("scheduling.k8s.io", "v1", "PriorityClass", "priorityclasses", false, &[], Use::Own),
    known("storage.k8s.io", "v1", "StorageClass", "storageclasses", false, &[], Use::Own),
];

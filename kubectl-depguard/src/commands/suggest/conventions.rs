//! Naming conventions of fields that refer to objects in Kubernetes kinds, as tables. `reference.rs` and `targets.rs`
//! apply them.

/// Last words of the name of a referring field: `vpcRef`, `vpcReference`, `vpcRefs`.
pub(super) const REFERRING: &[&str] = &["ref", "refs", "reference", "references"];

/// Last words of the name of a field that holds a name: `secretName`, `networkNames`.
pub(super) const NAMING: &[&str] = &["name", "names"];

/// Words between the kind and the referring word: `secretKeyRef`, `secretKeySelector`, `secretObjectRef`.
pub(super) const BETWEEN: &[&str] = &["key", "object", "resource"];

/// Field of a reference that holds the name.
pub(super) const NAME: &str = "name";
/// Field of a reference that holds the kind.
pub(super) const KIND: &str = "kind";
/// Field of a reference that holds the namespace.
pub(super) const NAMESPACE: &str = "namespace";
/// Fields of a reference that hold the group.
pub(super) const GROUPS: &[&str] = &["apiGroup", "group"];
/// Field of a reference that holds group and version.
pub(super) const API_VERSION: &str = "apiVersion";

/// Fields of an object that is only a reference: ObjectReference, LocalObjectReference, SecretKeySelector,
/// TypedObjectReference and similar types.
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

/// First words of a field that names an object for a controller to make, and so protects nothing:
/// `writeConnectionSecretToRef`.
pub(super) const MADE: &[&str] = &["write", "output", "generate", "generated", "create", "created", "publish"];

/// Fields without references, whatever their own name and the names in them.
pub(super) const NEVER: &[&str] = &["metadata", "labels", "annotations", "matchLabels", "matchExpressions"];

/// Kind that every cluster has.
pub(super) struct WellKnown {
    pub(super) group: &'static str,
    pub(super) version: &'static str,
    pub(super) kind: &'static str,
    pub(super) resource: &'static str,
    pub(super) namespaced: bool,
    /// Other words for the kind, in fields that name or refer: `claimName`.
    pub(super) also: &'static [&'static str],
    pub(super) use_of_word: WordUse,
}

/// Use of the kind's word in names of fields.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum WordUse {
    /// The word means this kind: a field of that name refers to it.
    Own,
    /// The word means many things, as `node` and `role` do: only a more explicit field refers to the kind.
    Common,
}

const fn known(
    group: &'static str,
    version: &'static str,
    kind: &'static str,
    resource: &'static str,
    namespaced: bool,
    also: &'static [&'static str],
    use_of_word: WordUse,
) -> WellKnown {
    WellKnown { group, version, kind, resource, namespaced, also, use_of_word }
}

/// Kinds that fields name. Namespace is not in the list: a field that names a namespace names a place, not a target.
pub(super) const WELL_KNOWN: &[WellKnown] = &[
    known("", "v1", "Secret", "secrets", true, &[], WordUse::Own),
    known("", "v1", "ConfigMap", "configmaps", true, &[], WordUse::Own),
    known(
        "",
        "v1",
        "PersistentVolumeClaim",
        "persistentvolumeclaims",
        true,
        &["claim", "claims", "pvc", "pvcs"],
        WordUse::Own,
    ),
    known("", "v1", "ServiceAccount", "serviceaccounts", true, &[], WordUse::Own),
    known("", "v1", "PersistentVolume", "persistentvolumes", false, &["pv", "pvs"], WordUse::Own),
    known("", "v1", "Service", "services", true, &[], WordUse::Common),
    known("", "v1", "Pod", "pods", true, &[], WordUse::Common),
    known("", "v1", "Node", "nodes", false, &[], WordUse::Common),
    known("apps", "v1", "Deployment", "deployments", true, &[], WordUse::Common),
    known("apps", "v1", "StatefulSet", "statefulsets", true, &[], WordUse::Common),
    known("apps", "v1", "DaemonSet", "daemonsets", true, &[], WordUse::Common),
    known("batch", "v1", "Job", "jobs", true, &[], WordUse::Common),
    known("batch", "v1", "CronJob", "cronjobs", true, &[], WordUse::Common),
    known("networking.k8s.io", "v1", "Ingress", "ingresses", true, &[], WordUse::Common),
    known("networking.k8s.io", "v1", "IngressClass", "ingressclasses", false, &[], WordUse::Own),
    known("node.k8s.io", "v1", "RuntimeClass", "runtimeclasses", false, &[], WordUse::Own),
    known("rbac.authorization.k8s.io", "v1", "ClusterRole", "clusterroles", false, &[], WordUse::Own),
    known("rbac.authorization.k8s.io", "v1", "Role", "roles", true, &[], WordUse::Common),
    known("resource.k8s.io", "v1", "ResourceClaim", "resourceclaims", true, &[], WordUse::Own),
    known("scheduling.k8s.io", "v1", "PriorityClass", "priorityclasses", false, &[], WordUse::Own),
    known("storage.k8s.io", "v1", "StorageClass", "storageclasses", false, &[], WordUse::Own),
];

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

/// Words of a string that is no object's name, whatever its description says: `vpcLabel`.
pub(super) const OF_METADATA: &[&str] = &["label", "labels", "annotation", "annotations", "key", "keys"];

/// Fields without references, whatever their own name and the names in them.
pub(super) const NEVER: &[&str] = &["metadata", "labels", "annotations", "matchLabels", "matchExpressions"];

/// Words for a kind of Kubernetes.
pub(super) struct KindWords {
    pub(super) group: &'static str,
    pub(super) kind: &'static str,
    /// Other words for the kind, in fields that name or refer: `claimName`.
    pub(super) also: &'static [&'static str],
}

const fn words(group: &'static str, kind: &'static str, also: &'static [&'static str]) -> KindWords {
    KindWords { group, kind, also }
}

/// Kinds of Kubernetes whose word means no other thing: a field of that name refers to the kind. The words of all other
/// kinds of Kubernetes mean many things, as `node` and `role` do: only a more explicit field refers to these kinds.
pub(super) const TELLING: &[KindWords] = &[
    words("", "Secret", &[]),
    words("", "ConfigMap", &[]),
    words("", "PersistentVolumeClaim", &["claim", "claims", "pvc", "pvcs"]),
    words("", "ServiceAccount", &[]),
    words("", "PersistentVolume", &["pv", "pvs"]),
    words("networking.k8s.io", "IngressClass", &[]),
    words("node.k8s.io", "RuntimeClass", &[]),
    words("rbac.authorization.k8s.io", "ClusterRole", &[]),
    words("resource.k8s.io", "ResourceClaim", &[]),
    words("scheduling.k8s.io", "PriorityClass", &[]),
    words("storage.k8s.io", "StorageClass", &[]),
];

/// Kinds of Kubernetes that are no targets: a field that names a namespace names a place, an Event only reports, and
/// `endpoints` are addresses.
pub(super) const NO_TARGETS: &[&str] = &["Namespace", "Event", "Endpoints"];

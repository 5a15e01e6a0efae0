//! Kinds that a server has without a definition.

use crate::kinds::scale;
use crate::kinds::{Origin, Resource, plain};
use crate::options::Kind;

struct BuiltIn {
    group: &'static str,
    versions: &'static [&'static str],
    plural: &'static str,
    kind: &'static str,
    short: &'static [&'static str],
    namespaced: bool,
    status: bool,
    generation: bool,
    typed: bool,
    /// Set if objects of the kind are answered at once and never kept.
    answered: bool,
    /// Control plane that serves the kind; `None` if both do.
    only: Option<Kind>,
}

const NOTHING: BuiltIn = BuiltIn {
    group: "",
    versions: &["v1"],
    plural: "",
    kind: "",
    short: &[],
    namespaced: false,
    status: false,
    generation: false,
    typed: true,
    answered: false,
    only: None,
};

/// Namespaced kind of Kubernetes itself.
const CORE: BuiltIn = BuiltIn { namespaced: true, ..NOTHING };

const RBAC: BuiltIn = BuiltIn { group: "rbac.authorization.k8s.io", ..NOTHING };

/// Kind of a question about rights.
const QUESTION: BuiltIn = BuiltIn { group: "authorization.k8s.io", answered: true, ..NOTHING };

/// Kind of a workload in a cluster, which no kcp has.
const RUNNING: BuiltIn = BuiltIn { only: Some(Kind::Kubernetes), ..CORE };

/// Kind of kcp, which serves its own kinds as CRDs.
const KCP: BuiltIn = BuiltIn {
    group: "apis.kcp.io",
    versions: &["v1alpha2", "v1alpha1"],
    status: true,
    generation: true,
    typed: false,
    only: Some(Kind::Kcp),
    ..NOTHING
};

const KINDS: &[BuiltIn] = &[
    BuiltIn { plural: "namespaces", kind: "Namespace", short: &["ns"], status: true, namespaced: false, ..CORE },
    BuiltIn { plural: "configmaps", kind: "ConfigMap", short: &["cm"], ..CORE },
    BuiltIn { plural: "secrets", kind: "Secret", ..CORE },
    BuiltIn { plural: "serviceaccounts", kind: "ServiceAccount", short: &["sa"], ..CORE },
    BuiltIn { plural: "events", kind: "Event", short: &["ev"], ..CORE },
    BuiltIn { group: "events.k8s.io", plural: "events", kind: "Event", short: &["ev"], ..CORE },
    BuiltIn { group: "coordination.k8s.io", plural: "leases", kind: "Lease", ..CORE },
    BuiltIn {
        group: "admissionregistration.k8s.io",
        plural: "validatingwebhookconfigurations",
        kind: "ValidatingWebhookConfiguration",
        generation: true,
        ..NOTHING
    },
    BuiltIn { plural: "nodes", kind: "Node", short: &["no"], namespaced: false, ..RUNNING },
    BuiltIn { plural: "pods", kind: "Pod", short: &["po"], status: true, ..RUNNING },
    BuiltIn {
        plural: "persistentvolumeclaims",
        kind: "PersistentVolumeClaim",
        short: &["pvc"],
        status: true,
        ..RUNNING
    },
    BuiltIn { plural: "services", kind: "Service", short: &["svc"], status: true, ..RUNNING },
    BuiltIn {
        group: "apps",
        plural: "deployments",
        kind: "Deployment",
        short: &["deploy"],
        status: true,
        generation: true,
        ..RUNNING
    },
    BuiltIn {
        group: "policy",
        plural: "poddisruptionbudgets",
        kind: "PodDisruptionBudget",
        short: &["pdb"],
        status: true,
        generation: true,
        ..RUNNING
    },
    BuiltIn {
        group: "networking.k8s.io",
        plural: "networkpolicies",
        kind: "NetworkPolicy",
        short: &["netpol"],
        generation: true,
        ..RUNNING
    },
    BuiltIn { plural: "subjectaccessreviews", kind: "SubjectAccessReview", ..QUESTION },
    BuiltIn { plural: "selfsubjectaccessreviews", kind: "SelfSubjectAccessReview", ..QUESTION },
    BuiltIn { group: "authentication.k8s.io", plural: "selfsubjectreviews", kind: "SelfSubjectReview", ..QUESTION },
    BuiltIn { plural: "clusterroles", kind: "ClusterRole", ..RBAC },
    BuiltIn { plural: "clusterrolebindings", kind: "ClusterRoleBinding", ..RBAC },
    BuiltIn { plural: "roles", kind: "Role", namespaced: true, ..RBAC },
    BuiltIn { plural: "rolebindings", kind: "RoleBinding", namespaced: true, ..RBAC },
    BuiltIn {
        group: "apiextensions.k8s.io",
        plural: "customresourcedefinitions",
        kind: "CustomResourceDefinition",
        short: &["crd", "crds"],
        status: true,
        generation: true,
        ..NOTHING
    },
    BuiltIn { group: "core.kcp.io", versions: &["v1alpha1"], plural: "logicalclusters", kind: "LogicalCluster", ..KCP },
    BuiltIn {
        group: "tenancy.kcp.io",
        versions: &["v1alpha1"],
        plural: "workspaces",
        kind: "Workspace",
        short: &["ws"],
        ..KCP
    },
    BuiltIn { plural: "apiexports", kind: "APIExport", ..KCP },
    BuiltIn { plural: "apibindings", kind: "APIBinding", ..KCP },
    BuiltIn { versions: &["v1alpha1"], plural: "apiresourceschemas", kind: "APIResourceSchema", status: false, ..KCP },
    BuiltIn { versions: &["v1alpha1"], plural: "apiexportendpointslices", kind: "APIExportEndpointSlice", ..KCP },
];

/// Returns true if Kubernetes itself serves the group and version. Its errors for missing objects differ from those of
/// other groups.
pub(crate) fn is_compiled_in(group: &str, version: &str) -> bool {
    KINDS.iter().any(|built_in| built_in.typed && built_in.group == group && built_in.versions.contains(&version))
}

/// Returns every built-in resource, once for each version.
pub(crate) fn resources(kind: Kind) -> Vec<Resource> {
    KINDS
        .iter()
        .filter(|built_in| built_in.only.is_none_or(|only| only == kind))
        .flat_map(|built_in| {
            built_in.versions.iter().map(|version| Resource {
                short_names: built_in.short.iter().map(|&short| short.to_owned()).collect(),
                namespaced: built_in.namespaced,
                status: built_in.status,
                scale: (built_in.plural == "deployments").then(scale::Paths::of_replicas),
                generation: built_in.generation,
                answered: built_in.answered,
                origin: if built_in.typed { Origin::BuiltIn } else { Origin::Local },
                ..plain(built_in.group, built_in.versions, version, built_in.plural, built_in.kind)
            })
        })
        .collect()
}

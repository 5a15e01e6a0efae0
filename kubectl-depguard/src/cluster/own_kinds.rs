//! Scopes of the kinds of kube-apiserver and of depguard.

use depguard_core::api;

/// Groups that kube-apiserver itself serves. Other groups below `k8s.io`, such as Gateway API's, come from definitions.
const OWN_GROUPS: [&str; 18] = [
    "admissionregistration.k8s.io",
    "apiextensions.k8s.io",
    "apiregistration.k8s.io",
    "authentication.k8s.io",
    "authorization.k8s.io",
    "certificates.k8s.io",
    "coordination.k8s.io",
    "discovery.k8s.io",
    "events.k8s.io",
    "flowcontrol.apiserver.k8s.io",
    "internal.apiserver.k8s.io",
    "networking.k8s.io",
    "node.k8s.io",
    "rbac.authorization.k8s.io",
    "resource.k8s.io",
    "scheduling.k8s.io",
    "storage.k8s.io",
    "storagemigration.k8s.io",
];
/// Cluster-scoped kinds of these groups; their other kinds are namespaced.
const CLUSTER_SCOPED: [&str; 32] = [
    "APIService",
    "CSIDriver",
    "CSINode",
    "CertificateSigningRequest",
    "ClusterRole",
    "ClusterRoleBinding",
    "ClusterTrustBundle",
    "ComponentStatus",
    "CustomResourceDefinition",
    "DeviceClass",
    "DeviceTaintRule",
    "FlowSchema",
    "IPAddress",
    "IngressClass",
    "MutatingAdmissionPolicy",
    "MutatingAdmissionPolicyBinding",
    "MutatingWebhookConfiguration",
    "Namespace",
    "Node",
    "PersistentVolume",
    "PriorityClass",
    "PriorityLevelConfiguration",
    "ResourceSlice",
    "RuntimeClass",
    "ServiceCIDR",
    "StorageClass",
    "StorageVersion",
    "ValidatingAdmissionPolicy",
    "ValidatingAdmissionPolicyBinding",
    "ValidatingWebhookConfiguration",
    "VolumeAttachment",
    "VolumeAttributesClass",
];

/// Returns the scope of a kind of Kubernetes or of depguard: true if it is namespaced; `None` if the scope is unknown.
pub(crate) fn scope_of(group: &str, kind: &str) -> Option<bool> {
    match (group, kind) {
        (api::GROUP, "ObjectLock") => Some(true),
        (api::GROUP, _) => Some(false),
        _ => {
            let is_own = !group.contains('.') || OWN_GROUPS.contains(&group);
            is_own.then(|| !CLUSTER_SCOPED.contains(&kind))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_kube_apiservers_own_groups_are_known_and_below_k8s_io_are_others() {
        for (group, kind, namespaced) in [
            ("", "Secret", Some(true)),
            ("", "Node", Some(false)),
            ("apps", "Deployment", Some(true)),
            ("networking.k8s.io", "Ingress", Some(true)),
            ("networking.k8s.io", "ServiceCIDR", Some(false)),
            ("storage.k8s.io", "VolumeAttributesClass", Some(false)),
            ("gateway.networking.k8s.io", "GatewayClass", None),
            ("snapshot.storage.k8s.io", "VolumeSnapshotClass", None),
            ("policy.networking.k8s.io", "AdminNetworkPolicy", None),
            ("network.example.com", "VPC", None),
            (api::GROUP, "ObjectLock", Some(true)),
            (api::GROUP, "ClusterObjectLock", Some(false)),
        ] {
            assert_eq!(scope_of(group, kind), namespaced, "{group} {kind}");
        }
    }
}

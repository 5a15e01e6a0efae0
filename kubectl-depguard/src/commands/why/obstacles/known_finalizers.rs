//! Well-known finalizers: who removes each, and when.

/// Finalizer whose controller is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct KnownFinalizer {
    /// Controller that removes the finalizer.
    pub(super) remover: &'static str,
    /// State for which the controller waits: the end of the sentence "removes it once …".
    pub(super) condition: &'static str,
    /// Next step of the user.
    pub(super) next_step: &'static str,
}

const fn known(remover: &'static str, condition: &'static str, next_step: &'static str) -> KnownFinalizer {
    KnownFinalizer { remover, condition, next_step }
}

const LOG: &str = "check that this controller runs, and read its log for this object";

/// Finalizers by their whole names.
const BY_NAME: [(&str, KnownFinalizer); 33] = [
    (
        "kubernetes",
        known(
            "kube-controller-manager (namespace controller)",
            "everything in the namespace is gone",
            "remove what remains; don't remove this finalizer, or the remaining objects stay in the store unseen",
        ),
    ),
    (
        "foregroundDeletion",
        known(
            "kube-controller-manager (garbage collector)",
            "all objects that it owns with `blockOwnerDeletion` are gone",
            "look at the owned objects: their finalizers or rules hold them",
        ),
    ),
    (
        "orphan",
        known(
            "kube-controller-manager (garbage collector)",
            "no object names it as an owner any more",
            "check that kube-controller-manager runs",
        ),
    ),
    (
        "kubernetes.io/pvc-protection",
        known(
            "kube-controller-manager (PVC protection controller)",
            "no Pod uses the claim",
            "delete the Pods that use the claim, or the workloads that create them",
        ),
    ),
    (
        "kubernetes.io/pv-protection",
        known(
            "kube-controller-manager (PV protection controller)",
            "the volume is no longer bound to a claim",
            "delete the PersistentVolumeClaim in its spec.claimRef",
        ),
    ),
    (
        "kubernetes.io/pv-controller",
        known(
            "kube-controller-manager (volume controller)",
            "the storage behind the volume is deleted",
            "look at the volume's events: `kubectl describe pv`",
        ),
    ),
    (
        "external-provisioner.volume.kubernetes.io/finalizer",
        known(
            "the external-provisioner of the volume's CSI driver",
            "the storage behind the volume is deleted",
            "check that the driver's controller Pod runs, and look at the volume's events: `kubectl describe pv`",
        ),
    ),
    (
        "kubernetes.io/vac-protection",
        known(
            "kube-controller-manager (VolumeAttributesClass protection controller)",
            "no claim and no volume uses the class",
            "change the claims that name the class",
        ),
    ),
    (
        "service.kubernetes.io/load-balancer-cleanup",
        known(
            "the cloud-controller-manager (service controller)",
            "the load balancer at the cloud provider is deleted",
            "check that it runs and has the provider's credentials; look at the Service's events",
        ),
    ),
    (
        "customresourcecleanup.apiextensions.k8s.io",
        known(
            "kube-apiserver (CRD finalizer)",
            "all objects of the kind are gone",
            "list the objects of the kind in all namespaces, and look at what holds them",
        ),
    ),
    (
        "batch.kubernetes.io/job-tracking",
        known(
            "kube-controller-manager (job controller)",
            "the Pod is counted in its Job's status",
            "check that kube-controller-manager runs; if the Job is gone, the finalizer can be removed",
        ),
    ),
    (
        "resource.kubernetes.io/delete-protection",
        known(
            "kube-controller-manager (resource claim controller)",
            "no Pod uses the ResourceClaim",
            "delete the Pods in its status.reservedFor",
        ),
    ),
    (
        "networking.k8s.io/service-cidr-finalizer",
        known(
            "kube-controller-manager (service CIDR controller)",
            "no Service has an address of the range",
            "move or delete the Services with these addresses",
        ),
    ),
    (
        "snapshot.storage.kubernetes.io/volumesnapshot-bound-protection",
        known(
            "the snapshot-controller",
            "its VolumeSnapshotContent is deleted",
            "look at the VolumeSnapshotContent: its driver deletes the snapshot first",
        ),
    ),
    (
        "snapshot.storage.kubernetes.io/volumesnapshot-as-source-protection",
        known(
            "the snapshot-controller",
            "no claim is being restored from the snapshot",
            "wait for the PersistentVolumeClaims that name it as their data source, or delete them",
        ),
    ),
    (
        "snapshot.storage.kubernetes.io/volumesnapshotcontent-bound-protection",
        known(
            "the csi-snapshotter of the snapshot's driver",
            "no VolumeSnapshot is bound to it, and the snapshot is deleted",
            "delete the VolumeSnapshot in its spec.volumeSnapshotRef; check that the driver runs",
        ),
    ),
    (
        "snapshot.storage.kubernetes.io/pvc-as-source-protection",
        known(
            "the snapshot-controller",
            "no snapshot is being taken of the claim",
            "wait for the VolumeSnapshots of the claim, or delete those that are not ready",
        ),
    ),
    ("finalizer.acme.cert-manager.io", known("cert-manager", "the challenge is cleaned up", LOG)),
    ("acme.cert-manager.io/finalizer", known("cert-manager", "the challenge is cleaned up", LOG)),
    (
        "finalizer.managedresource.crossplane.io",
        known(
            "the Crossplane provider of the kind",
            "the external resource is deleted",
            "read the object's condition Synced, and check that the provider's Pod runs and its ProviderConfig exists",
        ),
    ),
    (
        "in-use.crossplane.io",
        known(
            "Crossplane",
            "no object uses it any more",
            "delete what uses it: managed resources of a ProviderConfig, or the Usage of a resource",
        ),
    ),
    (
        "composite.apiextensions.crossplane.io",
        known("Crossplane", "the composed resources are deleted", "look at the resources in its spec.resourceRefs"),
    ),
    (
        "finalizer.apiextensions.crossplane.io",
        known("Crossplane", "its composite resource is deleted", "look at the object in its spec.resourceRef"),
    ),
    (
        "defined.apiextensions.crossplane.io",
        known("Crossplane", "all composite resources of the kind are gone", "delete them, and look at what holds them"),
    ),
    (
        "offered.apiextensions.crossplane.io",
        known("Crossplane", "all claims of the kind are gone", "delete them, and look at what holds them"),
    ),
    (
        "finalizers.fluxcd.io",
        known(
            "the Flux controller of the kind",
            "what it applied is pruned or released",
            "check that the controller runs and `spec.suspend` is not set; a suspended object is released without a prune",
        ),
    ),
    (
        "resources-finalizer.argocd.argoproj.io",
        known(
            "the Argo CD application controller",
            "the resources of the Application are deleted",
            "look at the resources that remain in its status; `argocd app get` shows them",
        ),
    ),
    (
        "post-delete-finalizer.argocd.argoproj.io",
        known(
            "the Argo CD application controller",
            "the PostDelete hooks have run",
            "look at the hooks' Jobs in the Application's namespace",
        ),
    ),
    (
        "argocd.argoproj.io/hook-finalizer",
        known("the Argo CD application controller", "its sync operation has ended", LOG),
    ),
    (
        "core.kcp.io/logicalcluster",
        known(
            "kcp (workspace controller)",
            "the workspace's logical cluster is gone",
            "look at the workspace's conditions, and at the objects that remain in the workspace",
        ),
    ),
    (
        "core.kcp.io/logicalcluster-deletion",
        known(
            "kcp (logical cluster deletion controller)",
            "everything in the workspace is gone",
            "look at the condition WorkspaceContentDeleted, and at the objects that remain",
        ),
    ),
    (
        "apis.kcp.io/apibinding-finalizer",
        known(
            "kcp (APIBinding deletion controller)",
            "all objects of the bound kinds are gone",
            "look at the condition BindingResourceDeleteSuccess, and at the objects that remain",
        ),
    ),
    (
        "dependencies.opendefense.cloud/teardown",
        known(
            "depguard-controller",
            "the objects of this owner are gone",
            "read `status.stuck`, and check that the controller runs: `kubectl depguard status`",
        ),
    ),
];

/// Controllers of finalizers by the domains of their names. A domain includes its subdomains.
const BY_DOMAIN: [(&str, &str); 24] = [
    ("cert-manager.io", "cert-manager"),
    ("crossplane.io", "Crossplane or one of its providers"),
    ("cluster.x-k8s.io", "Cluster API or one of its providers"),
    ("fluxcd.io", "Flux"),
    ("argoproj.io", "Argo"),
    ("external-attacher", "the external-attacher of a CSI driver"),
    ("external-secrets.io", "External Secrets Operator"),
    ("metacontroller.io", "Metacontroller"),
    ("rook.io", "Rook"),
    ("velero.io", "Velero"),
    ("karpenter.sh", "Karpenter"),
    ("k8s.aws", "the AWS Load Balancer Controller or another AWS controller"),
    ("networking.gke.io", "the GKE ingress controller"),
    ("cattle.io", "Rancher"),
    ("kubevirt.io", "KubeVirt"),
    ("longhorn.io", "Longhorn"),
    ("strimzi.io", "Strimzi"),
    ("knative.dev", "Knative"),
    ("tekton.dev", "Tekton"),
    ("gardener.cloud", "Gardener"),
    ("gatekeeper.sh", "Gatekeeper"),
    ("kyverno.io", "Kyverno"),
    ("istio.io", "Istio"),
    ("kcp.io", "kcp or one of its sync agents"),
];

/// Returns the finalizer of this name.
pub(super) fn find(finalizer: &str) -> Option<KnownFinalizer> {
    // Argo CD writes the cascade behind the name: `resources-finalizer.argocd.argoproj.io/background`.
    let whole = |name: &str| finalizer == name || finalizer.strip_prefix(name).is_some_and(|rest| is_argo(name, rest));
    let by_name = BY_NAME.iter().find(|(name, _)| whole(name)).map(|(_, known)| *known);
    by_name.or_else(|| {
        let domain = domain(finalizer);
        let within =
            |outer: &str| domain.strip_suffix(outer).is_some_and(|rest| rest.is_empty() || rest.ends_with('.'));
        let (_, remover) = BY_DOMAIN.iter().find(|(outer, _)| within(outer))?;
        Some(known(remover, "its work for the object is done", LOG))
    })
}

/// Returns the domain of a finalizer: the part before the slash.
pub(super) fn domain(finalizer: &str) -> &str {
    finalizer.split('/').next().unwrap_or(finalizer)
}

fn is_argo(name: &str, rest: &str) -> bool {
    name.ends_with(".argocd.argoproj.io") && rest.starts_with('/')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_finalizer_is_known_by_its_name_or_its_domain() {
        for (finalizer, remover) in [
            ("kubernetes.io/pvc-protection", Some("kube-controller-manager (PVC protection controller)")),
            ("resources-finalizer.argocd.argoproj.io/background", Some("the Argo CD application controller")),
            ("machine.cluster.x-k8s.io", Some("Cluster API or one of its providers")),
            ("awsmachine.infrastructure.cluster.x-k8s.io", Some("Cluster API or one of its providers")),
            ("external-attacher/ebs-csi-aws-com", Some("the external-attacher of a CSI driver")),
            ("kubernetes.io/pvc-protection/more", None),
            ("notcluster.x-k8s.io", None),
            ("evilfluxcd.io", None),
            ("example.com/disk", None),
            ("kubernetes.io/unheard-of", None),
        ] {
            assert_eq!(find(finalizer).map(|known| known.remover), remover, "{finalizer}");
        }
    }

    #[test]
    fn each_name_stands_once() {
        for (index, (name, _)) in BY_NAME.iter().enumerate() {
            assert!(BY_NAME.iter().skip(index + 1).all(|(other, _)| other != name), "{name}");
        }
    }
}

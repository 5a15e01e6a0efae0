//! Rules about openMCP: the references among the kinds of `clusters.openmcp.cloud`, and the Secrets of HelmDeployments.

use depguard_core::ControlPlane;
use serde_json::Value;

use super::notation::{Dependency, Kind, SECRET, out, rule};
use super::{LeftOut, RulePack};

const GROUP: &str = "clusters.openmcp.cloud";
const CLUSTER_PROFILE: Kind = Kind::new(GROUP, "v1alpha1", "ClusterProfile", "clusterprofiles");
const CLUSTER: Kind = Kind::new(GROUP, "v1alpha1", "Cluster", "clusters");
const CLUSTER_REQUEST: Kind = Kind::new(GROUP, "v1alpha1", "ClusterRequest", "clusterrequests");
const ACCESS_REQUEST: Kind = Kind::new(GROUP, "v1alpha1", "AccessRequest", "accessrequests");
const HELM_DEPLOYMENT: Kind = Kind::new("helm.open-control-plane.io", "v1alpha1", "HelmDeployment", "helmdeployments");

pub(super) const PACK: RulePack = RulePack {
    name: "openmcp",
    control_plane: ControlPlane::Kubernetes,
    protects: "keeps a ClusterProfile that Clusters have, a Cluster that AccessRequests or ClusterRequests speak of, a \
               ClusterRequest that AccessRequests speak of, and the Secrets that HelmDeployments copy",
    notes: &[
        "Apply the rules in an openMCP platform cluster.",
        "openMCP's scheduler deletes a Cluster once, while the last ClusterRequest for it is still being deleted, and \
         does not come back to it. Let it override, or such a Cluster stays behind: name its ServiceAccount in \
         --override-users, and give the Clusters of its templates the annotation \
         dependencies.opendefense.cloud/skip-protection: \"true\".",
    ],
    held_against: "the CustomResourceDefinitions of openmcp-operator, commit a131d2f (2026-08-20); those of \
                   HelmDeployments and ControlPlanes by hand, and no test holds them against definitions",
    rules,
    left_out: &[
        out("accessrequests", ".status.secretRef.name", "openMCP writes the Secret"),
        granted("accessrequests", ".spec.oidc.roleBindings[*]"),
        granted("accessrequests", ".spec.oidc.roles[*].name"),
        granted("accessrequests", ".spec.token.roleRefs[*].name"),
        granted("accessrequests", ".spec.token.permissions[*].name"),
        granted("controlplanes", ".spec.iam.oidc.defaultProvider.roleBindings[*]"),
        granted("controlplanes", ".spec.iam.oidc.extraProviders[*].roleBindings[*]"),
        granted("controlplanes", ".spec.iam.tokens[*].roleRefs[*].name"),
        granted("controlplanes", ".spec.iam.tokens[*].permissions[*].name"),
        out("controlplanes", ".status.access[*].name", "openMCP writes the Secret"),
        by_provider("clusters", ".spec.clusterConfigs[*].name"),
        by_provider("clusterprofiles", ".spec.providerConfigRef.name"),
        out(
            "clusterprofiles",
            ".spec.providerRef.name",
            "each ClusterProvider makes its own ClusterProfiles, and some never delete them",
        ),
        flux("helmdeployments", ".spec.chartSource.git"),
        flux("helmdeployments", ".spec.chartSource.helm"),
        flux("helmdeployments", ".spec.chartSource.oci"),
        out("helmdeployments", ".spec.secretsToCopy.toPlatformCluster[*].target.name", "openMCP writes the Secret"),
        out(
            "helmdeployments",
            ".spec.secretsToCopy.toTargetCluster[*].target.name",
            "openMCP writes the Secret, in another cluster",
        ),
        out(
            "helmdeployments",
            ".spec.selector",
            "selects Clusters, and may select none; openMCP's finalizer on each Cluster keeps the order",
        ),
        out("helmdeployments", ".spec.namespace", "namespace in another cluster"),
        out(
            "helmdeployerconfigs",
            ".spec.selectorDefinitions",
            "selects Clusters; no field says in which namespace the Secrets are",
        ),
        deployed("clusterproviders", ".spec.imagePullSecrets[*].name"),
        deployed("clusterproviders", ".spec.extraVolumes[*]"),
        deployed("clusterproviders", ".spec.env[*]"),
        deployed("platformservices", ".spec.imagePullSecrets[*].name"),
        deployed("platformservices", ".spec.extraVolumes[*]"),
        deployed("platformservices", ".spec.env[*]"),
        deployed("serviceproviders", ".spec.imagePullSecrets[*].name"),
        deployed("serviceproviders", ".spec.extraVolumes[*]"),
        deployed("serviceproviders", ".spec.env[*]"),
        out("clusterproviders", ".status.metrics.serviceRef", "openMCP makes the Service"),
        out("platformservices", ".status.metrics.serviceRef", "openMCP makes the Service"),
        out("serviceproviders", ".status.metrics.serviceRef", "openMCP makes the Service"),
    ],
};

fn rules() -> Vec<Value> {
    vec![
        rule("openmcp-clusters", CLUSTER, [CLUSTER_PROFILE.at(".spec.profile")]),
        rule(
            "openmcp-accessrequests",
            ACCESS_REQUEST,
            [referred(CLUSTER, ".spec.clusterRef"), referred(CLUSTER_REQUEST, ".spec.requestRef")],
        ),
        rule("openmcp-clusterrequests", CLUSTER_REQUEST, [referred(CLUSTER, ".status.cluster")]),
        rule(
            "openmcp-helmdeployments",
            HELM_DEPLOYMENT,
            [
                SECRET.at(".spec.secretsToCopy.toPlatformCluster[*].source.name"),
                SECRET.at(".spec.secretsToCopy.toTargetCluster[*].source.name"),
            ],
        ),
    ]
}

/// Returns a reference by the name and namespace in the object at a path.
fn referred(target: Kind, at: &str) -> Dependency {
    target.at(format!("{at}.name")).namespace_at(format!("{at}.namespace"))
}

const fn granted(resource: &'static str, path: &'static str) -> LeftOut {
    out(resource, path, "names roles and users of another cluster")
}

const fn by_provider(resource: &'static str, path: &'static str) -> LeftOut {
    out(resource, path, "each ClusterProvider has its own kind of configuration")
}

const fn flux(resource: &'static str, path: &'static str) -> LeftOut {
    out(resource, path, "the source of Flux beside each Cluster has the reference: see the pack flux")
}

const fn deployed(resource: &'static str, path: &'static str) -> LeftOut {
    out(resource, path, "the Deployment that openMCP makes has the reference: see kubernetes-workloads")
}

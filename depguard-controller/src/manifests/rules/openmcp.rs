//! Rules about openMCP's clusters: who refers to whom in `clusters.openmcp.cloud`.

use serde_json::{Value, json};

use super::rule;
use crate::manifests::with;

/// What to know before they are applied.
pub(super) const PLACE: &str = "\
    Apply in an openMCP platform cluster: keeps a ClusterProfile that Clusters have, a Cluster that AccessRequests or\n\
    # ClusterRequests speak of, and a ClusterRequest that AccessRequests speak of.\n\
    # openMCP's scheduler deletes a Cluster once, while the last ClusterRequest for it is still being deleted, and does not\n\
    # come back to it. Let it override, or such a Cluster stays behind: name its ServiceAccount in --override-users, and\n\
    # give the Clusters of its templates the annotation dependencies.opendefense.cloud/skip-protection: \"true\".\n\
    # The ClusterRole lets the webhook list those who refer; what they refer to, it never reads.";

/// Rules about the kinds of openMCP's clusters, for a platform cluster.
pub fn openmcp_rules() -> Vec<Value> {
    let referred = |kind: &str, resource: &str, reference: &str| {
        let field = json!({"path": format!("{reference}.name"), "namespacePath": format!("{reference}.namespace")});
        with(kind_of(kind, resource), "fieldRef", field)
    };
    let profile = with(kind_of("ClusterProfile", "clusterprofiles"), "fieldRef", json!({"path": ".spec.profile"}));
    let cluster = |reference: &str| referred("Cluster", "clusters", reference);
    let request = referred("ClusterRequest", "clusterrequests", ".spec.requestRef");
    vec![
        rule("openmcp-clusters", &kind_of("Cluster", "clusters"), &[profile]),
        rule(
            "openmcp-accessrequests",
            &kind_of("AccessRequest", "accessrequests"),
            &[cluster(".spec.clusterRef"), request],
        ),
        rule("openmcp-clusterrequests", &kind_of("ClusterRequest", "clusterrequests"), &[cluster(".status.cluster")]),
    ]
}

fn kind_of(kind: &str, resource: &str) -> Value {
    json!({"group": "clusters.openmcp.cloud", "version": "v1alpha1", "kind": kind, "resource": resource})
}

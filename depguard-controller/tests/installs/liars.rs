//! Workspaces that falsely claim another workspace's path, and the configurations that result.

use depguard_controller::manifests;
use depguard_testbed::{Fault, When};
use serde_json::json;

use crate::bed::{Bed, COMPUTE, NETWORK, until, until_ready};

const LIAR: &str = "root:liar";

impl Bed {
    /// Binds depguard in a workspace that claims the path of `network`.
    async fn lie(&self) {
        self.workspace("liar").await;
        let itself = "/apis/core.kcp.io/v1alpha1/logicalclusters/cluster";
        self.edit(LIAR, itself, |found| found["metadata"]["annotations"]["kcp.io/path"] = json!(NETWORK)).await;
        self.bind(LIAR, &manifests::provider_binding("root:dep-ctrl")).await;
    }

    async fn until_not_installed(&self, workspace: &str) {
        until("the configuration is gone", async || {
            self.configuration(workspace).await.map_or(Ok(()), |_| Err("there".into()))
        })
        .await;
    }
}

#[tokio::test]
async fn a_liar_alone_gets_nothing_and_is_named() {
    let bed = Bed::kcp().await;
    bed.lie().await;
    bed.rule("vm", &["vpcs"]).await;
    let controller = bed.controller().await;
    let said = bed.until_condition(COMPUTE, "vm", "ResolvedRefs", "False NotBound").await;
    assert!(said.contains(" falsely claims this path"), "{said}");
    bed.until_condition(COMPUTE, "vm", "Programmed", "False Pending").await;
    assert_eq!(bed.configuration(LIAR).await, None);

    bed.bind(NETWORK, &manifests::provider_binding("root:dep-ctrl")).await;
    bed.until_installed(NETWORK, &["vpcs"]).await;
    bed.until_condition(COMPUTE, "vm", "Programmed", "True Programmed").await;
    assert_eq!(bed.configuration(LIAR).await, None);
    controller.stop().await;
}

#[tokio::test]
async fn where_nobody_may_look_all_that_claim_the_path_are_installed_and_the_truth_for_certain() {
    let bed = Bed::kcp_bound().await;
    bed.lie().await;
    bed.rule("vm", &["vpcs"]).await;
    for path in ["/workspaces/network", "/logicalclusters/cluster"] {
        bed.testbed.faults().inject(Fault::Forbidden, When::always().path(path));
    }
    let controller = bed.controller().await;
    until_ready(&controller).await;
    bed.until_installed(NETWORK, &["vpcs"]).await;
    bed.until_installed(LIAR, &["vpcs"]).await;
    bed.until_condition(COMPUTE, "vm", "ResolvedRefs", "False WorkspaceAmbiguous").await;
    controller.stop().await;

    bed.testbed.faults().clear_all();
    let controller = bed.controller().await;
    bed.until_not_installed(LIAR).await;
    assert_eq!(bed.installed(NETWORK).await, ["vpcs"]);
    controller.stop().await;
}

//! Test of a provider's rules and webhook without a cluster: a template for other providers.

mod cluster;
mod product;

use depguard_testbed::{Fault, When};
use serde_json::json;

use crate::cluster::{Cluster, Result, SUBNETS, VPCS, delete, eventually, populate, vpc};

/// Account of the webhook. Its role lets it read the kinds that its rule names.
const READER: &str = "system:serviceaccount:network:webhook";

async fn grant(cluster: &Cluster) -> Result<()> {
    const RBAC: &str = "/apis/rbac.authorization.k8s.io/v1";
    let rules = json!([{"apiGroups": ["network.example.com"], "resources": ["subnets"], "verbs": ["list"]}]);
    let role = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": "network-webhook"},
        "rules": rules,
    });
    let binding = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding", "metadata": {"name": "network-webhook"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "network-webhook"},
        "subjects": [{"kind": "ServiceAccount", "namespace": "network", "name": "webhook"}],
    });
    cluster.tenants[0].post_json(&format!("{RBAC}/clusterroles"), &role).await?;
    cluster.tenants[0].post_json(&format!("{RBAC}/clusterrolebindings"), &binding).await?;
    Ok(())
}

#[tokio::test]
async fn a_vpc_goes_after_its_subnets() -> Result<()> {
    let cluster = Cluster::kubernetes(READER, |_| ()).await?;
    grant(&cluster).await?;
    let tenant = &cluster.tenants[0];
    populate(tenant).await?;
    let refused = delete(tenant, VPCS, "a").await.unwrap_err();
    assert!(refused.contains("cannot delete vpcs/a: still referenced by Subnet/s"), "{refused}");
    delete(tenant, SUBNETS, "s").await?;
    delete(tenant, VPCS, "a").await?;
    cluster.stop().await;
    Ok(())
}

#[tokio::test]
async fn a_vpc_has_private_addresses() -> Result<()> {
    let cluster = Cluster::kubernetes(READER, |_| ()).await?;
    let tenant = &cluster.tenants[0];
    let refused = tenant.post_json(VPCS, &vpc("a", "8.8.8.0/24")).await.unwrap_err().to_string();
    assert!(refused.contains("spec.cidr is not below 10.0.0.0/8"), "{refused}");
    tenant.post_json(VPCS, &vpc("a", "10.1.0.0/16")).await?;
    cluster.stop().await;
    Ok(())
}

#[tokio::test]
async fn what_cannot_be_found_out_is_refused() -> Result<()> {
    let cluster = Cluster::kubernetes(READER, |_| ()).await?;
    let tenant = &cluster.tenants[0];
    tenant.post_json(VPCS, &vpc("a", "10.0.0.0/16")).await?;
    let refused = delete(tenant, VPCS, "a").await.unwrap_err();
    assert!(refused.contains("cannot list resource \"subnets\""), "nothing was granted yet: {refused}");
    grant(&cluster).await?;
    let faults = cluster.testbed.faults();
    let broken = faults.inject(Fault::InternalError, When::always().method("GET").path("/subnets"));
    let refused = delete(tenant, VPCS, "a").await.unwrap_err();
    assert!(refused.contains("HTTP 500"), "{refused}");
    assert!(faults.hits(broken).is_some_and(|hits| hits > 0));
    faults.clear_all();
    delete(tenant, VPCS, "a").await?;
    cluster.stop().await;
    Ok(())
}

#[tokio::test]
async fn a_rule_that_only_audits_refuses_nothing() -> Result<()> {
    let cluster =
        Cluster::kubernetes(READER, |rule| rule["spec"]["dependencies"][0]["onDelete"] = json!("Audit")).await?;
    grant(&cluster).await?;
    let tenant = &cluster.tenants[0];
    populate(tenant).await?;
    delete(tenant, VPCS, "a").await?;
    let audits = cluster.testbed.audits();
    let noted = &audits[0].annotations["references.network.example.com/still-referenced-by"];
    assert_eq!((audits[0].name.as_str(), noted.as_str()), ("a", "Subnet/s"));
    cluster.stop().await;
    Ok(())
}

#[tokio::test]
async fn each_tenant_is_guarded_on_whichever_shard_he_is() -> Result<()> {
    let cluster = Cluster::shards().await?;
    let [one, two] = &cluster.tenants[..] else { panic!("two tenants") };
    for tenant in [one, two] {
        populate(tenant).await?;
        // Until the export's endpoint slice lists the tenant's shard, the referrers there are unknown.
        let refused = eventually("the shard is listed", async || {
            Some(delete(tenant, VPCS, "a").await.unwrap_err()).filter(|refused| refused.contains("still referenced"))
        });
        let refused = refused.await;
        assert!(refused.contains("still referenced by Subnet/s"), "{refused}");
        delete(tenant, SUBNETS, "s").await?;
    }

    assert!(cluster.testbed.take_down_shard("two").await);
    delete(one, VPCS, "a").await?;
    let refused = delete(two, VPCS, "a").await.unwrap_err();
    assert!(!refused.contains("still referenced"), "nobody can know: {refused}");
    assert!(cluster.testbed.bring_up_shard("two").await);
    eventually("the shard answers again", async || delete(two, VPCS, "a").await.ok()).await;
    cluster.stop().await;
    Ok(())
}

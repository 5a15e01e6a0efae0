use depguard_core::ControlPlane;
use depguard_core::api::FailurePolicy;
use depguard_core::rule::RuleKey;
use depguard_kcp::{ConnectOptions, Connection};
use serde_json::json;

use super::*;

/// Returns an endpoint at which no API server listens.
async fn nowhere() -> Endpoint {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("kubeconfig");
    let kubeconfig = json!({
        "apiVersion": "v1", "kind": "Config", "current-context": "a",
        "contexts": [{"name": "a", "context": {"cluster": "a", "user": "a"}}],
        "clusters": [{"name": "a", "cluster": {"server": "https://127.0.0.1:1"}}],
        "users": [{"name": "a", "user": {"token": "t"}}],
    });
    std::fs::write(&file, kubeconfig.to_string()).unwrap();
    let options = ConnectOptions::new(ControlPlane::Kubernetes).kubeconfig(file);
    Connection::open(&options).await.unwrap().own_endpoint()
}

/// Returns the job of one place, the cluster, for a rule of this name.
fn jobs(endpoint: &Endpoint, rule: &str) -> Jobs {
    let key = RuleKey { cluster: None, name: rule.to_owned() };
    let job = Job::new(Probe {
        side: Side::Targets,
        desired: json!({}),
        endpoint: endpoint.clone(),
        rules: BTreeMap::from([(key, (FailurePolicy::Fail, 1))]),
        own_namespace: None,
        instead: None,
        identity: None,
    });
    Jobs::from([(ConfigurationKey::new(None, Side::Targets), Arc::new(job))])
}

#[tokio::test(start_paused = true)]
async fn what_is_never_well_is_probed_for_hours() {
    let endpoint = nowhere().await;
    let (prober, mut handle) = prober(Duration::from_secs(60));
    let running = tokio::spawn(prober.run());
    assert_eq!(handle.probe(jobs(&endpoint, "a")).await.len(), 1);
    sleep(Duration::from_secs(6 * 3600)).await;
    assert!(!running.is_finished(), "the task is gone");
    // The task still takes new jobs.
    assert_eq!(handle.probe(jobs(&endpoint, "b")).await.len(), 1);
    drop(handle);
    running.await.unwrap();
}

use depguard_core::api::FailurePolicy;
use depguard_core::{Home, RuleKey};
use depguard_kcp::{ConnectOptions, Connection};
use serde_json::json;

use super::*;

/// Where no API server listens.
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
    let options = ConnectOptions::new(Home::Kubernetes).kubeconfig(file);
    Connection::open(&options).await.unwrap().home()
}

/// In the one place that there is, for a rule of this name.
fn jobs(endpoint: &Endpoint, rule: &str) -> Jobs {
    let key = RuleKey { cluster: None, name: rule.to_owned() };
    let job = Job::new(Look {
        desired: json!({}),
        endpoint: endpoint.clone(),
        rules: BTreeMap::from([(key, (FailurePolicy::Fail, 1))]),
        own_namespace: None,
        instead: None,
        identity: None,
    });
    Jobs::from([(None, Arc::new(job))])
}

#[tokio::test(start_paused = true)]
async fn what_is_never_well_is_looked_at_for_hours() {
    let endpoint = nowhere().await;
    let (prober, mut probing) = prober(Duration::from_secs(60));
    let running = tokio::spawn(prober.run());
    assert_eq!(probing.look(jobs(&endpoint, "a")).await.len(), 1);
    sleep(Duration::from_secs(6 * 3600)).await;
    assert!(!running.is_finished(), "the task is gone");
    // It still does what it is told.
    assert_eq!(probing.look(jobs(&endpoint, "b")).await.len(), 1);
    drop(probing);
    running.await.unwrap();
}

use depguard_core::api;
use depguard_kcp::ConnectOptions;
use depguard_testbed::{Fault, Options, Testbed, When};
use serde_json::json;

use super::*;
use crate::rules::active_rules::RulesState;

async fn until(rules: &Rules, what: &str, expected: impl Fn(Option<String>) -> bool) {
    for _ in 0..500 {
        if expected(rules.not_loaded()) {
            return;
        }
        sleep(Duration::from_millis(20)).await;
    }
    panic!("never {what}: {:?}", rules.not_loaded());
}

/// Plain cluster that serves rules.
struct Cluster {
    testbed: Testbed,
    connection: Connection,
}

impl Cluster {
    async fn start() -> Self {
        let testbed = Testbed::start(Options::kubernetes()).await.unwrap();
        let folder = tempfile::tempdir().unwrap();
        let kubeconfig = folder.path().join("kubeconfig");
        std::fs::write(&kubeconfig, testbed.kubeconfig("", "admin")).unwrap();
        let options = ConnectOptions::new(ControlPlane::Kubernetes).kubeconfig(kubeconfig);
        let connection = Connection::open(&options).await.unwrap();
        let anything = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
        let version =
            json!({"name": api::VERSION, "served": true, "storage": true, "schema": {"openAPIV3Schema": anything}});
        let crd = json!({
            "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
            "metadata": {"name": format!("{}.{}", api::PLURAL, api::GROUP)},
            "spec": {
                "group": api::GROUP, "names": {"kind": api::KIND, "plural": api::PLURAL}, "scope": "Cluster",
                "versions": [version],
            },
        });
        connection
            .own_endpoint()
            .post_json("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", &crd)
            .await
            .unwrap();

        let served = format!("/apis/{}/{}/{}", api::GROUP, api::VERSION, api::PLURAL);
        while connection.own_endpoint().get_json(&served).await.is_err() {
            sleep(Duration::from_millis(20)).await;
        }
        Self { testbed, connection }
    }

    /// Follows the rules, with a patience of one and a half seconds.
    fn follow(&self, rules: &Rules) -> tokio::task::JoinHandle<()> {
        self.follow_within(Allowance::DEFAULT, rules)
    }

    /// Does the same with a limit of the rules that the cluster may have.
    fn follow_within(&self, allowance: Allowance, rules: &Rules) -> tokio::task::JoinHandle<()> {
        let (control_plane, export_name) =
            (ControlPlane::Kubernetes, ExportName::parse("dependencies.opendefense.cloud").unwrap());
        let patience = Duration::from_millis(1500);
        let reflector = watch(&self.connection, control_plane, export_name.clone(), allowance);
        let following =
            RuleWatch { reflector, connection: self.connection.clone(), control_plane, export_name, patience };
        tokio::spawn(run(following, rules.clone()))
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn rules_that_cannot_be_followed_for_too_long_are_no_longer_in_force() {
    let cluster = Cluster::start().await;
    // The first list is answered, its watch breaks, and then no list shows the changes since.
    let faults = cluster.testbed.faults();
    let no_list = faults.inject(Fault::InternalError, When::always().path("?limit=").after(1));
    faults.inject(Fault::Cut, When::always().path("watch=true").times(1));

    let rules = Rules::not_loaded_yet("not yet");
    let running = cluster.follow(&rules);
    until(&rules, "loaded", |why| why.is_none()).await;
    while faults.hits(no_list) == Some(0) {
        sleep(Duration::from_millis(20)).await;
    }
    assert_eq!(rules.not_loaded(), None, "for a while they are believed");
    let told = |why: Option<String>| {
        why.is_some_and(|why| {
            why.starts_with("the webhook could not follow the rules for more than 1.5 s: ") && why.contains("500")
        })
    };
    until(&rules, "refusing", told).await;
    faults.clear_all();
    until(&rules, "loaded again", |why| why.is_none()).await;
    running.abort();
    cluster.testbed.stop().await;
}

/// Answers each retry in time, but with nothing that shows the rules.
#[tokio::test(flavor = "multi_thread")]
async fn answers_that_show_nothing_do_not_keep_rules_in_force() {
    let cluster = Cluster::start().await;
    for fault in [Fault::BareList, Fault::Cut] {
        let name = format!("{fault:?}");
        let rules = Rules::not_loaded_yet("not yet");
        let running = cluster.follow(&rules);
        until(&rules, "loaded", |why| why.is_none()).await;
        let faults = cluster.testbed.faults();
        faults.inject(fault, When::always().path("?limit="));
        faults.inject(Fault::WatchExpired, When::always());
        until(&rules, &name, |why| why.is_some_and(|why| why.contains("for more than 1.5 s: cannot watch"))).await;
        faults.clear_all();
        until(&rules, "loaded again", |why| why.is_none()).await;
        running.abort();
    }
    cluster.testbed.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn rules_of_which_nothing_is_heard_for_too_long_are_no_longer_in_force() {
    let cluster = Cluster::start().await;
    let rules = Rules::not_loaded_yet("not yet");
    let running = cluster.follow(&rules);
    until(&rules, "loaded", |why| why.is_none()).await;
    // Nothing fails: the watch stays open.
    let silent = cluster.testbed.faults().inject(Fault::WatchSilent, When::always().path("watch=true"));
    let told = |why: Option<String>| {
        let nothing = "depguard hears nothing of dependencyrules.dependencies.opendefense.cloud at https://";
        why.is_some_and(|why| {
            why.starts_with("the webhook could not follow the rules for more than 1.5 s: ") && why.contains(nothing)
        })
    };
    until(&rules, "refusing", told).await;
    cluster.testbed.faults().clear(silent);
    until(&rules, "loaded again", |why| why.is_none()).await;
    running.abort();
    cluster.testbed.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn of_more_rules_than_allowed_none_can_be_used_and_each_refuses_where_it_would_bear() {
    let cluster = Cluster::start().await;
    let at = format!("/apis/{}/{}/{}", api::GROUP, api::VERSION, api::PLURAL);
    let write = async |name: &str, target: &str| {
        let rule = json!({
            "apiVersion": format!("{}/{}", api::GROUP, api::VERSION), "kind": api::KIND, "metadata": {"name": name},
            "spec": {
                "dependent": {"group": "c.example.com", "version": "v1", "kind": "VM", "resource": "vms"},
                "dependencies": [
                    {"group": "n.example.com", "version": "v1", "resource": target, "fieldRef": {"path": ".spec.name"}},
                ],
            },
        });
        cluster.connection.own_endpoint().post_json(&at, &rule).await.unwrap();
    };
    write("a", "vpcs").await;
    let rules = Rules::not_loaded_yet("not yet");
    let running = cluster.follow_within(Allowance { objects: 2, ..Allowance::DEFAULT }, &rules);
    let are = async |expected: [usize; 2]| {
        until(&rules, "loaded", |_| match &*rules.snapshot() {
            RulesState::Loaded(Loaded { rules, .. }) => [rules.rules(), rules.broken()] == expected,
            RulesState::NotLoaded { .. } => false,
        })
        .await;
    };
    are([1, 0]).await;
    write("b", "subnets").await;
    are([2, 0]).await;
    write("c", "routers").await;
    are([3, 3]).await;
    let snapshot = rules.snapshot();
    let RulesState::Loaded(Loaded { rules: set, .. }) = &*snapshot else { panic!() };
    assert!(["vpcs", "subnets", "routers"].iter().all(|target| set.names("n.example.com", target)));
    running.abort();
    cluster.testbed.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn rules_that_are_not_even_held_are_not_decided_without() {
    let cluster = Cluster::start().await;
    let at = format!("/apis/{}/{}/{}", api::GROUP, api::VERSION, api::PLURAL);
    let rule = json!({
        "apiVersion": format!("{}/{}", api::GROUP, api::VERSION), "kind": api::KIND, "metadata": {"name": "a"},
        "spec": {},
    });
    cluster.connection.own_endpoint().post_json(&at, &rule).await.unwrap();
    let rules = Rules::not_loaded_yet("not yet");
    let running = cluster.follow_within(Allowance { objects: 1, memory: 1 }, &rules);
    until(&rules, "refusing", |why| why.is_some_and(|why| why.contains("--workspace-max-memory"))).await;
    running.abort();
    cluster.testbed.stop().await;
}

//! Effect of a lock: the requests that it forbids, its holder, and its end.

use std::collections::BTreeSet;

use depguard_core::locks::TABLE_PLURAL;
use depguard_core::{ControlPlane, LogicalCluster};
use depguard_kcp::PathKey;
use depguard_webhook::PathKeys;
use http::StatusCode;
use serde_json::{Value, json};
use tower::ServiceExt;

use super::{NAMESPACE, about, ask, create, deletion, guarded, lock, lock_path, review, table, update, vm, vm_kind};
use crate::cluster::Cluster;
use crate::metrics::{assert_counted, registered, shown};
use crate::{allowed, answer, post_bytes, put_off, refused, response, service};

#[tokio::test]
async fn what_is_not_locked_costs_two_reads_and_what_needs_none_costs_none() {
    let cluster = Cluster::default();
    let service = guarded(&cluster);
    assert!(allowed(&ask(&service, &update("alice")).await));
    assert_eq!(
        BTreeSet::from_iter(cluster.sent()),
        [None, Some("default")].map(|ns| format!("GET {}", table(ns))).into()
    );

    // A change of mere bookkeeping fields needs no look at locks.
    let mut kept = vm(&json!({"cpus": 1}));
    kept["metadata"]["finalizers"] = json!(["example.com/a"]);
    kept["metadata"]["managedFields"] = json!([{"manager": "kubelet"}]);
    let mut going = vm(&json!({}));
    going["metadata"]["deletionTimestamp"] = json!("2026-11-22T05:00:00Z");
    for review in [
        review("UPDATE", "alice", &vm(&json!({"cpus": 1})), &kept),
        review("DELETE", "alice", &going, &Value::Null),
        review("CREATE", "alice", &Value::Null, &vm(&json!({"cpus": 1}))),
    ] {
        assert!(allowed(&ask(&service, &review).await), "{review}");
        assert_eq!(cluster.sent(), Vec::<String>::new());
    }
}

#[tokio::test]
async fn a_lock_holds_from_its_creation_and_for_all_but_its_holder() {
    let cluster = Cluster::default();
    cluster.grant("alice", "get");
    let service = guarded(&cluster);
    assert!(allowed(&create(&service, &cluster, "snapshot-42", |_| ()).await));
    assert!(cluster.object(&table(Some("default"))).is_some(), "the lock can be found");
    for review in [update("alice"), deletion("alice")] {
        let response = ask(&service, &review).await;
        assert_eq!(
            refused(&response),
            "Object is locked: snapshot running (ObjectLock default/snapshot-42, held by user backup)",
        );
        let annotations = &response["auditAnnotations"];
        assert_eq!(annotations, &json!({"lock": "ObjectLock default/snapshot-42", "lock-decision": "refused"}));
    }
    for review in [update("backup"), deletion("backup")] {
        let response = ask(&service, &review).await;
        assert!(allowed(&response) && response["auditAnnotations"]["lock-decision"] == "holder", "{response}");
    }
    assert!(allowed(&ask(&service, &about("vm-2", update("alice"))).await));
}

#[tokio::test]
async fn who_may_not_read_the_lock_is_not_told_why() {
    let cluster = Cluster::default();
    let service = guarded(&cluster);
    create(&service, &cluster, "secret-name", |spec| spec["reason"] = json!("a secret reason")).await;
    for broken in [false, true] {
        if broken {
            // A user whose rights can't be checked counts as having none.
            cluster.break_at("subjectaccessreviews", response(500, &json!({})));
        }
        let answered = ask(&service, &update("mallory")).await;
        let message = refused(&answered);
        assert!(message.starts_with("Object is locked"), "{message}");
        assert!(!message.contains("secret") && !message.contains("backup"), "{message}");
    }
}

#[tokio::test]
async fn a_lock_that_is_gone_holds_nothing_whatever_the_table_says() {
    let cluster = Cluster::default();
    let service = guarded(&cluster);
    create(&service, &cluster, "snapshot-42", |_| ()).await;
    cluster.put(&lock_path("snapshot-42"), None);
    assert!(cluster.object(&table(Some("default"))).is_some());
    assert!(allowed(&ask(&service, &update("alice")).await));
}

#[tokio::test]
async fn a_lock_protects_itself() {
    let cluster = Cluster::default();
    let service = guarded(&cluster);
    create(&service, &cluster, "a", |_| ()).await;
    let held = cluster.object(&lock_path("a")).unwrap();
    let changed = lock("a", |spec| spec["reason"] = json!("other"));
    let changes = |user: &str| [review("DELETE", user, &held, &Value::Null), review("UPDATE", user, &held, &changed)];
    cluster.grant("admin", "unlock");
    for (user, decision) in [("backup", "holder"), ("admin", "unlock"), ("mallory", "refused")] {
        for review in changes(user) {
            let response = ask(&service, &review).await;
            assert_eq!(response["allowed"], user != "mallory", "{user}: {response}");
            assert_eq!(response["auditAnnotations"]["lock-decision"], decision, "{response}");
            assert_eq!(response["auditAnnotations"]["lock"], "ObjectLock default/a", "{response}");
        }
    }
    // Nobody can tell now whether the user may unlock it.
    cluster.break_at("subjectaccessreviews", response(500, &json!({})));
    assert_eq!(ask(&service, &changes("admin")[0]).await["allowed"], false);
}

#[tokio::test]
async fn in_a_namespace_that_goes_a_lock_lets_go_unless_it_is_to_hold() {
    for (teardown, namespace, released) in [
        (None, json!({"metadata": {"name": "default", "deletionTimestamp": "2026-11-22T05:00:00Z"}}), true),
        (Some("Hold"), json!({"metadata": {"name": "default", "deletionTimestamp": "2026-11-22T05:00:00Z"}}), false),
        (None, json!({"metadata": {"name": "default"}}), false),
    ] {
        let cluster = Cluster::default();
        let service = guarded(&cluster);
        create(&service, &cluster, "a", |spec| {
            if let Some(teardown) = teardown {
                spec["duringTeardown"] = json!(teardown);
            }
        })
        .await;
        cluster.put(NAMESPACE, Some(namespace));
        assert_eq!(
            ask(&service, &deletion("system:serviceaccount:kube-system:namespace-controller")).await["allowed"],
            released
        );
        // Changes stay forbidden meanwhile.
        assert_eq!(ask(&service, &update("alice")).await["allowed"], false);
    }
}

#[tokio::test]
async fn in_kcp_only_the_cluster_that_the_path_is_for_is_decided() {
    let key = || PathKey::parse("0123456789abcdef0123456789abcdef").unwrap();
    let cluster = Cluster::default();
    let service = service(cluster.clone())
        .guarding_locks(ControlPlane::Kcp, cluster.clone())
        .with_path_keys(PathKeys::new(key()));
    let of = |id: &str| LogicalCluster::parse(id).unwrap();
    let in_kcp = |mut review: Value| {
        for object in ["oldObject", "object"] {
            if review["request"][object].is_object() {
                review["request"][object]["metadata"]["annotations"]["kcp.io/cluster"] = json!("tenant1");
            }
        }
        review.to_string()
    };
    let path = |id: &str| format!("/lock{}", key().suffix(Some(&of(id))));
    let unsigned = service.clone().oneshot(post_bytes("/lock", in_kcp(update("alice")))).await.unwrap();
    assert_eq!(unsigned.status(), StatusCode::NOT_FOUND);
    let made = review("CREATE", "alice", &Value::Null, &lock("a", |_| ()));
    assert!(allowed(&answer(service.clone(), post_bytes(&path("tenant1"), in_kcp(made.clone()))).await));
    let mut stored = lock("a", |_| ());
    stored["metadata"]["annotations"] = json!({"kcp.io/cluster": "tenant1"});
    cluster.put(&lock_path("a"), Some(stored));
    let response = answer(service.clone(), post_bytes(&path("tenant1"), in_kcp(update("alice")))).await;
    assert!(refused(&response).starts_with("Object is locked"), "{response}");
    // A caller with another workspace's URL is told nothing, and nothing is written for the caller.
    cluster.put("/apis/apis.kcp.io/v1alpha2/apibindings?limit=500", Some(json!({"metadata": {}, "items": []})));
    let response = answer(service.clone(), post_bytes(&path("stranger"), in_kcp(update("alice")))).await;
    let message = refused(&response);
    assert!(!message.contains("snapshot") && !message.contains("default/a"), "{message}");
    let before = cluster.object(&table(Some("default")));
    let response = answer(service, post_bytes(&path("stranger"), in_kcp(made))).await;
    assert!(!allowed(&response), "{response}");
    assert_eq!(cluster.object(&table(Some("default"))), before);
}

#[tokio::test]
async fn a_lock_of_the_older_kind_is_looked_for_by_name() {
    let cluster = Cluster::default();
    let service = service(cluster.clone()).guarding_compat_locks(BTreeSet::from([vm_kind()]));
    let decide = async |review: Value| answer(service.clone(), post_bytes("/lock/compat", review.to_string())).await;
    let path = "/apis/kotas.tech/v1/namespaces/default/locks/vm-1";
    assert!(allowed(&decide(update("alice")).await));
    assert_eq!(cluster.sent(), [format!("GET {path}")]);
    cluster.put(path, Some(json!({"apiVersion": "kotas.tech/v1", "kind": "Lock", "metadata": {"name": "vm-1", "namespace": "default"}})));
    for review in [update("alice"), deletion("alice")] {
        assert!(refused(&decide(review).await).starts_with("Object is locked"));
    }
    assert!(allowed(&decide(review("CREATE", "alice", &Value::Null, &vm(&json!({})))).await));
    cluster.break_at("/kotas.tech/", response(500, &json!({})));
    assert!(put_off(&decide(update("alice")).await).contains("could not find out whether"));
    // Locks of the older kind alone open no other path.
    let response = service.oneshot(post_bytes("/lock", update("alice").to_string())).await.unwrap();
    assert_eq!(response.status(), StatusCode::NOT_FOUND);
}

#[tokio::test]
async fn decisions_about_locks_are_counted() {
    let cluster = Cluster::default();
    let service = guarded(&cluster);
    let registry = registered(&service);
    create(&service, &cluster, "marker", |_| ()).await;
    for user in ["alice", "backup"] {
        ask(&service, &update(user)).await;
    }
    cluster.break_at(TABLE_PLURAL, response(500, &json!({})));
    ask(&service, &deletion("alice")).await;
    let text = shown(&registry);
    let series = [
        "depguard_lock_reviews_total{operation=\"CREATE\",decision=\"recorded\"} 1",
        "depguard_lock_reviews_total{operation=\"UPDATE\",decision=\"locked\"} 1",
        "depguard_lock_reviews_total{operation=\"UPDATE\",decision=\"holder\"} 1",
        "depguard_lock_reviews_total{operation=\"DELETE\",decision=\"undecided\"} 1",
        "depguard_lock_reviews_total{operation=\"DELETE\",decision=\"locked\"} 0",
        "depguard_refusals_total{cause=\"ObjectLocked\"} 1",
        "depguard_refusals_total{cause=\"ReadFailed\"} 1",
        "depguard_review_duration_seconds_count{decided_by=\"reads\"} 4",
    ];
    assert_counted(&text, &series);
    assert!(!text.contains("marker"));
}

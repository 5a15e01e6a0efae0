//! Many locks and many updates at once, and the writes for them.

use std::time::Duration;

use depguard_core::locks::TABLE_PLURAL;
use futures::StreamExt;
use futures::stream::FuturesUnordered;
use serde_json::{Value, json};

use super::{about, ask, create, guarded, lock, review, table, update};
use crate::cluster::Cluster;
use crate::{allowed, causes, put_off, refused};

/// Creates locks side by side: each creator stores its lock and then changes the object at once.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_lock_that_is_created_is_seen_by_the_next_update_however_many_are_created_at_once() {
    for round in 0..20 {
        let cluster = Cluster::default();
        let service = guarded(&cluster);
        let creators: FuturesUnordered<_> = (0..50)
            .map(|n| {
                let (cluster, service) = (cluster.clone(), service.clone());
                tokio::spawn(async move {
                    let named = |spec: &mut Value| spec["targets"][0]["name"] = json!(format!("vm-{n}"));
                    let made = create(&service, &cluster, &format!("lock-{n}"), named).await;
                    assert!(allowed(&made), "{made}");
                    let answered = ask(&service, &about(&format!("vm-{n}"), update("alice"))).await;
                    assert!(refused(&answered).starts_with("Object is locked"), "{round}, {n}: {answered}");
                })
            })
            .collect();
        creators.for_each(|done| async { done.unwrap() }).await;
        let writes =
            cluster.sent().iter().filter(|sent| !sent.starts_with("GET") && sent.contains(TABLE_PLURAL)).count();
        let table = cluster.object(&table(Some("default"))).unwrap();
        assert_eq!(table["spec"]["revision"], json!(writes), "one after another, none begins anew");
    }
}

/// Reads are shared by reviews that came before the read was sent, as those of deletions are.
#[tokio::test(start_paused = true)]
async fn many_updates_at_once_share_their_reads() {
    let cluster = Cluster::default();
    let service = guarded(&cluster);
    create(&service, &cluster, "a", |_| ()).await;
    cluster.sent();
    cluster.slow(Duration::from_millis(5));
    let updates: FuturesUnordered<_> = (0..100).map(|_| async { ask(&service, &update("alice")).await }).collect();
    let refused = updates.filter(|answered| std::future::ready(answered["allowed"] == false)).count().await;
    assert_eq!(refused, 100);
    let reads = cluster.sent().iter().filter(|sent| sent.starts_with("GET")).count();
    assert!(reads < 12, "{reads} reads for 100 updates, each of two tables and a lock");
}

#[tokio::test]
async fn many_locks_that_are_made_at_once_are_noted_in_their_table_by_few_writes() {
    const LOCKS: usize = 300;
    let cluster = Cluster::default();
    let service = guarded(&cluster);
    let creators: FuturesUnordered<_> = (0..LOCKS)
        .map(|number| {
            let (service, cluster) = (&service, &cluster);
            async move { allowed(&create(service, cluster, &format!("lock-{number}"), |_| ()).await) }
        })
        .collect();
    assert!(creators.all(async |allowed| allowed).await);
    let table = cluster.object(&table(Some("default"))).unwrap();
    assert_eq!(table["spec"]["entries"].as_array().unwrap().len(), LOCKS);
    let writes = cluster.sent().iter().filter(|sent| !sent.starts_with("GET ")).count();
    assert!((1..LOCKS / 50).contains(&writes), "{writes} writes");
}

#[tokio::test]
async fn many_locks_on_one_object_are_read_by_one_list() {
    let cluster = Cluster::default();
    let service = guarded(&cluster);
    for n in 0..20 {
        create(&service, &cluster, &format!("lock-{n:02}"), |_| ()).await;
    }
    cluster.grant("alice", "get");
    cluster.sent();
    let answered = ask(&service, &update("alice")).await;
    let message = refused(&answered);
    assert!(message.contains("ObjectLock default/lock-00") && message.contains("17 more"), "{message}");
    let sent = cluster.sent();
    let lists = sent.iter().filter(|sent| sent.contains("/objectlocks?")).count();
    assert_eq!((lists, sent.iter().filter(|sent| sent.contains("/objectlocks/")).count()), (1, 0), "{sent:?}");
}

#[tokio::test]
async fn a_table_that_others_write_too_is_written_in_the_end_or_the_lock_is_refused() {
    let cluster = Cluster::default();
    let service = guarded(&cluster);
    cluster.conflict(3);
    assert!(allowed(&create(&service, &cluster, "a", |_| ()).await));
    assert!(refused(&ask(&service, &update("alice")).await).starts_with("Object is locked"));

    cluster.conflict(usize::MAX);
    cluster.sent();
    let made = create(&service, &cluster, "b", |_| ()).await;
    let message = put_off(&made);
    assert_eq!(causes(&made), ["Contended"]);
    assert!(message.contains("can't be stored, because depguard could not record it in a lock table"), "{message}");
    let writes = cluster.sent().iter().filter(|sent| sent.starts_with("PUT")).count();
    assert!((2..100).contains(&writes), "{writes}");
}

#[tokio::test]
async fn a_dry_run_writes_nothing() {
    let cluster = Cluster::default();
    let service = guarded(&cluster);
    let mut dry = review("CREATE", "alice", &Value::Null, &lock("a", |_| ()));
    dry["request"]["dryRun"] = json!(true);
    assert!(allowed(&ask(&service, &dry).await));
    assert!(cluster.sent().iter().all(|sent| sent.starts_with("GET")));
    assert!(cluster.object(&table(Some("default"))).is_none());
}

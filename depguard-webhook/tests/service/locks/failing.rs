//! Failed reads and malformed reviews: both are refused.

use depguard_core::locks::TABLE_PLURAL;
use depguard_core::{ControlPlane, OverridePolicy};
use depguard_webhook::{Fetched, Limits, ReviewService};
use futures::StreamExt;
use futures::stream::FuturesUnordered;
use serde_json::{Value, json};
use tower::ServiceExt;

use super::{ROOT, ask, create, deletion, guarded, lock, review, table, update};
use crate::cluster::Cluster;
use crate::{allowed, answer, loaded, post_bytes, put_off, refused, rejected, response, reviewed};

#[tokio::test]
async fn what_cannot_be_read_is_refused_and_says_what() {
    let missing = |name: &str| json!({"kind": "Status", "code": 404, "details": {"kind": "pods", "name": name}});
    for (part, fetched, said) in [
        (TABLE_PLURAL, response(500, &json!({"message": "etcd is away"})), "500"),
        (TABLE_PLURAL, response(403, &json!({"message": "no"})), "get locktables"),
        (TABLE_PLURAL, response(200, &json!({"kind": "LockTable"})), "LockTable"),
        (TABLE_PLURAL, response(200, &json!("what?")), "LockTable"),
        (TABLE_PLURAL, Fetched::TooLarge, "too large"),
        (TABLE_PLURAL, Fetched::Failed("no route to host".to_owned()), "no route to host"),
        ("objectlocks/snapshot-42", response(503, &json!({})), "503"),
        ("objectlocks/snapshot-42", response(404, &missing("other")), "404"),
        ("objectlocks/snapshot-42", response(200, &lock("other", |_| ())), "another object than the requested one"),
        ("objectlocks/snapshot-42", Fetched::Failed("reset".to_owned()), "reset"),
    ] {
        let cluster = Cluster::default();
        let service = guarded(&cluster);
        assert!(allowed(&create(&service, &cluster, "snapshot-42", |_| ()).await));
        cluster.break_at(part, fetched);
        for review in [update("backup"), deletion("backup")] {
            let answered = ask(&service, &review).await;
            // Servers that fail may answer later; other answers stay what they are.
            let passes = ["500", "503", "404", "no route to host", "reset"].contains(&said);
            let message = if passes { put_off(&answered) } else { refused(&answered) };
            assert!(message.contains("could not find out whether") && message.contains(said), "{said}: {message}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn what_hangs_is_refused_before_the_caller_hangs_up_and_so_is_who_waits_behind_it() {
    for part in [TABLE_PLURAL, "objectlocks/", "subjectaccessreviews"] {
        let cluster = Cluster::default();
        let service = guarded(&cluster);
        create(&service, &cluster, "a", |_| ()).await;
        cluster.hang_at(part);
        let begun = tokio::time::Instant::now();
        let made = review("CREATE", "alice", &Value::Null, &lock("b", |_| ()));
        let all = [update("alice"), deletion("alice"), made.clone(), made];
        let answers: FuturesUnordered<_> = all
            .iter()
            .map(|review| answer(service.clone(), post_bytes("/lock?timeout=2s", review.to_string())))
            .collect();
        let allowed = answers.filter(|answered| std::future::ready(answered["allowed"] == true)).count().await;
        // If only the lock or the access review hangs, another lock can be made.
        assert_eq!(allowed, if part == TABLE_PLURAL { 0 } else { 2 }, "{part}");
        assert!(begun.elapsed().as_millis() < 2_000, "{part}: {:?}", begun.elapsed());
    }
}

#[tokio::test]
async fn too_many_reviews_about_locks_at_once_are_refused_at_once() {
    let cluster = Cluster::default();
    let limits = Limits::default().at_once(0);
    let service = ReviewService::with_limits(cluster.clone(), loaded(&[]), OverridePolicy::default(), limits);
    let service = service.guarding_locks(ControlPlane::Kubernetes, cluster);
    assert_eq!(put_off(&ask(&service, &update("alice")).await), "too many reviews at once; retry later");
}

#[tokio::test]
async fn a_lock_that_nobody_would_find_is_refused() {
    for (fetched, said) in [
        (response(403, &json!({"message": "no"})), "create and update locktables"),
        (response(500, &json!({})), "500"),
        (Fetched::Failed("reset".to_owned()), "reset"),
    ] {
        let cluster = Cluster::default();
        let service = guarded(&cluster);
        // Reads succeed.
        cluster.put(&table(Some("default")), None);
        cluster.break_at(&format!("{ROOT}/{TABLE_PLURAL}"), fetched);
        let made = create(&service, &cluster, "a", |_| ()).await;
        let message = if said.starts_with("create") { refused(&made) } else { put_off(&made) };
        assert!(
            message.contains("can't be stored") && (message.contains(said) || said.starts_with("create")),
            "{message}"
        );
    }
}

#[tokio::test]
async fn hostile_reviews_about_locks_are_refused_or_rejected() {
    let cluster = Cluster::default();
    let service = guarded(&cluster);
    let deep = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
    let with = |edit: &dyn Fn(&mut Value)| {
        let mut review = update("alice");
        edit(&mut review["request"]);
        review.to_string()
    };
    let made = |spec: Value| {
        let mut lock = lock("a", |_| ());
        lock["spec"] = spec;
        review("CREATE", "alice", &Value::Null, &lock).to_string()
    };
    for (body, status) in [
        (with(&|request| request["oldObject"] = Value::Null), 200),
        (with(&|request| request["object"] = Value::Null), 200),
        (with(&|request| request["oldObject"]["metadata"]["name"] = json!("../../x")), 200),
        (with(&|request| request["oldObject"]["metadata"]["namespace"] = json!("a/b")), 200),
        (made(Value::Null), 200),
        (made(json!([])), 200),
        (made(json!({"targets": []})), 200),
        (made(json!({"targets": [{"resource": "pods"}]})), 200),
        (made(json!({"targets": [{"resource": "po/d/s", "name": "a"}]})), 200),
        (made(json!({"targets": "pods", "expiresAt": 7})), 200),
        (
            made(
                json!({"targets": [{"resource": "pods", "name": "a"}], "ttl": "1h", "expiresAt": "2030-01-01T00:00:00Z"}),
            ),
            200,
        ),
        ("{".to_owned(), 400),
        ("null".to_owned(), 400),
        (update("alice").to_string().replacen("\"object\":{", "\"object\":{},\"object\":{", 1), 400),
        (format!("{{\"request\":{deep}}}"), 400),
    ] {
        let response = service.clone().oneshot(post_bytes("/lock", body.clone())).await.unwrap();
        let shown: String = body.chars().take(400).collect();
        assert_eq!(response.status(), status, "{shown}");
        if status == 200 {
            let response = reviewed(response).await;
            assert_eq!(response["allowed"], false, "{shown}");
            refused(&response);
        } else {
            assert!(rejected(response).await.1.len() < 450, "{shown}");
        }
    }
    assert!(cluster.sent().iter().all(|sent| !sent.contains("..") && !sent.starts_with("P")));
    // Depth alone is no reason to refuse.
    let deep = with(&|_| ()).replacen("\"cpus\":2", &format!("\"cpus\":{deep}"), 1);
    assert!(allowed(&answer(service, post_bytes("/lock", deep)).await));
}

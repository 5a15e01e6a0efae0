//! Reviews of GlobalOwners and GroupOwners.

use depguard_core::OverridePolicy;
use depguard_core::owners::{CASCADE_ANNOTATION, GLOBAL_OWNERS, GROUP, GROUP_OWNERS, ORPHAN};
use depguard_kcp::PathKey;
use depguard_webhook::{Limits, PathKeys, ReviewService};
use http::StatusCode;
use serde_json::{Value, json};
use tower::ServiceExt;

use crate::cluster::Cluster;
use crate::metrics::{assert_counted, registered, shown};
use crate::{allowed, answer, loaded, post_bytes, put_off, refused, rejected, review, service, unasked};

fn deletion(resource: &str, edit: impl FnOnce(&mut Value)) -> String {
    let mut review = review();
    review["request"]["resource"] = json!({"group": GROUP, "version": "v1alpha1", "resource": resource});
    review["request"]["options"] = json!({"kind": "DeleteOptions", "apiVersion": "meta.k8s.io/v1"});
    edit(&mut review["request"]);
    review.to_string()
}

fn foreground() -> String {
    deletion(GLOBAL_OWNERS, |request| request["options"]["propagationPolicy"] = json!("Foreground"))
}

/// Returns the deletion of a GlobalOwner whose objects are to stay, which is noted before it is allowed.
fn orphan() -> String {
    deletion(GLOBAL_OWNERS, |request| request["options"]["propagationPolicy"] = json!("Orphan"))
}

#[tokio::test]
async fn what_would_take_all_at_once_is_refused_with_what_to_do() {
    let service = service(unasked()).guarding_owners(Cluster::default());
    let decided = async |body: String| answer(service.clone(), post_bytes("/owner", body)).await;
    let message = decided(foreground()).await;
    assert!(refused(&message).contains("use --cascade=background (the default)"), "{message}");
    let message = decided(deletion(GROUP_OWNERS, |request| request["oldObject"]["status"] = json!({}))).await;
    assert!(refused(&message).contains("cannot delete groupowners/a: "), "{message}");
    let empty = deletion(GROUP_OWNERS, |request| request["oldObject"]["status"] = json!({"phase": "Empty"}));
    for body in [deletion(GLOBAL_OWNERS, |_| ()), empty] {
        let response = decided(body).await;
        assert!(allowed(&response), "{response}");
    }
}

#[tokio::test]
async fn where_owners_are_not_guarded_there_is_no_such_path() {
    for path in ["/owner", "/lock", "/lock/compat", "/rule"] {
        let response = service(unasked()).oneshot(post_bytes(path, foreground())).await.unwrap();
        assert_eq!(rejected(response).await, (404, "there is only POST /validate\n".to_owned()), "{path}");
    }
}

#[tokio::test]
async fn with_a_key_only_what_was_signed_for_a_plain_cluster_is_decided() {
    let key = || PathKey::parse("0123456789abcdef0123456789abcdef").unwrap();
    let service = service(unasked()).guarding_owners(Cluster::default()).with_path_keys(PathKeys::new(key()));
    let unsigned = service.clone().oneshot(post_bytes("/owner", deletion(GLOBAL_OWNERS, |_| ()))).await.unwrap();
    assert_eq!(unsigned.status(), StatusCode::NOT_FOUND);
    let own = format!("/owner{}", key().suffix(None));
    assert!(allowed(&answer(service.clone(), post_bytes(&own, deletion(GLOBAL_OWNERS, |_| ()))).await));
    let cluster = depguard_core::LogicalCluster::parse("2x3fg5w1ik2mcnev").unwrap();
    let other = format!("/owner{}", key().suffix(Some(&cluster)));
    let response = answer(service, post_bytes(&other, deletion(GLOBAL_OWNERS, |_| ()))).await;
    assert!(refused(&response).contains("by the URL of a logical cluster"), "{response}");
}

#[tokio::test(start_paused = true)]
async fn that_what_it_owns_stays_is_written_before_it_goes_or_it_does_not_go() {
    let path = "/apis/globalowner.metacontroller.io/v1alpha1/globalowners/a";
    for (part, refuses) in [("elsewhere", false), (path, true)] {
        let cluster = Cluster::default();
        cluster.put(path, Some(json!({"metadata": {"name": "a", "uid": "o-1"}})));
        cluster.break_at(part, crate::response(403, &json!({"message": "no"})));
        let service = service(unasked()).guarding_owners(cluster.clone());
        let answered = answer(service, post_bytes("/owner", orphan())).await;
        assert_eq!(cluster.sent(), [format!("PATCH {path}")]);
        let noted = &cluster.object(path).unwrap()["metadata"]["annotations"][CASCADE_ANNOTATION];
        assert_eq!((allowed(&answered), noted == ORPHAN), (!refuses, !refuses), "{answered}");
        if refuses {
            let message = refused(&answered);
            assert!(message.contains("could not note") && message.contains("patch globalowners"), "{message}");
        }
    }
    let cluster = Cluster::default();
    cluster.hang_at(path);
    let service = service(unasked()).guarding_owners(cluster);
    let answered = answer(service, post_bytes("/owner?timeout=2s", orphan())).await;
    assert!(put_off(&answered).contains("was not answered in time"), "{answered}");
}

#[tokio::test]
async fn only_a_review_that_waits_for_an_api_server_needs_a_place() {
    let (cluster, limits) = (Cluster::default(), Limits::default().at_once(0));
    let service = ReviewService::with_limits(unasked(), loaded(&[]), OverridePolicy::default(), limits)
        .guarding_owners(cluster.clone());
    let decided = async |body: String| answer(service.clone(), post_bytes("/owner", body)).await;
    let empty = deletion(GROUP_OWNERS, |request| request["oldObject"]["status"] = json!({"phase": "Empty"}));
    for body in [deletion(GLOBAL_OWNERS, |_| ()), empty] {
        let response = decided(body).await;
        assert!(allowed(&response), "{response}");
    }
    let response = decided(foreground()).await;
    assert!(refused(&response).contains("use --cascade=background"), "{response}");
    let response = decided(orphan()).await;
    assert_eq!(put_off(&response), "too many reviews at once; retry later");
    assert_eq!(cluster.sent(), Vec::<String>::new());
}

#[tokio::test]
async fn hostile_reviews_of_owners_are_refused_or_rejected() {
    let service = service(unasked()).guarding_owners(Cluster::default());
    let deep = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
    for (body, status) in [
        (deletion(GLOBAL_OWNERS, |request| request["oldObject"] = Value::Null), 200),
        (deletion(GROUP_OWNERS, |request| request["oldObject"]["metadata"]["name"] = Value::Null), 200),
        (deletion(GROUP_OWNERS, |request| request["oldObject"]["status"] = json!({"phase": 1})), 400),
        (deletion(GLOBAL_OWNERS, |request| request["options"] = json!(["Foreground"])), 400),
        (foreground().replacen("\"options\":{", "\"options\":{\"propagationPolicy\":\"Background\",", 1), 400),
        (foreground().replacen("\"options\":{", &format!("\"options\":{{\"x\":{deep},"), 1), 200),
    ] {
        let response = service.clone().oneshot(post_bytes("/owner", body.clone())).await.unwrap();
        let shown: String = body.chars().take(300).collect();
        assert_eq!(response.status(), status, "{shown}");
        if status == 200 {
            let response = crate::reviewed(response).await;
            refused(&response);
        }
    }
}

#[tokio::test]
async fn decisions_about_owners_are_counted() {
    let service = service(unasked()).guarding_owners(Cluster::default());
    let registry = registered(&service);
    for body in [foreground(), deletion(GLOBAL_OWNERS, |_| ())] {
        answer(service.clone(), post_bytes("/owner", body)).await;
    }
    let series = [
        "depguard_owner_reviews_total{decision=\"foreground\"} 1",
        "depguard_owner_reviews_total{decision=\"in-order\"} 1",
        "depguard_owner_reviews_total{decision=\"still-owns\"} 0",
        "depguard_refusals_total{cause=\"ForegroundDeletion\"} 1",
        "depguard_reviews_total{operation=\"DELETE\",decision=\"no-rule\"} 0",
    ];
    assert_counted(&shown(&registry), &series);
}

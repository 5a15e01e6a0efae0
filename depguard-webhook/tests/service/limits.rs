//! Reviews that are too large, too slow or too many, and requests that are no reviews.

use std::time::Duration;

use bytes::Bytes;
use depguard_core::{ControlPlane, OverridePolicy, Query};
use depguard_webhook::{Fetched, Limits, ReviewService};
use futures::StreamExt;
use futures::future::BoxFuture;
use futures::stream::BoxStream;
use http::Request;
use http_body_util::StreamBody;
use hyper::body::Frame;
use serde_json::json;
use tokio::time::Instant;
use tower::ServiceExt;

use crate::cluster::Cluster;
use crate::{
    Script, allowed, answer, at_once, causes, list, loaded, post, post_bytes, put_off, refused, rejected, review,
    reviewed, rule, service, unasked,
};

#[tokio::test]
async fn what_is_no_review_is_a_plain_400() {
    let deep = "[".repeat(100_000);
    let invalid = [&b"{\"request\":{\"uid\":\""[..], &[0xff, 0xfe], b"\"}}"].concat();
    for body in [
        b"".to_vec(),
        b"{}".to_vec(),
        b"null".to_vec(),
        b"{\"request\":{}}".to_vec(),
        b"{\"request\":{\"uid\":\"u-1\"".to_vec(),
        b"{\"apiVersion\":\"admission.k8s.io/v1beta1\",\"request\":{\"uid\":\"u-1\"}}".to_vec(),
        invalid,
        deep.clone().into_bytes(),
        format!("{{\"request\":{deep}").into_bytes(),
        vec![0; 1 << 20],
    ] {
        let response = service(unasked()).oneshot(post_bytes("/validate", body.clone())).await.unwrap();
        let (status, sentence) = rejected(response).await;
        let shown = String::from_utf8_lossy(&body[..body.len().min(60)]).into_owned();
        assert_eq!(status, 400, "{shown}");
        assert!(sentence.len() > 10 && sentence.len() < 400, "{shown}: {sentence}");
    }
}

#[tokio::test]
async fn a_deeply_nested_object_is_reviewed_like_any_other() {
    let deep = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
    let body = review().to_string().replacen("\"uid\":\"o-1\"", &format!("\"uid\":\"o-1\",\"x\":{deep}"), 1);
    assert!(body.len() > 200_000);
    let response = answer(service(at_once(|_| list(&[]))), post_bytes("/validate", body)).await;
    assert!(allowed(&response), "{response}");
}

#[tokio::test]
async fn the_largest_object_that_an_api_server_stores_is_reviewed() {
    let mut review = review();
    let large = json!({"data": "x".repeat(3 << 19)});
    review["request"]["object"] = large.clone();
    review["request"]["oldObject"]["spec"] = large;
    assert!(allowed(&answer(service(at_once(|_| list(&[]))), post(&review)).await));
}

#[tokio::test]
async fn a_larger_review_is_refused_by_its_uid_or_else_rejected() {
    let padding = "x".repeat(10 << 20);
    let told = format!(r#"{{"request":{{"uid":"u-1","object":"{padding}"}}}}"#);
    let response = answer(service(unasked()), post_bytes("/validate", told)).await;
    assert_eq!((refused(&response), causes(&response)), ("the review is larger than 3136 KiB", vec!["ReviewTooLarge"]));

    let untold = format!(r#"{{"request":{{"object":"{padding}","uid":"u-1"}}}}"#);
    let response = service(unasked()).oneshot(post_bytes("/validate", untold)).await.unwrap();
    assert_eq!(rejected(response).await, (413, "the review is larger than 3136 KiB\n".to_owned()));
}

#[tokio::test]
async fn the_limit_is_the_providers_to_set() {
    let limits = Limits::default().review(100);
    let service = ReviewService::with_limits(unasked(), loaded(&[]), OverridePolicy::default(), limits);
    let response = service.oneshot(post(&review())).await.unwrap();
    assert_eq!(rejected(response).await.0, 413);
}

#[tokio::test(start_paused = true)]
async fn too_many_reviews_at_once_are_refused_at_once() {
    let hangs = || Script(|_: &Query| -> BoxFuture<'static, Fetched> { Box::pin(std::future::pending()) });
    let limits = Limits::default().at_once(1);
    let mut ignored = rule();
    ignored["spec"]["failurePolicy"] = "Ignore".into();
    ignored["metadata"]["name"] = "ignored".into();
    let rules = loaded(&[rule(), ignored]);
    let service = ReviewService::with_limits(hangs(), rules, OverridePolicy::default(), limits);
    let first = tokio::spawn(answer(service.clone(), post(&review())));
    tokio::time::sleep(Duration::from_millis(1)).await;
    let begun = Instant::now();
    let response = answer(service.clone(), post(&review())).await;
    assert_eq!(put_off(&response), "too many reviews at once; retry later");
    let ignoring = post_bytes("/validate/ignore", review().to_string());
    let response = service.clone().oneshot(ignoring).await.unwrap();
    assert_eq!(rejected(response).await, (429, "too many reviews at once; retry later\n".to_owned()));
    // A review that needs no API server is decided all the same.
    let mut unnamed = review();
    unnamed["request"]["resource"]["resource"] = json!("subnets");
    assert!(allowed(&answer(service.clone(), post(&unnamed)).await));
    assert_eq!(begun.elapsed(), Duration::ZERO);
    assert!(put_off(&first.await.unwrap()).contains("not answered in time"));
    // The place is free again.
    assert!(put_off(&answer(service, post(&review())).await).contains("not answered in time"));
}

type Frames = BoxStream<'static, Result<Frame<Bytes>, std::io::Error>>;

/// Returns a request whose body sends `beginning` and then nothing more.
fn stuck(beginning: &str) -> Request<StreamBody<Frames>> {
    let frames = futures::stream::iter([Ok(Frame::data(Bytes::from(beginning.to_owned())))]);
    let body = StreamBody::new(frames.chain(futures::stream::pending()).boxed());
    Request::post("/validate?timeout=2s").header("content-type", "application/json").body(body).unwrap()
}

#[tokio::test(start_paused = true)]
async fn a_slow_body_is_given_up_in_time() {
    let begun = Instant::now();
    let response = service(unasked()).oneshot(stuck(r#"{"request":{"uid":"u-1","#)).await.unwrap();
    assert_eq!(refused(&reviewed(response).await), "the review did not arrive in time");
    assert_eq!(begun.elapsed().as_millis(), 1_800);

    let response = service(unasked()).oneshot(stuck(r#"{"request":{"#)).await.unwrap();
    assert_eq!(rejected(response).await, (408, "the review did not arrive in time\n".to_owned()));
}

#[tokio::test]
async fn a_body_that_breaks_off_is_not_decided() {
    let whole = review().to_string();
    let frames = [Ok(Frame::data(Bytes::from(whole))), Err(std::io::Error::other("reset by peer"))];
    let body = StreamBody::new(futures::stream::iter(frames));
    let request = Request::post("/validate").header("content-type", "application/json").body(body).unwrap();
    let response = service(unasked()).oneshot(request).await.unwrap();
    assert!(refused(&reviewed(response).await).contains("reset by peer"));
}

/// Multiple of its length that is counted for what a review becomes.
const COUNTED: u64 = 16;

/// Returns reviews of updates and of locks of nearly the maximum length, each of as many small parts as possible.
fn of_small_parts() -> Vec<(&'static str, &'static str, String)> {
    let many = |part: fn(usize) -> String, bytes: usize| {
        let mut parts = part(0);
        for n in 1.. {
            if parts.len() >= bytes {
                break;
            }
            parts = parts + "," + &part(n);
        }
        parts
    };
    let (all, half) = (2_900_000, 1_400_000);
    let review = |user: &str, metadata: &str, refs: &str, old: &str| {
        let state = |refs: &str| {
            format!(
                r#"{{"metadata":{{"name":"m","namespace":"default","uid":"u",{metadata}"resourceVersion":"1"}},
                    "spec":{{"vpcRef":{{"name":"a"}},"targets":[{{"resource":"vpcs","name":"a"}}],"refs":[{refs}]}}}}"#
            )
        };
        let (object, old) = (state(refs), state(old));
        format!(
            r#"{{"request":{{"uid":"u","operation":"UPDATE","name":"m","namespace":"default",
                "resource":{{"group":"compute.example.com","version":"v1","resource":"virtualmachines"}},
                "userInfo":{{"username":"alice"{user}}},"object":{object},"oldObject":{old}}}}}"#
        )
    };
    let user = |field: &str| review(field, "", "", "");
    let metadata = |field: &str| review("", field, "", "");
    let refs = |part: fn(usize) -> String| review("", "", &many(part, half), &(many(part, half - 20) + r#",{"b":0}"#));
    let lock = |review: String| {
        review
            .replace("compute.example.com", "dependencies.opendefense.cloud")
            .replace("virtualmachines", "objectlocks")
    };
    let (name, empty) = (|n: usize| format!(r#"{{"name":"{n:x}"}}"#), |_: usize| r#"{"a":0}"#.to_owned());
    let (text, object) = (|_: usize| r#""""#.to_owned(), |_: usize| "{}".to_owned());
    vec![
        ("groups", "/reference", user(&format!(r#","groups":[{}]"#, many(text, all)))),
        ("extra", "/reference", user(&format!(r#","extra":{{{}}}"#, many(|n| format!(r#""{n:x}":[]"#), all)))),
        ("labels", "/reference", metadata(&format!(r#""labels":{{{}}},"#, many(|n| format!(r#""{n:x}":"""#), half)))),
        ("finalizers", "/reference", metadata(&format!(r#""finalizers":[{}],"#, many(text, half)))),
        ("owners", "/reference", metadata(&format!(r#""ownerReferences":[{}],"#, many(object, half)))),
        ("managers", "/reference", metadata(&format!(r#""managedFields":[{}],"#, many(object, half)))),
        ("references", "/reference", refs(name)),
        ("empty references", "/reference", refs(empty)),
        ("a deletion", "/validate", refs(name).replace("UPDATE", "DELETE")),
        ("a lock", "/lock", lock(refs(empty))),
        (
            "a lock with labels",
            "/lock",
            lock(metadata(&format!(r#""labels":{{{}}},"#, many(|n| format!(r#""{n:x}":"""#), half)))),
        ),
    ]
}

#[test]
fn a_review_becomes_at_most_what_is_counted_for_it() {
    let mut rule = rule();
    rule["spec"]["dependencies"][0]["onMissing"] = "Deny".into();
    let mut wildcard = rule["spec"]["dependencies"][0].clone();
    wildcard["fieldRef"] = json!({"path": ".spec.refs[*].name"});
    rule["spec"]["dependencies"].as_array_mut().unwrap().push(wildcard);
    let port = at_once(|_| Fetched::Response { status: 500, body: Bytes::new() });
    let service = ReviewService::new(port, loaded(&[rule]), OverridePolicy::default());
    let service = service.guarding_locks(ControlPlane::Kubernetes, Cluster::default());
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    for (what, path, review) in of_small_parts() {
        let (length, request) = (review.len() as u64, post_bytes(path, review));
        assert!(length > 2_700_000 && length < 3 << 20, "{what}: {length} bytes");
        let service = service.clone();
        let taken = allocation_counter::measure(|| {
            runtime.block_on(async { drop(service.oneshot(request).await) });
        });
        // The request's own bytes were allocated before, and are free again once the service has a copy.
        let becomes = taken.bytes_max as f64 / length as f64;
        println!("{what}: {becomes:.1} bytes for each");
        assert!(taken.bytes_max < COUNTED * length, "{what}: {becomes:.1} bytes for each");
    }
}

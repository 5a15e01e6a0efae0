use std::net::SocketAddr;

use http::Request;
use http_body_util::{BodyExt, Full};
use kube_client::{Client, Config};
use serde_json::{Value, json};
use tokio::net::TcpListener;

use super::*;
use crate::guard::rules;

/// Returns a judge whose cluster never answers. The cluster takes connections until the listener is dropped.
async fn judge() -> (Judge, TcpListener) {
    let silent = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address: SocketAddr = silent.local_addr().unwrap();
    let cluster = Client::try_from(Config::new(format!("http://{address}").parse().unwrap())).unwrap();
    (Judge::new(rules::built_in().unwrap(), Vec::new(), cluster), silent)
}

fn deletion() -> Bytes {
    let resource = json!({"group": "clusters.openmcp.cloud", "version": "v1alpha1", "resource": "clusters"});
    let old = json!({"metadata": {"name": "blue", "namespace": "team"}});
    let request = json!({"uid": "7", "operation": "DELETE", "resource": resource, "oldObject": old});
    json!({"apiVersion": "admission.k8s.io/v1", "request": request}).to_string().into()
}

fn post(query: &str, body: impl Into<Bytes>) -> Request<Full<Bytes>> {
    Request::post(format!("https://webhook/{query}")).body(Full::new(body.into())).unwrap()
}

async fn refusal(response: Response<Full<Bytes>>) -> String {
    assert_eq!(response.status(), StatusCode::OK);
    let body = response.into_body().collect().await.unwrap().to_bytes();
    let review: Value = serde_json::from_slice(&body).unwrap();
    assert_eq!((&review["response"]["uid"], &review["response"]["allowed"]), (&json!("7"), &json!(false)), "{review}");
    review["response"]["status"]["message"].as_str().unwrap().to_owned()
}

#[tokio::test]
async fn what_is_no_review_has_no_decision() {
    let (judge, _silent) = judge().await;
    let get = Request::get("https://webhook/").body(Full::new(Bytes::new())).unwrap();
    for (request, status) in [
        (get, StatusCode::METHOD_NOT_ALLOWED),
        (post("", "{}"), StatusCode::BAD_REQUEST),
        (post("", vec![b' '; MAX_REVIEW + 1]), StatusCode::PAYLOAD_TOO_LARGE),
    ] {
        assert_eq!(judge.answer(request).await.status(), status);
    }
}

#[tokio::test]
async fn what_the_cluster_does_not_answer_in_time_is_refused() {
    let (judge, _silent) = judge().await;
    let said = refusal(judge.answer(post("?timeout=300ms", deletion())).await).await;
    assert!(said.starts_with("cannot delete clusters/blue: "), "{said}");
}

#[tokio::test]
async fn what_a_cluster_that_is_gone_knew_is_refused() {
    let (judge, silent) = judge().await;
    drop(silent);
    let said = refusal(judge.answer(post("?timeout=3s", deletion())).await).await;
    assert!(said.starts_with("cannot delete clusters/blue: "), "{said}");
}

#[tokio::test]
async fn beyond_so_many_at_once_there_is_no_decision() {
    let (judge, _silent) = judge().await;
    let _all = judge.places.acquire_many(MAX_CONCURRENT_REVIEWS.try_into().unwrap()).await.unwrap();
    let response = judge.answer(post("?timeout=300ms", deletion())).await;
    assert_eq!(response.status(), StatusCode::SERVICE_UNAVAILABLE);
}

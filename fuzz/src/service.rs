//! Service, as any client that reaches its port can use it.

use bytes::Bytes;
use depguard_core::{ControlPlane, OverridePolicy, Query, RuleSet, Workspaces};
use depguard_webhook::{ApiReader, Fetched, ReviewService, Rules};
use http::Request;
use http_body_util::{BodyExt, Full};
use serde_json::Value;
use tower::ServiceExt;

use crate::targets::{GOOD_RULE, lets_go, mended};

/// Limit that is longer than any rejection.
const MAX_REJECTED: usize = 2 << 10;

/// API server that lets nobody read anything.
struct Refusing;

impl ApiReader for Refusing {
    async fn get(&self, _: &Query) -> Fetched {
        Fetched::Response { status: 403, body: Bytes::from_static(b"{}") }
    }
}

/// Checks that every posted document gets one answer: a short rejection, or a review of the same id. The review may be
/// allowed only for a reason that a plain reading of the document confirms.
pub fn service(bytes: &[u8]) {
    let rule: Value = serde_json::from_str(GOOD_RULE).unwrap_or_default();
    let rules = Rules::not_loaded_yet("starting");
    rules.load(RuleSet::load(ControlPlane::Kubernetes, [&rule]), Workspaces::new());
    let service = ReviewService::new(Refusing, rules, OverridePolicy::default());
    let request = Request::post("/validate?timeout=10s").header("content-type", "application/json");
    let request = request.body(Full::new(Bytes::copy_from_slice(bytes)));
    let (Ok(runtime), Ok(request)) = (tokio::runtime::Builder::new_current_thread().enable_time().build(), request)
    else {
        unreachable!("there are a runtime and a request")
    };
    let (status, answer) = runtime.block_on(async {
        let Ok(response) = service.oneshot(request).await;
        let status = response.status().as_u16();
        let Ok(body) = response.into_body().collect().await;
        (status, body.to_bytes())
    });
    if status != 200 {
        assert!(matches!(status, 400 | 413), "{status}");
        assert!(!answer.is_empty() && answer.len() <= MAX_REJECTED, "{} bytes", answer.len());
        return;
    }
    let answered: Value = serde_json::from_slice(&answer).unwrap_or_default();
    let response = &answered["response"];
    // Strings that nobody reads may be malformed inside.
    let said = serde_json::from_slice::<Value>(bytes).or_else(|_| serde_json::from_slice(&mended(bytes)));
    let said = said.unwrap_or_default();
    assert_eq!(response["uid"], said["request"]["uid"], "{said}");
    match response["allowed"].as_bool() {
        Some(true) => assert!(lets_go(&said), "{said}"),
        Some(false) => assert_eq!(response["status"]["code"], 403, "{said}"),
        None => panic!("no answer: {answered}"),
    }
}

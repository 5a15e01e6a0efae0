//! Webhook of the provider: depguard's answers to deletions, and a check of its own. It would lie in the provider's
//! `src/`.

use std::convert::Infallible;

use bytes::Bytes;
use depguard_core::{OverridePolicy, RuleSet, Workspaces};
use depguard_webhook::{ApiReader, ReviewService, Rules};
use http::{Request, Response};
use http_body_util::{BodyExt, Collected, Full};
use hyper::body::Incoming;
use serde_json::{Value, json};
use tower::{Service, ServiceExt, service_fn};

type Answer = Result<Response<Full<Bytes>>, Infallible>;

/// Returns the webhook with these rules. It finds referrers through `port`.
pub(crate) fn webhook<P: ApiReader>(
    rules: RuleSet,
    workspaces: Workspaces,
    port: P,
) -> impl Service<Request<Incoming>, Response = Response<Full<Bytes>>, Error = Infallible, Future: Send> + Clone + Send
{
    let in_force = Rules::not_loaded_yet("the provider has just started");
    in_force.load(rules, workspaces);
    let references = ReviewService::new(port, in_force, OverridePolicy::default());
    service_fn(move |request: Request<Incoming>| {
        let references = references.clone();
        async move {
            match request.uri().path() {
                "/validate" => references.oneshot(request).await,
                _ => ranges(request).await,
            }
        }
    })
}

/// Checks that a VPC's range of addresses is private.
async fn ranges(request: Request<Incoming>) -> Answer {
    // An unreadable body counts as one without a range, and is refused.
    let body = request.into_body().collect().await.map(Collected::to_bytes).unwrap_or_default();
    let review: Value = serde_json::from_slice(&body).unwrap_or_default();
    let range = review["request"]["object"]["spec"]["cidr"].as_str().unwrap_or_default();
    let mut response = json!({"uid": review["request"]["uid"], "allowed": range.starts_with("10.")});
    if response["allowed"] == false {
        response["status"] =
            json!({"code": 403, "reason": "Forbidden", "message": "spec.cidr is not below 10.0.0.0/8"});
    }
    let review = json!({"kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1", "response": response});
    Ok(Response::new(Full::from(review.to_string())))
}

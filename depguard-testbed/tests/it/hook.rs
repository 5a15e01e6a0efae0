//! Webhook that remembers its calls.

use std::convert::Infallible;
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use depguard_testbed::WebhookServer;
use http::{Request, Response};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use serde_json::{Value, json};
use tower::service_fn;

/// Call of the webhook: the URL's path and query, and the review's request.
#[derive(Clone, Debug)]
pub(crate) struct Call {
    pub(crate) path: String,
    pub(crate) request: Value,
}

pub(crate) struct Hook {
    pub(crate) server: WebhookServer,
    calls: Arc<Mutex<Vec<Call>>>,
}

impl Hook {
    /// Starts a webhook. The function makes the response (without uid) from the request.
    pub(crate) async fn start(answer: impl Fn(&Value) -> Value + Send + Sync + 'static) -> Self {
        let calls = Arc::new(Mutex::new(Vec::new()));
        let known = Arc::clone(&calls);
        let answer = Arc::new(answer);
        let service = service_fn(move |request: Request<Incoming>| {
            let (known, answer) = (Arc::clone(&known), Arc::clone(&answer));
            async move {
                let path = request.uri().path_and_query().unwrap().to_string();
                let body = request.into_body().collect().await.unwrap().to_bytes();
                let review: Value = serde_json::from_slice(&body).unwrap();
                let request = review["request"].clone();
                known.lock().unwrap().push(Call { path, request: request.clone() });
                // The answer may block: it plays events that happen while a review is in progress.
                let uid = request["uid"].clone();
                let mut response = tokio::task::spawn_blocking(move || answer(&request)).await.unwrap();
                response["uid"] = uid;
                let review = json!({
                    "kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1", "response": response,
                });
                Ok::<_, Infallible>(Response::new(Full::new(Bytes::from(review.to_string()))))
            }
        });
        let server = WebhookServer::of_service("default", "hook", service).await.unwrap();
        Self { server, calls }
    }

    /// Starts a webhook that allows everything.
    pub(crate) async fn allowing() -> Self {
        Self::start(|_| json!({"allowed": true})).await
    }

    /// Starts a webhook that refuses like depguard.
    pub(crate) async fn denying() -> Self {
        Self::start(|_| {
            let status = json!({
                "code": 403, "reason": "Forbidden", "message": "still referenced",
                "details": {"causes": [{"message": "by VirtualMachine/m1"}]},
            });
            json!({"allowed": false, "status": status})
        })
        .await
    }

    pub(crate) fn calls(&self) -> Vec<Call> {
        self.calls.lock().unwrap().clone()
    }

    /// Returns a configuration that sends this webhook the changes that one rule selects.
    pub(crate) fn configuration(&self, rule: &Value) -> Value {
        json!({
            "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingWebhookConfiguration",
            "metadata": {"name": "guard"},
            "webhooks": [{
                "name": "guard.example.com", "admissionReviewVersions": ["v1"], "sideEffects": "None",
                "clientConfig": {"url": format!("{}/validate", self.server.url()), "caBundle": self.server.ca_bundle()},
                "rules": [rule],
            }],
        })
    }
}

/// Returns a webhook's rule for deletions of a resource in every version.
pub(crate) fn deletes(group: &str, resource: &str) -> Value {
    json!({"apiGroups": [group], "apiVersions": ["*"], "resources": [resource], "operations": ["DELETE"]})
}

//! A webhook that remembers what it was asked.

use std::convert::Infallible;
use std::sync::{Arc, Mutex};

use base64::Engine;
use bytes::Bytes;
use http::{Request, Response};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use rustls::ServerConfig;
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use tokio_rustls::TlsAcceptor;

/// One call: the URL's path and query, and the review's request.
#[derive(Clone, Debug)]
pub(crate) struct Call {
    pub(crate) path: String,
    pub(crate) request: Value,
}

pub(crate) struct Hook {
    pub(crate) port: u16,
    pub(crate) ca_bundle: String,
    calls: Arc<Mutex<Vec<Call>>>,
    task: JoinHandle<()>,
}

impl Hook {
    /// Starts a webhook whose response (without uid) the function makes of the request.
    pub(crate) async fn start(answer: impl Fn(&Value) -> Value + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let names = vec!["127.0.0.1".to_owned(), "hook.default.svc".to_owned()];
        let certified = rcgen::generate_simple_self_signed(names).unwrap();
        let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(certified.signing_key.serialize_der()));
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let tls = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![certified.cert.der().clone()], key)
            .unwrap();
        let tls = TlsAcceptor::from(Arc::new(tls));
        let calls = Arc::new(Mutex::new(Vec::new()));
        let known = Arc::clone(&calls);
        let answer = Arc::new(answer);
        let task = tokio::spawn(async move {
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                let (tls, known, answer) = (tls.clone(), Arc::clone(&known), Arc::clone(&answer));
                tokio::spawn(async move {
                    let Ok(stream) = tls.accept(stream).await else {
                        return;
                    };
                    let service = service_fn(move |request: Request<Incoming>| {
                        let (known, answer) = (Arc::clone(&known), Arc::clone(&answer));
                        async move {
                            let path = request.uri().path_and_query().unwrap().to_string();
                            let body = request.into_body().collect().await.unwrap().to_bytes();
                            let review: Value = serde_json::from_slice(&body).unwrap();
                            let request = review["request"].clone();
                            known.lock().unwrap().push(Call { path, request: request.clone() });
                            // The answer may block: it plays whatever happens while a review is out.
                            let uid = request["uid"].clone();
                            let mut response = tokio::task::spawn_blocking(move || answer(&request)).await.unwrap();
                            response["uid"] = uid;
                            let review = json!({
                                "kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1", "response": response,
                            });
                            Ok::<_, Infallible>(Response::new(Full::new(Bytes::from(review.to_string()))))
                        }
                    });
                    let connection = hyper::server::conn::http1::Builder::new();
                    connection.serve_connection(TokioIo::new(stream), service).await.ok();
                });
            }
        });
        let ca_bundle = base64::engine::general_purpose::STANDARD.encode(certified.cert.pem());
        Self { port, ca_bundle, calls, task }
    }

    /// A webhook that allows.
    pub(crate) async fn allowing() -> Self {
        Self::start(|_| json!({"allowed": true})).await
    }

    /// A webhook that refuses like depguard.
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

    /// A configuration that sends this hook what one rule names.
    pub(crate) fn configuration(&self, rule: &Value) -> Value {
        json!({
            "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingWebhookConfiguration",
            "metadata": {"name": "guard"},
            "webhooks": [{
                "name": "guard.example.com", "admissionReviewVersions": ["v1"], "sideEffects": "None",
                "clientConfig": {"url": format!("https://127.0.0.1:{}/validate", self.port), "caBundle": self.ca_bundle},
                "rules": [rule],
            }],
        })
    }
}

impl Drop for Hook {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Deletes of a resource in whatever version.
pub(crate) fn deletes(group: &str, resource: &str) -> Value {
    json!({"apiGroups": [group], "apiVersions": ["*"], "resources": [resource], "operations": ["DELETE"]})
}

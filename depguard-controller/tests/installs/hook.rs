//! Webhook that allows everything except deletions that would take owned objects all at once. It lets installed
//! configurations be in force.

use std::convert::Infallible;
use std::path::PathBuf;
use std::sync::Arc;

use bytes::Bytes;
use depguard_core::Review;
use depguard_core::owners::OwnerEvaluation;
use http::{Request, Response};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use rustls::ServerConfig;
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;

/// Serves until the test ends. Returns the URL for rules, and the file of the certificates by which the webhook is
/// verified.
pub(crate) async fn allowing(folder: &TempDir) -> (String, PathBuf) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("https://127.0.0.1:{}/validate", listener.local_addr().unwrap().port());
    let certified = rcgen::generate_simple_self_signed(["127.0.0.1".to_owned()]).unwrap();
    let bundle = folder.path().join("hook.crt");
    std::fs::write(&bundle, certified.cert.pem()).unwrap();
    let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(certified.signing_key.serialize_der()));
    let tls = ServerConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![certified.cert.der().clone()], key)
        .unwrap();
    let tls = TlsAcceptor::from(Arc::new(tls));
    tokio::spawn(async move {
        loop {
            let (stream, _) = listener.accept().await.unwrap();
            let tls = tls.clone();
            tokio::spawn(async move {
                let Ok(stream) = tls.accept(stream).await else { return };
                let connection = hyper::server::conn::http1::Builder::new();
                connection.serve_connection(TokioIo::new(stream), service_fn(allow)).await.ok();
            });
        }
    });
    (url, bundle)
}

async fn allow(request: Request<Incoming>) -> Result<Response<Full<Bytes>>, Infallible> {
    let body = request.into_body().collect().await.unwrap().to_bytes();
    let review: Value = serde_json::from_slice(&body).unwrap();
    let of_owners = Review::parse(&body).ok().and_then(|review| OwnerEvaluation::begin(&review, &body).ok());
    let allowed = of_owners.is_none_or(|evaluation| evaluation.decide().allowed());
    let response = json!({"uid": review["request"]["uid"], "allowed": allowed});
    let review = json!({"kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1", "response": response});
    Ok(Response::new(Full::new(Bytes::from(review.to_string()))))
}

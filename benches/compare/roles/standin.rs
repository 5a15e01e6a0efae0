//! Stand-in for the reference's algorithm: for each DELETE, it lists every dependent and decodes all of them before it
//! looks at one.
//!
//! It uses the same client, pages and TLS as the other subjects. Its one rule is built in.

use std::convert::Infallible;
use std::sync::Arc;

use bytes::Bytes;
use depguard_core::{ControlPlane, LogicalCluster};
use depguard_kcp::{ConnectOptions, Connection};
use http::{Request, Response};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;

use super::Parent;
use crate::Result;
use crate::drain::page_path;
use crate::objects::Kind;
use crate::stock;

pub(super) async fn play(webhook: stock::Arguments) -> Result {
    let options = ConnectOptions::new(ControlPlane::Kcp).kubeconfig(webhook.kubeconfig);
    let connection = Connection::open(&options).await?;
    let certificates =
        CertificateDer::pem_file_iter(webhook.certificates.join("tls.crt"))?.collect::<std::result::Result<_, _>>()?;
    let key = PrivateKeyDer::from_pem_file(webhook.certificates.join("tls.key"))?;
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .with_no_client_auth()
        .with_single_cert(certificates, key)?;
    let listener = TcpListener::bind(("127.0.0.1", webhook.port)).await?;
    let mut parent = Parent::new(&json!({"address": listener.local_addr()?}));
    let serving = tokio::spawn(serve(listener, TlsAcceptor::from(Arc::new(config)), connection));
    while parent.question().await?.is_some() {}
    serving.abort();
    Ok(())
}

async fn serve(listener: TcpListener, tls: TlsAcceptor, connection: Connection) {
    while let Ok((stream, _)) = listener.accept().await {
        let (tls, connection) = (tls.clone(), connection.clone());
        tokio::spawn(async move {
            stream.set_nodelay(true).ok();
            let Ok(stream) = tls.accept(stream).await else { return };
            let service = service_fn(|request| answer(connection.clone(), request));
            http1::Builder::new().serve_connection(TokioIo::new(stream), service).await.ok();
        });
    }
}

async fn answer(
    connection: Connection,
    request: Request<Incoming>,
) -> std::result::Result<Response<Full<Bytes>>, Infallible> {
    let answered = match request.into_body().collect().await {
        Ok(body) => review(&connection, &body.to_bytes()).await,
        Err(error) => Err(error.into()),
    };
    Ok(match answered {
        Ok(review) => Response::new(Full::new(review.into())),
        Err(error) => {
            let mut response = Response::new(Full::new(error.to_string().into()));
            *response.status_mut() = http::StatusCode::INTERNAL_SERVER_ERROR;
            response
        }
    })
}

async fn review(connection: &Connection, body: &[u8]) -> Result<String> {
    let review: Value = serde_json::from_slice(body)?;
    let request = &review["request"];
    let metadata = &request["oldObject"]["metadata"];
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let cluster = LogicalCluster::parse(&text(&metadata["annotations"]["kcp.io/cluster"]))?;
    let name = text(&metadata["name"]);
    let blockers: Vec<String> = list(connection, &cluster)
        .await?
        .iter()
        .filter(|machine| machine["spec"]["vpcRef"]["name"] == *name)
        .map(|machine| format!("Machine/{}", text(&machine["metadata"]["name"])))
        .collect();
    let mut response = json!({"uid": request["uid"], "allowed": blockers.is_empty()});
    if !blockers.is_empty() {
        let message = format!("cannot delete olds/{name}: still referenced by {}", blockers.join(", "));
        response["status"] = json!({"code": 403, "reason": "Forbidden", "message": message});
    }
    Ok(json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": response}).to_string())
}

/// Lists and decodes all dependents before any is looked at.
async fn list(connection: &Connection, cluster: &LogicalCluster) -> Result<Vec<Value>> {
    let (mut all, mut token) = (Vec::new(), None);
    loop {
        let path = page_path(&Kind::Machine.collection(), token.as_deref());
        let response = connection.cluster(cluster).get(&path).await?;
        let mut list: Value = serde_json::from_slice(response.body())?;
        if !response.status().is_success() {
            return Err(list.to_string().into());
        }
        if let Value::Array(items) = list["items"].take() {
            all.extend(items);
        }
        token = list["metadata"]["continue"].as_str().filter(|token| !token.is_empty()).map(str::to_owned);
        if token.is_none() {
            return Ok(all);
        }
    }
}

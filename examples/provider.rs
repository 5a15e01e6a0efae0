//! Environment of a provider's webhook: a cluster with the provider's kinds, a TLS server, and the webhook's
//! registration.

use std::convert::Infallible;
use std::error::Error;
use std::net::SocketAddr;
use std::sync::Arc;

use depguard_core::{ControlPlane, RuleSet};
use depguard_kcp::{ConnectOptions, Connection, Endpoint, Preconditions};
use depguard_testbed::{Options, Testbed};
use http::{Request, Response};
use hyper::body::{Body, Incoming};
use hyper_util::rt::TokioIo;
use hyper_util::service::TowerToHyperService;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;
use tower::Service;

pub(crate) type Result<T> = std::result::Result<T, Box<dyn Error + Send + Sync>>;

const VPCS: &str = "/apis/network.example.com/v1alpha1/namespaces/default/vpcs";
const VMS: &str = "/apis/compute.example.com/v1alpha1/namespaces/default/virtualmachines";

/// Cluster with the provider's kinds.
pub(crate) struct Provider {
    testbed: Testbed,
    pub(crate) connection: Connection,
    cluster: Endpoint,
}

impl Provider {
    pub(crate) async fn start() -> Result<Self> {
        let testbed = Testbed::start(Options::kubernetes()).await?;
        let folder = tempfile::tempdir()?;
        let kubeconfig = folder.path().join("kubeconfig");
        std::fs::write(&kubeconfig, testbed.kubeconfig("", "admin"))?;
        let options = ConnectOptions::new(ControlPlane::Kubernetes).kubeconfig(kubeconfig);
        let connection = Connection::open(&options).await?;
        let cluster = connection.own_endpoint();
        for crd in serde_saphyr::from_multiple::<Value>(include_str!("provider/crds.yaml"))? {
            cluster.post_json("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", &crd).await?;
        }
        Ok(Self { testbed, connection, cluster })
    }

    /// Returns the rules that the provider ships. A wrong rule is an error at the start.
    pub(crate) fn rules() -> Result<RuleSet> {
        let rule: Value = serde_saphyr::from_str(include_str!("provider/rule.yaml"))?;
        Ok(RuleSet::try_load(ControlPlane::Kubernetes, [&rule])?)
    }

    /// Serves the webhook at that path, registers it, and shows its effect.
    pub(crate) async fn play<S, B>(self, path: &str, webhook: S) -> Result<()>
    where
        S: Service<Request<Incoming>, Response = Response<B>, Error = Infallible, Future: Send>
            + Clone
            + Send
            + 'static,
        B: Body<Data: Send, Error: Into<Box<dyn Error + Send + Sync>>> + Send + 'static,
    {
        let (address, ca) = serve(webhook).await?;
        self.register(&format!("https://{address}{path}"), &ca).await?;

        self.cluster.post_json(VPCS, &vpc()).await?;
        self.cluster.post_json(VMS, &virtual_machine()).await?;
        println!("created VPC/a and VirtualMachine/m1, which refers to it");
        match self.cluster.delete(&format!("{VPCS}/a"), Preconditions::default()).await {
            Err(refusal) if refusal.to_string().contains("still referenced by VirtualMachine/m1") => {
                println!("refused: {refusal}");
            }
            Err(error) => return Err(error.into()),
            Ok(_) => return Err("VPC/a was deleted although VirtualMachine/m1 refers to it".into()),
        }
        self.cluster.delete(&format!("{VMS}/m1"), Preconditions::default()).await?;
        self.cluster.delete(&format!("{VPCS}/a"), Preconditions::default()).await?;
        println!("deleted VirtualMachine/m1, then VPC/a");
        self.testbed.stop().await;
        Ok(())
    }

    async fn register(&self, url: &str, ca: &str) -> Result<()> {
        let configuration = json!({
            "apiVersion": "admissionregistration.k8s.io/v1",
            "kind": "ValidatingWebhookConfiguration",
            "metadata": {"name": "provider"},
            "webhooks": [{
                "name": "provider.network.example.com",
                "admissionReviewVersions": ["v1"],
                "clientConfig": {"url": url, "caBundle": base64(ca.as_bytes())},
                "failurePolicy": "Fail",
                "sideEffects": "None",
                "timeoutSeconds": 10,
                "rules": [{
                    "operations": ["DELETE"], "apiGroups": ["network.example.com"], "apiVersions": ["*"],
                    "resources": ["vpcs"],
                }],
            }],
        });
        let path = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations";
        self.cluster.post_json(path, &configuration).await?;
        Ok(())
    }
}

/// Starts an HTTPS server on a free port. Returns its address and the certificate that its clients must trust.
async fn serve<S, B>(webhook: S) -> Result<(SocketAddr, String)>
where
    S: Service<Request<Incoming>, Response = Response<B>, Error = Infallible, Future: Send> + Clone + Send + 'static,
    B: Body<Data: Send, Error: Into<Box<dyn Error + Send + Sync>>> + Send + 'static,
{
    let certified = rcgen::generate_simple_self_signed(["127.0.0.1".to_owned()])?;
    let key = rustls::pki_types::PrivateKeyDer::Pkcs8(certified.signing_key.serialize_der().into());
    let tls = rustls::ServerConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
        .with_safe_default_protocol_versions()?
        .with_no_client_auth()
        .with_single_cert(vec![certified.cert.der().clone()], key)?;
    let (acceptor, listener) = (TlsAcceptor::from(Arc::new(tls)), TcpListener::bind(("127.0.0.1", 0)).await?);
    let address = listener.local_addr()?;
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let (acceptor, service) = (acceptor.clone(), TowerToHyperService::new(webhook.clone()));
            tokio::spawn(async move {
                // The API server tries again, or refuses. There is nobody here to tell.
                if let Ok(stream) = acceptor.accept(stream).await {
                    let http = hyper::server::conn::http1::Builder::new();
                    let _ = http.serve_connection(TokioIo::new(stream), service).await;
                }
            });
        }
    });
    Ok((address, certified.cert.pem()))
}

fn vpc() -> Value {
    json!({
        "apiVersion": "network.example.com/v1alpha1", "kind": "VPC",
        "metadata": {"name": "a", "namespace": "default"},
    })
}

fn virtual_machine() -> Value {
    json!({
        "apiVersion": "compute.example.com/v1alpha1", "kind": "VirtualMachine",
        "metadata": {"name": "m1", "namespace": "default"},
        "spec": {"vpcRef": {"name": "a"}},
    })
}

/// Returns bytes as they stand in JSON.
fn base64(bytes: &[u8]) -> Value {
    json!(k8s_openapi::ByteString(bytes.to_vec()))
}

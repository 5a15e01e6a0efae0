//! Tests of calls to a TLS server: the certificates by which caller and server know each other.

use std::sync::Arc;
use std::time::Duration;

use depguard_kcp::{CallError, Caller};
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::server::WebPkiClientVerifier;
use tokio_rustls::rustls::{RootCertStore, ServerConfig};

struct Authority {
    pem: String,
    issuer: Issuer<'static, KeyPair>,
}

impl Authority {
    fn new() -> Self {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        Self { pem: params.self_signed(&key).unwrap().pem(), issuer: Issuer::new(params, key) }
    }

    /// Issues a certificate for this name. Returns the certificate and its key as PEM.
    fn issue(&self, name: &str) -> (String, String) {
        let key = KeyPair::generate().unwrap();
        let params = CertificateParams::new([name.to_owned()]).unwrap();
        (params.signed_by(&key, &self.issuer).unwrap().pem(), key.serialize_pem())
    }
}

/// Answers each connection's first request with `answer`. With `clients`, serves only callers for whom this authority
/// vouches.
async fn serve((chain, key): (String, String), clients: Option<&Authority>, answer: &'static str) -> String {
    let chain = CertificateDer::pem_slice_iter(chain.as_bytes()).collect::<Result<Vec<_>, _>>().unwrap();
    let key = PrivateKeyDer::from_pem_slice(key.as_bytes()).unwrap();
    let config = match clients {
        None => ServerConfig::builder().with_no_client_auth(),
        Some(authority) => {
            let mut roots = RootCertStore::empty();
            roots.add(CertificateDer::from_pem_slice(authority.pem.as_bytes()).unwrap()).unwrap();
            ServerConfig::builder()
                .with_client_cert_verifier(WebPkiClientVerifier::builder(roots.into()).build().unwrap())
        }
    };
    let acceptor = TlsAcceptor::from(Arc::new(config.with_single_cert(chain, key).unwrap()));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    tokio::spawn(async move {
        loop {
            let (stream, _) = listener.accept().await.unwrap();
            let Ok(mut stream) = acceptor.accept(stream).await else { continue };
            let mut bytes = [0; 4096];
            let _ = stream.read(&mut bytes).await;
            let _ = stream.write_all(answer.as_bytes()).await;
            let _ = stream.shutdown().await;
        }
    });
    format!("https://127.0.0.1:{port}/validate")
}

const OK: &str = "HTTP/1.1 200 x\r\ncontent-length: 2\r\nconnection: close\r\n\r\nhi";

async fn post(caller: Result<Caller, CallError>) -> Result<String, CallError> {
    let answer = caller?.post(b"{}".to_vec(), 16, Duration::from_secs(5)).await?;
    Ok(String::from_utf8(answer.to_vec()).unwrap())
}

#[tokio::test]
async fn a_server_is_known_by_its_certificate_and_its_name() {
    let (ours, other) = (Authority::new(), Authority::new());
    let url = serve(ours.issue("hook.ns.svc"), None, OK).await;
    let (ca, wrong) = (ours.pem.as_bytes(), other.pem.as_bytes());
    assert_eq!(post(Caller::new(&url, Some(ca), Some("hook.ns.svc"), None)).await.unwrap(), "hi");
    // While a CA is renewed, both certificates are given.
    let both = format!("{}{}", other.pem, ours.pem);
    assert_eq!(post(Caller::new(&url, Some(both.as_bytes()), Some("hook.ns.svc"), None)).await.unwrap(), "hi");
    for (roots, name) in [(wrong, Some("hook.ns.svc")), (ca, Some("other.ns.svc")), (ca, None)] {
        let error = post(Caller::new(&url, Some(roots), name, None)).await.unwrap_err();
        assert!(matches!(error, CallError::Certificate(_)), "{error}");
    }
    let error = post(Caller::new(&url, Some(b"nothing"), None, None)).await.unwrap_err();
    assert!(matches!(error, CallError::Unusable(_)), "{error}");
}

/// Uses a certificate as `openssl req -x509` makes them.
#[tokio::test]
async fn a_certificate_that_is_its_own_ca_is_refused_in_plain_words() {
    let key = KeyPair::generate().unwrap();
    let mut params = CertificateParams::new(["hook.ns.svc".to_owned()]).unwrap();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let pem = params.self_signed(&key).unwrap().pem();
    let url = serve((pem.clone(), key.serialize_pem()), None, OK).await;
    let error = post(Caller::new(&url, Some(pem.as_bytes()), Some("hook.ns.svc"), None)).await.unwrap_err();
    let text = error.to_string();
    assert!(matches!(error, CallError::Certificate(_)) && text.contains("a CA certificate"), "{text}");
}

#[tokio::test]
async fn who_calls_is_shown_where_it_is_asked() {
    let (ours, callers) = (Authority::new(), Authority::new());
    let url = serve(ours.issue("127.0.0.1"), Some(&callers), OK).await;
    let folder = tempfile::tempdir().unwrap();
    let call = async |identity| post(Caller::new(&url, Some(ours.pem.as_bytes()), None, identity)).await;
    let error = call(None).await.unwrap_err();
    assert!(matches!(error, CallError::ClientCertificate(_)), "{error}");
    for (authority, known) in [(&callers, true), (&ours, false)] {
        let (certificate, key) = authority.issue("controller");
        std::fs::write(folder.path().join("tls.crt"), certificate).unwrap();
        std::fs::write(folder.path().join("tls.key"), key).unwrap();
        match call(Some(folder.path())).await {
            Ok(answer) => assert!(known && answer == "hi"),
            Err(error) => assert!(!known && matches!(error, CallError::ClientCertificate(_)), "{error}"),
        }
    }
}

#[tokio::test]
async fn another_answer_than_200_and_a_long_one_are_told() {
    let ours = Authority::new();
    let ca = Some(ours.pem.as_bytes());
    let gone = "HTTP/1.1 404 x\r\ncontent-length: 4\r\nconnection: close\r\n\r\nnone";
    let url = serve(ours.issue("127.0.0.1"), None, gone).await;
    let error = post(Caller::new(&url, ca, None, None)).await.unwrap_err();
    assert_eq!(error, CallError::Status { status: 404, text: "none".to_owned() });
    let long = "HTTP/1.1 200 x\r\ncontent-length: 17\r\nconnection: close\r\n\r\n01234567890123456";
    let url = serve(ours.issue("127.0.0.1"), None, long).await;
    assert_eq!(post(Caller::new(&url, ca, None, None)).await.unwrap_err(), CallError::TooLong(16));
    let error = post(Caller::new("https://127.0.0.1:1/validate", ca, None, None)).await.unwrap_err();
    assert!(matches!(error, CallError::Unreachable(_)), "{error}");
    assert!(matches!(post(Caller::new("http://127.0.0.1/", ca, None, None)).await, Err(CallError::Unusable(_))));
}

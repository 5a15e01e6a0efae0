//! Client of the webhook's port, as an API server is one, or anybody else.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use crate::Result;

/// Time that an API server waits for an answer.
const PATIENCE: Duration = Duration::from_secs(10);

#[derive(Clone)]
pub(crate) struct Client {
    port: u16,
    tls: TlsConnector,
}

impl Client {
    /// Makes a client that trusts the authority in a file.
    pub(crate) fn new(port: u16, authority: &Path) -> Result<Self> {
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from_pem_file(authority)?)?;
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let tls = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()?
            .with_root_certificates(roots)
            .with_no_client_auth();
        Ok(Self { port, tls: TlsConnector::from(Arc::new(tls)) })
    }

    /// Posts a review on a connection of its own, and returns what the answer's `response` says.
    pub(crate) async fn post(&self, path: &str, review: &str) -> Result<Value> {
        let answered = timeout(PATIENCE, async {
            let mut stream = self.begin(path, review.as_bytes(), review.len()).await?;
            let mut answer = String::new();
            // The server may close the connection without a word more.
            let _ = stream.read_to_string(&mut answer).await;
            Ok::<_, Box<dyn std::error::Error + Send + Sync>>(answer)
        });
        let answer = answered.await??;
        let (head, body) = answer.split_once("\r\n\r\n").ok_or("no answer")?;
        let review: Value = serde_json::from_str(body).map_err(|_| format!("{head}: {body}"))?;
        Ok(review["response"].clone())
    }

    /// Sends the beginning of a review of this length.
    pub(crate) async fn begin(&self, path: &str, beginning: &[u8], length: usize) -> Result<TlsStream<TcpStream>> {
        let stream = TcpStream::connect(("127.0.0.1", self.port)).await?;
        let mut stream = self.tls.connect(ServerName::try_from("127.0.0.1")?, stream).await?;
        let head = format!(
            "POST {path}?timeout=10s HTTP/1.1\r\nhost: webhook\r\ncontent-type: application/json\r\n\
             connection: close\r\ncontent-length: {length}\r\n\r\n"
        );
        stream.write_all(head.as_bytes()).await?;
        stream.write_all(beginning).await?;
        stream.flush().await?;
        Ok(stream)
    }
}

//! Client that deletes. Its connections are opened beforehand, so that only the DELETE is measured.

use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use http::Request;
use http::header::{AUTHORIZATION, HOST, USER_AGENT};
use http_body_util::{BodyExt, Full};
use hyper::client::conn::http1::{self, SendRequest};
use hyper_util::rt::TokioIo;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use serde_json::Value;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use crate::Result;
use crate::server::of_kubeconfig;

/// Client of the administrator, in one workspace.
#[derive(Clone)]
pub(crate) struct Client {
    authority: String,
    prefix: String,
    token: String,
    tls: Arc<ClientConfig>,
}

/// Connection of a client.
pub(crate) struct Line {
    client: Client,
    sender: SendRequest<Full<Bytes>>,
}

/// Answer to a DELETE.
#[derive(Debug, Clone)]
pub(crate) struct Deleted {
    pub(crate) status: u16,
    pub(crate) message: String,
}

impl Client {
    /// Makes a client from a kubeconfig of [`crate::server::Server::kubeconfig`].
    pub(crate) fn new(kubeconfig: &Path) -> Result<Self> {
        let config: Value = serde_json::from_slice(&std::fs::read(kubeconfig)?)?;
        let url = of_kubeconfig(&config, "/clusters/0/cluster/server")?.trim_start_matches("https://");
        let (authority, path) = url.split_once('/').ok_or("the server's URL has no path")?;
        let mut roots = RootCertStore::empty();
        for certificate in
            CertificateDer::pem_file_iter(of_kubeconfig(&config, "/clusters/0/cluster/certificate-authority")?)?
        {
            roots.add(certificate?)?;
        }
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let tls = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()?
            .with_root_certificates(roots)
            .with_no_client_auth();
        Ok(Self {
            authority: authority.to_owned(),
            prefix: format!("/{path}"),
            token: of_kubeconfig(&config, "/users/0/user/token")?.to_owned(),
            tls: Arc::new(tls),
        })
    }

    pub(crate) async fn open(&self) -> Result<Line> {
        let stream = self.connect(b"http/1.1").await?;
        let (sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
        tokio::spawn(connection);
        Ok(Line { client: self.clone(), sender })
    }

    /// Opens a connection with TLS for one protocol.
    pub(crate) async fn connect(&self, protocol: &[u8]) -> Result<TlsStream<TcpStream>> {
        let stream = TcpStream::connect(&self.authority).await?;
        stream.set_nodelay(true)?;
        let host = self.authority.rsplit_once(':').map_or(self.authority.as_str(), |(host, _)| host);
        let mut config = ClientConfig::clone(&self.tls);
        config.alpn_protocols = vec![protocol.to_vec()];
        let name = ServerName::try_from(host.to_owned())?;
        Ok(TlsConnector::from(Arc::new(config)).connect(name, stream).await?)
    }

    /// Returns a GET of a path in the workspace, with all headers except the protocol's own.
    pub(crate) fn get(&self, path: &str) -> http::request::Builder {
        Request::get(format!("https://{}{}{path}", self.authority, self.prefix))
            .header(AUTHORIZATION, format!("Bearer {}", self.token))
            .header(USER_AGENT, "compare")
    }

    /// Opens many connections, a few at a time.
    pub(crate) async fn open_all(&self, count: usize) -> Result<Vec<Line>> {
        use futures::stream::{StreamExt, TryStreamExt};
        futures::stream::iter(0..count).map(|_| self.open()).buffer_unordered(8).try_collect().await
    }
}

impl Line {
    /// Requests a deletion as a dry run. Admission reviews it all the same.
    pub(crate) async fn dry_run_delete(&mut self, path: &str) -> Result<Deleted> {
        let separator = if path.contains('?') { '&' } else { '?' };
        let request = Request::delete(format!("{}{path}{separator}dryRun=All", self.client.prefix))
            .header(HOST, &self.client.authority)
            .header(AUTHORIZATION, format!("Bearer {}", self.client.token))
            .header(USER_AGENT, "compare")
            .body(Full::default())?;
        self.sender.ready().await?;
        let response = self.sender.send_request(request).await?;
        let status = response.status().as_u16();
        let body = response.into_body().collect().await?.to_bytes();
        // A success returns the whole object or collection. Only a failure's message is of interest.
        let message = match status {
            200..300 => String::new(),
            _ => {
                let status: Value = serde_json::from_slice(&body).unwrap_or_default();
                status["message"].as_str().map_or_else(|| String::from_utf8_lossy(&body).into_owned(), str::to_owned)
            }
        };
        Ok(Deleted { status, message })
    }
}

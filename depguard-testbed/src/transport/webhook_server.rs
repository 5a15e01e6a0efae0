//! HTTPS server for a webhook that runs in the test's own process.

use std::net::{Ipv4Addr, SocketAddr};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use http::{Request, Response};
use hyper::body::{Body, Incoming};
use hyper_util::service::TowerToHyperService;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio_rustls::TlsAcceptor;
use tower::Service;

use crate::transport::StartError;
use crate::transport::listener::{self, BoxError};
use crate::transport::tls;

/// Server of a webhook on a free port of 127.0.0.1, with a certificate of its own. Call [`stop`](Self::stop) to end it
/// with all of its connections; dropping it aborts the server.
///
/// ```
/// use std::convert::Infallible;
///
/// use bytes::Bytes;
/// use depguard_testbed::WebhookServer;
/// use http::{Request, Response};
/// use http_body_util::Full;
/// use hyper::body::Incoming;
/// use serde_json::json;
///
/// # tokio::runtime::Runtime::new()?.block_on(async {
/// let service = tower::service_fn(async |_: Request<Incoming>| {
///     Ok::<_, Infallible>(Response::new(Full::new(Bytes::from_static(b"an AdmissionReview with an answer"))))
/// });
/// let webhook = WebhookServer::start(service).await?;
/// let client_config = json!({"url": format!("{}/validate", webhook.url()), "caBundle": webhook.ca_bundle()});
/// # assert!(client_config["url"].as_str().unwrap().starts_with("https://127.0.0.1:"));
/// webhook.stop().await;
/// # Ok::<(), Box<dyn std::error::Error>>(()) })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct WebhookServer {
    address: SocketAddr,
    url: String,
    ca_pem: String,
    stopped: watch::Sender<bool>,
    task: Option<JoinHandle<()>>,
}

impl WebhookServer {
    /// Starts to serve a service, whatever the path. The server answers when this returns.
    pub async fn start<S, B>(service: S) -> Result<Self, StartError>
    where
        S: Service<Request<Incoming>, Response = Response<B>, Error: Into<BoxError>, Future: Send>,
        S: Clone + Send + 'static,
        B: Body<Data: Send, Error: Into<BoxError>> + Send + 'static,
    {
        Self::serve(service, &[]).await
    }

    /// Starts likewise a server for a `clientConfig.service` with that namespace and name, whose address
    /// [`Options::service`](crate::Options::service) sets.
    pub async fn of_service<S, B>(namespace: &str, name: &str, service: S) -> Result<Self, StartError>
    where
        S: Service<Request<Incoming>, Response = Response<B>, Error: Into<BoxError>, Future: Send>,
        S: Clone + Send + 'static,
        B: Body<Data: Send, Error: Into<BoxError>> + Send + 'static,
    {
        Self::serve(service, &[format!("{name}.{namespace}.svc")]).await
    }

    async fn serve<S, B>(service: S, names: &[String]) -> Result<Self, StartError>
    where
        S: Service<Request<Incoming>, Response = Response<B>, Error: Into<BoxError>, Future: Send>,
        S: Clone + Send + 'static,
        B: Body<Data: Send, Error: Into<BoxError>> + Send + 'static,
    {
        let (server, ca_pem) = tls::make_webhook_identity(names)?;
        let listen = |source| StartError::Listen { port: 0, source };
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.map_err(listen)?;
        let address = listener.local_addr().map_err(listen)?;
        let (stopped, stop) = watch::channel(false);
        let tls = TlsAcceptor::from(server);
        let serving = listener::run(listener, move || tls.clone(), TowerToHyperService::new(service), stop);
        let url = format!("https://{address}");
        Ok(Self { address, url, ca_pem, stopped, task: Some(tokio::spawn(serving)) })
    }

    /// Returns the address of the server.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Returns the base URL, `https://127.0.0.1:<port>`.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Returns the certificate authority that signed the server's certificate.
    pub fn ca_pem(&self) -> &str {
        &self.ca_pem
    }

    /// Returns the same authority as a `clientConfig.caBundle`: base64 of PEM.
    pub fn ca_bundle(&self) -> String {
        STANDARD.encode(&self.ca_pem)
    }

    /// Ends the server: answers in progress are cut, and the port is closed when this returns.
    pub async fn stop(mut self) {
        self.stopped.send_replace(true);
        if let Some(task) = self.task.take() {
            // The task neither panics nor was aborted before.
            task.await.ok();
        }
    }
}

impl Drop for WebhookServer {
    fn drop(&mut self) {
        if let Some(task) = &self.task {
            task.abort();
        }
    }
}

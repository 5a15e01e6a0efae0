//! Connection stack: TCP, TLS, pooled HTTP/1.1, the kubeconfig's credentials.

use std::time::Duration;

use http::header::{HeaderValue, USER_AGENT};
use http::{Request, Response};
use hyper::body::Incoming;
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use kube_client::client::{Body, ConfigExt};
use tower::timeout::Timeout;
use tower::util::BoxCloneSyncService;
use tower::{BoxError, ServiceBuilder};

use crate::http::request_log::RequestLog;

/// Service that sends requests whose URI is absolute. Clones share connections and credentials.
pub(crate) type Transport = BoxCloneSyncService<Request<Body>, Response<Incoming>, BoxError>;

/// Time limit for opening a connection, including its TLS handshake.
pub(crate) const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// Interval of TCP keepalives. A dead peer is noticed within a minute, even if nobody writes.
const KEEPALIVE: Duration = Duration::from_secs(30);

/// Maximum of idle connections that are kept, even after a burst of lookups.
const MAX_IDLE: usize = 64;

/// User agent. An API server indents JSON for clients that it takes for a browser or curl.
const AGENT: HeaderValue = HeaderValue::from_static(concat!("depguard/", env!("CARGO_PKG_VERSION")));

/// Builds the stack. Blocks while an exec plugin of the kubeconfig runs.
pub(crate) fn build(config: &kube_client::Config) -> Result<Transport, kube_client::Error> {
    // This fails only if a provider is installed already, which is then the embedder's choice.
    let _ = rustls::crypto::ring::default_provider().install_default();

    let mut tcp = HttpConnector::new();
    tcp.enforce_http(false);
    tcp.set_nodelay(true);
    tcp.set_keepalive(Some(KEEPALIVE));
    let tls = config.rustls_https_connector_with_connector(tcp)?;
    // The timeout covers TLS too: a server that accepts and then stays silent must not hold a request for ever.
    let connector = BoxCloneSyncService::new(Timeout::new(tls, CONNECT_TIMEOUT));
    let client = Client::builder(TokioExecutor::new())
        .pool_timer(TokioTimer::new())
        .pool_max_idle_per_host(MAX_IDLE)
        .build(connector);

    let transport = ServiceBuilder::new()
        .layer(config.extra_headers_layer()?)
        .option_layer(config.auth_layer()?)
        .map_request(|mut request: Request<Body>| {
            request.headers_mut().entry(USER_AGENT).or_insert(AGENT);
            request
        })
        .map_err(BoxError::from)
        .service(client);
    Ok(Transport::new(transport))
}

/// Logs each request that is sent over a stack. The log is above the credentials, so it never shows them.
pub(crate) fn logged(transport: Transport, log: RequestLog) -> Transport {
    Transport::new(tower::service_fn(move |request| {
        let (log, transport) = (log.clone(), transport.clone());
        async move { log.send(transport, request).await }
    }))
}

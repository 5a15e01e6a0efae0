//! TLS listener: one task accepts, one task serves each connection, and all of them end with the listener.

use std::time::Duration;

use http::{Request, Response};
use hyper::body::{Body, Incoming};
use hyper::server::conn::http1;
use hyper::service::Service;
use hyper_util::rt::TokioIo;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::timeout;
use tokio_rustls::TlsAcceptor;

const HANDSHAKE: Duration = Duration::from_secs(10);

pub(crate) type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// Serves until `stopped` changes, then drops every connection. `tls` is called for each new connection.
pub(crate) async fn run<S, B>(
    listener: TcpListener,
    tls: impl Fn() -> TlsAcceptor,
    service: S,
    mut stopped: watch::Receiver<bool>,
) where
    S: Service<Request<Incoming>, Response = Response<B>> + Clone + Send + 'static,
    S::Future: Send,
    S::Error: Into<BoxError>,
    B: Body + Send + 'static,
    B::Data: Send,
    B::Error: Into<BoxError>,
{
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            _ = stopped.changed() => break,
            accepted = listener.accept() => match accepted {
                Ok((stream, _)) => {
                    connections.spawn(connection(stream, tls(), service.clone()));
                }
                // Most likely there are no descriptors left: their holders get a moment to close some.
                Err(_) => tokio::time::sleep(Duration::from_millis(50)).await,
            },
            Some(_) = connections.join_next() => {}
        }
    }
    connections.shutdown().await;
}

async fn connection<S, B>(stream: TcpStream, tls: TlsAcceptor, service: S)
where
    S: Service<Request<Incoming>, Response = Response<B>>,
    S::Error: Into<BoxError>,
    B: Body + 'static,
    B::Error: Into<BoxError>,
{
    stream.set_nodelay(true).ok();
    let Ok(Ok(stream)) = timeout(HANDSHAKE, tls.accept(stream)).await else {
        return;
    };
    // Without a timer, hyper closes no idle connection. It would after 30 s, and a request that crosses the close fails: a
    // kube-apiserver keeps a connection for longer than its clients do.
    let served = http1::Builder::new().serve_connection(TokioIo::new(stream), service).await;
    if let Err(why) = served {
        tracing::debug!(%why, "connection ended");
    }
}

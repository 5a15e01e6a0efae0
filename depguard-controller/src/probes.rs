//! `/healthz` and `/readyz`.

use std::convert::Infallible;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{Method, Request, Response, StatusCode};
use http_body_util::Full;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, watch};
use tokio::task::{JoinHandle, JoinSet};

/// Connections at once; further ones wait.
const CONNECTIONS: usize = 32;
/// How long a connection may last: it serves one request.
const CONNECTION: Duration = Duration::from_secs(5);

/// How the controller is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Readiness {
    /// Everything is loaded and was carried out once.
    Ready,
    /// Not so, and why.
    NotReady(String),
    /// It has ended, and must be started anew.
    Dead,
}

impl Readiness {
    /// No longer ready, or not yet. Whether that is news.
    pub(crate) fn lose(&mut self, why: String) -> bool {
        let lost = Self::NotReady(why);
        let news = *self != lost;
        *self = lost;
        news
    }

    fn answer(&self, method: &Method, path: &str) -> (StatusCode, String) {
        let ok = (StatusCode::OK, "ok\n".to_owned());
        let dead = (StatusCode::INTERNAL_SERVER_ERROR, "the controller has ended: start it anew\n".to_owned());
        match (path, self) {
            ("/healthz" | "/readyz", _) if method != Method::GET && method != Method::HEAD => {
                (StatusCode::METHOD_NOT_ALLOWED, "only GET\n".to_owned())
            }
            ("/healthz" | "/readyz", Self::Dead) => dead,
            ("/healthz", _) | ("/readyz", Self::Ready) => ok,
            ("/readyz", Self::NotReady(why)) => (StatusCode::SERVICE_UNAVAILABLE, format!("not ready: {why}\n")),
            _ => (StatusCode::NOT_FOUND, "there is /healthz and /readyz\n".to_owned()),
        }
    }
}

/// Serves until the task is aborted, or whoever tells the readiness is gone. Gives the address, for a port of 0.
pub(crate) async fn serve(
    address: SocketAddr,
    readiness: watch::Receiver<Readiness>,
) -> io::Result<(SocketAddr, JoinHandle<()>)> {
    let listener = match TcpListener::bind(address).await {
        // Every IPv6 address means every address; a machine may have IPv4 alone.
        Err(why) if address.ip() == IpAddr::V6(Ipv6Addr::UNSPECIFIED) && why.kind() != io::ErrorKind::AddrInUse => {
            TcpListener::bind((Ipv4Addr::UNSPECIFIED, address.port())).await?
        }
        listener => listener?,
    };
    let address = listener.local_addr()?;
    Ok((address, tokio::spawn(accept(listener, readiness))))
}

async fn accept(listener: TcpListener, readiness: watch::Receiver<Readiness>) {
    let room = Arc::new(Semaphore::new(CONNECTIONS));
    let mut connections = JoinSet::new();
    loop {
        let Ok(place) = room.clone().acquire_owned().await else { return };
        while connections.try_join_next().is_some() {}
        match listener.accept().await {
            Ok((stream, _)) => {
                let readiness = readiness.clone();
                connections.spawn(async move {
                    // A caller that is slow or breaks off harms nobody.
                    let _ = tokio::time::timeout(CONNECTION, connection(stream, readiness)).await;
                    drop(place);
                });
            }
            Err(why) => {
                tracing::warn!("cannot take a probe's connection: {why}");
                tokio::time::sleep(Duration::from_secs(1)).await;
            }
        }
    }
}

async fn connection(stream: TcpStream, readiness: watch::Receiver<Readiness>) {
    let service = service_fn(move |request: Request<hyper::body::Incoming>| {
        let (status, text) = readiness.borrow().answer(request.method(), request.uri().path());
        let mut response = Response::new(Full::new(Bytes::from(text)));
        *response.status_mut() = status;
        std::future::ready(Ok::<_, Infallible>(response))
    });
    let mut server = http1::Builder::new();
    let served = server.timer(TokioTimer::new()).keep_alive(false).serve_connection(TokioIo::new(stream), service);
    if let Err(why) = served.await {
        tracing::debug!("probe: {why}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn alive_before_it_is_ready_and_neither_once_it_has_ended() {
        let codes = |readiness: Readiness| {
            ["/healthz", "/readyz", "/"].map(|path| readiness.answer(&Method::GET, path).0.as_u16())
        };
        assert_eq!(codes(Readiness::NotReady("no rules".to_owned())), [200, 503, 404]);
        assert_eq!(codes(Readiness::Ready), [200, 200, 404]);
        assert_eq!(codes(Readiness::Dead), [500, 500, 404]);
        assert_eq!(Readiness::Ready.answer(&Method::POST, "/readyz").0, StatusCode::METHOD_NOT_ALLOWED);
    }
}

//! `/healthz` and `/readyz`, as kubelets ask for them.

use std::convert::Infallible;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{Method, Request, Response, StatusCode};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

/// Connections at once; further ones wait.
const CONNECTIONS: usize = 32;
/// How long a connection may last: it serves one request.
const CONNECTION: Duration = Duration::from_secs(5);
/// How often, and with what pause, an address that is taken is tried again.
const TAKEN: (usize, Duration) = (20, Duration::from_millis(50));

/// How a service is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Health {
    /// It does its work.
    Ready,
    /// It can't do its work now, and why.
    NotReady(String),
    /// It has ended, and must be started anew.
    Dead,
}

/// Listens for probes.
#[derive(Debug)]
pub struct Probes {
    listener: TcpListener,
    address: SocketAddr,
}

/// Listens on an address; port 0 is any free one.
///
/// Every IPv6 address means every IPv4 address too, also on a machine without IPv6. An address that is taken is tried
/// again for a second: a server that was just stopped may not have let go of it yet.
pub async fn listen(address: SocketAddr) -> io::Result<(TcpListener, SocketAddr)> {
    let mut tries = 0;
    loop {
        match listen_once(address).await {
            Err(why) if why.kind() == io::ErrorKind::AddrInUse && tries < TAKEN.0 => tries = tries.saturating_add(1),
            listener => {
                let listener = listener?;
                let address = listener.local_addr()?;
                return Ok((listener, address));
            }
        }
        sleep(TAKEN.1).await;
    }
}

async fn listen_once(address: SocketAddr) -> io::Result<TcpListener> {
    match TcpListener::bind(address).await {
        Err(why) if address.ip() == IpAddr::V6(Ipv6Addr::UNSPECIFIED) && why.kind() != io::ErrorKind::AddrInUse => {
            TcpListener::bind((Ipv4Addr::UNSPECIFIED, address.port())).await
        }
        listener => listener,
    }
}

impl Probes {
    /// Listens as [`listen`] does.
    pub async fn bind(address: SocketAddr) -> io::Result<Self> {
        let (listener, address) = listen(address).await?;
        Ok(Self { listener, address })
    }

    /// Where.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Answers until the future is dropped, and its connections with it.
    pub async fn serve(self, health: impl Fn() -> Health + Clone + Send + Sync + 'static) {
        let room = Arc::new(Semaphore::new(CONNECTIONS));
        let mut connections = JoinSet::new();
        loop {
            let Ok(place) = room.clone().acquire_owned().await else { return };
            while connections.try_join_next().is_some() {}
            match self.listener.accept().await {
                Ok((stream, _)) => {
                    let health = health.clone();
                    connections.spawn(async move {
                        // A caller that is slow or breaks off harms nobody.
                        let _ = timeout(CONNECTION, connection(stream, health)).await;
                        drop(place);
                    });
                }
                Err(why) => {
                    tracing::warn!("cannot take a probe's connection: {why}");
                    sleep(Duration::from_secs(1)).await;
                }
            }
        }
    }
}

impl Health {
    fn answer(&self, method: &Method, path: &str) -> (StatusCode, String) {
        let ok = (StatusCode::OK, "ok\n".to_owned());
        match (path, self) {
            ("/healthz" | "/readyz", _) if method != Method::GET && method != Method::HEAD => {
                (StatusCode::METHOD_NOT_ALLOWED, "only GET\n".to_owned())
            }
            ("/healthz" | "/readyz", Self::Dead) => {
                (StatusCode::INTERNAL_SERVER_ERROR, "it has ended: start it anew\n".to_owned())
            }
            ("/healthz", _) | ("/readyz", Self::Ready) => ok,
            ("/readyz", Self::NotReady(why)) => (StatusCode::SERVICE_UNAVAILABLE, format!("not ready: {why}\n")),
            _ => (StatusCode::NOT_FOUND, "there is only /healthz and /readyz\n".to_owned()),
        }
    }
}

async fn connection(stream: TcpStream, health: impl Fn() -> Health) {
    let service = service_fn(move |request: Request<Incoming>| {
        let (status, text) = health().answer(request.method(), request.uri().path());
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
        let codes =
            |health: Health| ["/healthz", "/readyz", "/"].map(|path| health.answer(&Method::GET, path).0.as_u16());
        assert_eq!(codes(Health::NotReady("no rules".to_owned())), [200, 503, 404]);
        assert_eq!(codes(Health::Ready), [200, 200, 404]);
        assert_eq!(codes(Health::Dead), [500, 500, 404]);
        assert_eq!(Health::Ready.answer(&Method::POST, "/readyz").0, StatusCode::METHOD_NOT_ALLOWED);
    }
}

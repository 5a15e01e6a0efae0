//! Server without TLS for requests from the cluster itself: probes and metrics. One request a connection.

use std::convert::Infallible;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::header::{CONTENT_TYPE, HeaderValue};
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

/// Maximum of connections at a time; further ones wait.
const MAX_CONNECTIONS: usize = 32;
/// Time limit of a connection, which serves one request.
const CONNECTION: Duration = Duration::from_secs(5);
/// Number of further tries, and the pause between them, if an address is in use.
const TAKEN: (usize, Duration) = (20, Duration::from_millis(50));

/// Listener of a server that answers GET and HEAD.
#[derive(Debug)]
pub(crate) struct PlainServer {
    listener: TcpListener,
    address: SocketAddr,
}

/// Answer of the server.
#[derive(Debug)]
pub(crate) struct Plain {
    pub(crate) status: StatusCode,
    pub(crate) content_type: &'static str,
    pub(crate) body: String,
}

/// Listens on an address; port 0 stands for any free port.
///
/// The unspecified IPv6 address (`[::]`) covers all IPv4 addresses too, and works also on a machine without IPv6. An
/// address in use is tried again for a second, because a server that was just stopped may still hold it.
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

impl PlainServer {
    /// Listens as [`listen`] does.
    pub(crate) async fn bind(address: SocketAddr) -> io::Result<Self> {
        let (listener, address) = listen(address).await?;
        Ok(Self { listener, address })
    }

    /// Returns the address of the listener.
    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Answers GET and HEAD until the future is dropped. Its connections end with it.
    pub(crate) async fn serve(self, answer: impl Fn(&str) -> Plain + Clone + Send + Sync + 'static) {
        let permits = Arc::new(Semaphore::new(MAX_CONNECTIONS));
        let mut connections = JoinSet::new();
        loop {
            let Ok(place) = permits.clone().acquire_owned().await else { return };
            while connections.try_join_next().is_some() {}
            match self.listener.accept().await {
                Ok((stream, _)) => {
                    let answer = answer.clone();
                    connections.spawn(async move {
                        // A caller that is slow or hangs up harms nobody.
                        let _ = timeout(CONNECTION, connection(stream, answer)).await;
                        drop(place);
                    });
                }
                Err(why) => {
                    tracing::warn!(address = %self.address, "cannot accept a connection: {why}");
                    sleep(Duration::from_secs(1)).await;
                }
            }
        }
    }
}

impl Plain {
    /// Returns an answer with a sentence for people.
    pub(crate) fn text(status: StatusCode, body: impl Into<String>) -> Self {
        Self { status, content_type: "text/plain; charset=utf-8", body: body.into() }
    }
}

impl From<Plain> for Response<Full<Bytes>> {
    fn from(Plain { status, content_type, body }: Plain) -> Self {
        let mut response = Self::new(Full::new(Bytes::from(body)));
        *response.status_mut() = status;
        response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
        response
    }
}

async fn connection(stream: TcpStream, answer: impl Fn(&str) -> Plain) {
    let service = service_fn(move |request: Request<Incoming>| {
        let answered = match *request.method() {
            Method::GET | Method::HEAD => answer(request.uri().path()),
            _ => Plain::text(StatusCode::METHOD_NOT_ALLOWED, "only GET\n"),
        };
        std::future::ready(Ok::<_, Infallible>(Response::from(answered)))
    });
    let mut server = http1::Builder::new();
    let served = server.timer(TokioTimer::new()).keep_alive(false).serve_connection(TokioIo::new(stream), service);
    if let Err(why) = served.await {
        tracing::debug!("connection: {why}");
    }
}

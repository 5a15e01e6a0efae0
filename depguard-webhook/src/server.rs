//! Listener and its connections, with their number, their timeouts, and their end.

pub(crate) mod client_ca;
pub(crate) mod idle_timeout;
mod lingering_close;
pub(crate) mod tasks;
pub(crate) mod tls;

use std::convert::Infallible;
use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bytes::Bytes;
use depguard_kcp::latest;
use http::header::{CONNECTION, HeaderValue};
use http::{Request, Response};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use rustls::ServerConfig;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::time::{sleep, timeout};
use tokio_rustls::TlsAcceptor;
use tower::{Service, ServiceExt};

use crate::limits::gauged_semaphore::GaugedSemaphore;
use crate::server::idle_timeout::Activity;
use crate::server::lingering_close::LingeringClose;
use crate::server::tasks::Tasks;

/// Maximum number of connections; further ones wait in the operating system's queue.
const MAX_CONNECTIONS: usize = 1024;
/// Maximum number of requests at once on one HTTP/2 connection.
const MAX_STREAMS: u32 = 250;
/// Maximum length of the headers of an HTTP/1.1 request, and of what is read ahead of its body, in bytes.
const MAX_BUFFERED: usize = 64 << 10;
/// Maximum length of the headers of an HTTP/2 request, in bytes. An API server's are some 300.
const MAX_HEADERS: u32 = 16 << 10;
/// Number of bytes that an HTTP/2 peer may send ahead on a stream; on a connection four times as many. No other limit counts
/// these bytes: all connections together hold at most 64 MiB, as those of HTTP/1.1 do.
const WINDOW: u32 = 16 << 10;
/// Interval at which an HTTP/2 peer is asked for a sign of life, and its time to answer: a peer that vanished is not
/// waited for.
const PING: (Duration, Duration) = (Duration::from_secs(20), Duration::from_secs(10));
/// Time limit of a TLS handshake.
const HANDSHAKE: Duration = Duration::from_secs(10);
/// Time limit for the end of a connection that was asked to close.
const CLOSE: Duration = Duration::from_secs(5);
/// Time that an HTTP/1.1 connection stays open for one more request before it closes. The answer to that request says
/// that it was the last one. Go's client fails a request that crosses the closing of its connection, and an API server
/// then refuses a deletion that nobody reviewed; so only a connection that had no request for this long just closes.
const LAST_REQUEST: Duration = Duration::from_secs(1);
/// First and longest pause after an error of `accept`, such as too many open files: doubled each time.
const BACK_OFF: (Duration, Duration) = (Duration::from_millis(50), Duration::from_secs(1));

/// Service that answers the requests of a server.
pub(crate) trait Answering:
    Service<Request<Incoming>, Response = Response<Full<Bytes>>, Error = Infallible, Future: Send>
    + Clone
    + Send
    + Sync
    + 'static
{
}

impl<S> Answering for S where
    S: Service<Request<Incoming>, Response = Response<Full<Bytes>>, Error = Infallible, Future: Send>
        + Clone
        + Send
        + Sync
        + 'static
{
}

/// Listener, and the service that answers its requests.
pub(crate) struct Server<S> {
    listener: TcpListener,
    tls: watch::Receiver<Arc<ServerConfig>>,
    service: S,
    connections: GaugedSemaphore,
}

impl<S: Answering> Server<S> {
    /// Makes a server over TLS with the configuration in `tls`. When this changes, connections that began before are
    /// closed.
    pub(crate) fn new(listener: TcpListener, tls: watch::Receiver<Arc<ServerConfig>>, service: S) -> Self {
        Self { listener, tls, service, connections: GaugedSemaphore::new(MAX_CONNECTIONS) }
    }

    /// Returns the number of connections, with its maximum.
    pub(crate) fn connections(&self) -> GaugedSemaphore {
        self.connections.clone()
    }

    /// Takes connections until the tasks are stopped.
    pub(crate) async fn run(self, tasks: Tasks) {
        let mut pause = BACK_OFF.0;
        loop {
            let next = async {
                let place = self.connections.semaphore().acquire_owned().await;
                (place, self.listener.accept().await)
            };
            let (place, accepted) = tokio::select! {
                () = tasks.stopping() => return,
                next = next => next,
            };
            match accepted {
                Ok((stream, _)) => {
                    pause = BACK_OFF.0;
                    let connection = connection(stream, self.tls.clone(), self.service.clone(), tasks.clone());
                    tasks.spawn(async move {
                        connection.await;
                        drop(place);
                    });
                }
                Err(why) => {
                    tracing::warn!("cannot accept a connection: {why}");
                    sleep(pause).await;
                    pause = (pause * 2).min(BACK_OFF.1);
                }
            }
        }
    }
}

async fn connection<S: Answering>(
    stream: TcpStream,
    mut tls: watch::Receiver<Arc<ServerConfig>>,
    service: S,
    tasks: Tasks,
) {
    // Answers are small and written at once; a failure here costs only time.
    let _ = stream.set_nodelay(true);
    let acceptor = TlsAcceptor::from(latest(&mut tls));
    let handshake = timeout(HANDSHAKE, acceptor.accept(stream));
    let shaken = tokio::select! {
        () = tasks.stopping() => return,
        shaken = handshake => shaken,
    };
    match shaken {
        Ok(Ok(stream)) => {
            let h2 = stream.get_ref().1.alpn_protocol() == Some(b"h2");
            requests(stream, h2, tls, service, tasks).await;
        }
        Ok(Err(why)) => tracing::debug!("TLS handshake: {why}"),
        Err(_) => tracing::debug!("TLS handshake: not done within {HANDSHAKE:?}"),
    }
}

/// Answers the requests of one connection. Ends when the peer closes it, when it has been quiet too long, when the TLS
/// configuration has changed since its beginning, or when the tasks stop.
async fn requests<S, IO>(stream: IO, h2: bool, mut tls: watch::Receiver<Arc<ServerConfig>>, service: S, tasks: Tasks)
where
    S: Answering,
    IO: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let activity = Activity::new();
    let is_last = Arc::new(AtomicBool::new(false));
    let service = hyper::service::service_fn(|request| {
        let (begun, service, is_last) = (activity.begin(), service.clone(), Arc::clone(&is_last));
        async move {
            let mut response = service.oneshot(request).await;
            if let (true, Ok(response)) = (is_last.load(Ordering::Relaxed), &mut response) {
                response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
            }
            drop(begun);
            response
        }
    });
    // The handshake has agreed on the protocol: nothing is guessed from the first bytes.
    let builder = auto::Builder::new(tasks.clone());
    let mut builder = if h2 { builder.http2_only() } else { builder.http1_only() };
    // Slow headers are no request yet: the connection ends as a quiet one.
    builder.http1().max_buf_size(MAX_BUFFERED);
    builder
        .http2()
        .timer(TokioTimer::new())
        .max_concurrent_streams(MAX_STREAMS)
        .max_header_list_size(MAX_HEADERS)
        .initial_connection_window_size(4 * WINDOW)
        .initial_stream_window_size(WINDOW)
        .keep_alive_interval(PING.0)
        .keep_alive_timeout(PING.1);
    let stream = LingeringClose::new(stream, h2);
    let mut connection = pin!(builder.serve_connection(TokioIo::new(stream), service));
    tokio::select! {
        // Whoever asks at the moment at which the connection is to close should be told so in the answer.
        biased;
        Ok(()) = tls.changed() => {}
        () = tasks.stopping() => {}
        () = activity.quiet() => {}
        ended = connection.as_mut() => return log(ended),
    }
    // HTTP/2 says GOAWAY; HTTP/1.1 has only its responses to say that the connection ends.
    if !h2 {
        is_last.store(true, Ordering::Relaxed);
        tokio::select! {
            ended = connection.as_mut() => return log(ended),
            () = activity.quiet_for(LAST_REQUEST) => {}
        }
    }
    connection.as_mut().graceful_shutdown();
    // Requests under way still get their answers; a peer that only lingers is dropped.
    let lingering = async {
        activity.idle().await;
        sleep(CLOSE).await;
    };
    tokio::select! {
        ended = poll_fn(|cx| connection.as_mut().poll(cx)) => log(ended),
        () = lingering => {}
    }
}

fn log(ended: Result<(), Box<dyn std::error::Error + Send + Sync>>) {
    if let Err(why) = ended {
        tracing::debug!("connection: {why}");
    }
}

#[cfg(test)]
mod tests;

//! A listener and its connections: how many, how long, and how they end.

use std::convert::Infallible;
use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
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

use crate::activity::Activity;
use crate::taken::Taken;
use crate::tasks::Tasks;

/// Connections at once; further ones wait in the operating system's queue.
const MAX_CONNECTIONS: usize = 1024;
/// Requests at once on one HTTP/2 connection.
const MAX_STREAMS: u32 = 250;
/// The longest headers of an HTTP/1.1 request, and what is read ahead of its body, in bytes.
const MAX_BUFFERED: usize = 64 << 10;
/// The longest headers of an HTTP/2 request, in bytes. An API server's are some 300.
const MAX_HEADERS: u32 = 16 << 10;
/// What an HTTP/2 peer may send ahead of what is read, on a stream; on a connection four times as much. What lies there
/// counts in no other limit.
const WINDOW: u32 = 64 << 10;
/// How often an HTTP/2 peer is asked for a sign of life, and how long it has for it: one that vanished is not waited for.
const PING: (Duration, Duration) = (Duration::from_secs(20), Duration::from_secs(10));
/// How long a TLS handshake may take.
const HANDSHAKE: Duration = Duration::from_secs(10);
/// How long a connection that was asked to close may take.
const CLOSE: Duration = Duration::from_secs(5);
/// The pauses after an error of `accept`, such as too many open files: doubled each time.
const BACK_OFF: (Duration, Duration) = (Duration::from_millis(50), Duration::from_secs(1));

/// What a server answers with.
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

/// A listener, and what is answered there.
pub(crate) struct Server<S> {
    listener: TcpListener,
    tls: watch::Receiver<Arc<ServerConfig>>,
    service: S,
    connections: Taken,
}

impl<S: Answering> Server<S> {
    /// Over TLS, as `tls` says; connections that were begun before it changed are ended.
    pub(crate) fn new(listener: TcpListener, tls: watch::Receiver<Arc<ServerConfig>>, service: S) -> Self {
        Self { listener, tls, service, connections: Taken::of(MAX_CONNECTIONS) }
    }

    /// The connections that there are.
    pub(crate) fn connections(&self) -> Taken {
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
                    tracing::warn!("cannot take a connection: {why}");
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
    // Answers are small and written at once; failing to say so costs only time.
    let _ = stream.set_nodelay(true);
    let acceptor = TlsAcceptor::from(tls.borrow_and_update().clone());
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

/// Answers the requests of one connection, until the peer closes it, it has been quiet too long, TLS is not what it was
/// begun with any more, or the tasks stop.
async fn requests<S, IO>(stream: IO, h2: bool, mut tls: watch::Receiver<Arc<ServerConfig>>, service: S, tasks: Tasks)
where
    S: Answering,
    IO: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let activity = Activity::new();
    let service = hyper::service::service_fn(|request| {
        let (begun, service) = (activity.begin(), service.clone());
        async move {
            let response = service.oneshot(request).await;
            drop(begun);
            response
        }
    });
    // The protocol is the one agreed on in the handshake: nothing is guessed from the first bytes.
    let builder = auto::Builder::new(tasks.clone());
    let mut builder = if h2 { builder.http2_only() } else { builder.http1_only() };
    // Headers that come slowly are no request yet: they end as what is quiet.
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
    let mut connection = pin!(builder.serve_connection(TokioIo::new(stream), service));
    tokio::select! {
        ended = connection.as_mut() => return log(ended),
        () = activity.quiet() => connection.as_mut().graceful_shutdown(),
        Ok(()) = tls.changed() => connection.as_mut().graceful_shutdown(),
        () = tasks.stopping() => connection.as_mut().graceful_shutdown(),
    }
    // Whoever has a request under way gets the answer; a peer that only lingers is dropped.
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

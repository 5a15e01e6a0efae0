//! HTTPS server with limits on connections, handshakes and headers. The judge has the other limits.

use std::convert::Infallible;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use rustls::ServerConfig;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::time::{sleep, timeout};
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tracing::{debug, warn};

use super::review::Judge;

/// Maximum of connections at a time. Further ones wait in the operating system's queue.
const MAX_CONNECTIONS: usize = 128;
/// Time limit of a handshake, and of a request's headers.
const PATIENCE: Duration = Duration::from_secs(10);
/// Pause after a connection could not be taken, as with too many open files.
const PAUSE: Duration = Duration::from_millis(200);

/// Takes connections until it is told to stop. Then the open connections finish their requests.
pub(super) async fn serve(listener: TcpListener, tls: Arc<ServerConfig>, judge: Judge, stop: CancellationToken) {
    let (acceptor, judge) = (TlsAcceptor::from(tls), Arc::new(judge));
    let (places, connections) = (Arc::new(Semaphore::new(MAX_CONNECTIONS)), TaskTracker::new());
    loop {
        let next = async { (places.clone().acquire_owned().await, listener.accept().await) };
        let (place, accepted) = tokio::select! {
            () = stop.cancelled() => break,
            next = next => next,
        };
        match accepted {
            Ok((stream, _)) => {
                let connection = connection(stream, acceptor.clone(), judge.clone(), stop.clone());
                connections.spawn(async move {
                    connection.await;
                    drop(place);
                });
            }
            Err(why) => {
                warn!("the webhook cannot accept a connection: {why}");
                sleep(PAUSE).await;
            }
        }
    }
    connections.close();
    connections.wait().await;
}

async fn connection(stream: TcpStream, acceptor: TlsAcceptor, judge: Arc<Judge>, stop: CancellationToken) {
    let stream = match timeout(PATIENCE, acceptor.accept(stream)).await {
        Ok(Ok(stream)) => stream,
        Ok(Err(why)) => return debug!("no TLS: {why}"),
        Err(_) => return debug!("no TLS within {PATIENCE:?}"),
    };
    let reviews = service_fn(move |request| {
        let judge = judge.clone();
        async move { Ok::<_, Infallible>(judge.answer(request).await) }
    });
    let mut http = http1::Builder::new();
    let http = http.timer(TokioTimer::new()).header_read_timeout(PATIENCE);
    let mut requests = pin!(http.serve_connection(TokioIo::new(stream), reviews));
    let ended = tokio::select! {
        ended = requests.as_mut() => ended,
        () = stop.cancelled() => {
            requests.as_mut().graceful_shutdown();
            requests.await
        }
    };
    if let Err(why) = ended {
        debug!("a connection to the webhook broke off: {why}");
    }
}

//! The TLS listener: one task accepts, one a connection serves, and all end with the testbed.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::timeout;
use tokio_rustls::TlsAcceptor;

use crate::faults::Fault;
use crate::serve;
use crate::world::World;

const HANDSHAKE: Duration = Duration::from_secs(10);

/// Two faces: what the server shows, and its twin whose certificate has run out.
pub(crate) type Faces = [TlsAcceptor; 2];

/// Serves until `stopped` changes, then drops every connection. `shard` is whose address it is, if not everybody's.
pub(crate) async fn run(
    listener: TcpListener,
    tls: Faces,
    world: Arc<World>,
    shard: Option<usize>,
    mut stopped: watch::Receiver<bool>,
) {
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            _ = stopped.changed() => break,
            accepted = listener.accept() => match accepted {
                Ok((stream, _)) => {
                    let [valid, expired] = &tls;
                    let tls = if world.faults.is_on(Fault::ExpiredCertificate) { expired } else { valid };
                    connections.spawn(connection(stream, tls.clone(), Arc::clone(&world), shard));
                }
                // Out of descriptors, most likely: give those who hold them a moment.
                Err(_) => tokio::time::sleep(Duration::from_millis(50)).await,
            },
            Some(_) = connections.join_next() => {}
        }
    }
    connections.shutdown().await;
}

async fn connection(stream: TcpStream, tls: TlsAcceptor, world: Arc<World>, shard: Option<usize>) {
    stream.set_nodelay(true).ok();
    let Ok(Ok(stream)) = timeout(HANDSHAKE, tls.accept(stream)).await else {
        return;
    };
    let service = service_fn(move |request| {
        let world = Arc::clone(&world);
        async move { Ok::<_, Infallible>(serve::answer(&world, shard, request).await) }
    });
    let served = http1::Builder::new().timer(TokioTimer::new()).serve_connection(TokioIo::new(stream), service).await;
    if let Err(why) = served {
        tracing::debug!(%why, "connection ended");
    }
}

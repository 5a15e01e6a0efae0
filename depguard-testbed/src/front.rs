//! An address of the API server: what it shows of itself, and whom it hands requests to.

use std::sync::Arc;

use hyper::service::service_fn;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio_rustls::TlsAcceptor;

use crate::faults::Fault;
use crate::world::World;
use crate::{serve, server};

/// Two faces: what the server shows, and its twin whose certificate has run out.
pub(crate) type Faces = [TlsAcceptor; 2];

/// Serves until `stopped` changes. `shard` is whose address it is, if not everybody's.
pub(crate) async fn run(
    listener: TcpListener,
    [valid, expired]: Faces,
    world: Arc<World>,
    shard: Option<usize>,
    stopped: watch::Receiver<bool>,
) {
    let shown = Arc::clone(&world);
    let tls = move || if shown.faults.is_on(Fault::ExpiredCertificate) { expired.clone() } else { valid.clone() };
    let service = service_fn(move |request| {
        let world = Arc::clone(&world);
        async move { serve::answer(&world, shard, request).await }
    });
    server::run(listener, tls, service, stopped).await;
}

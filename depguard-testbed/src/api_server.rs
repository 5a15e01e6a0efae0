//! Address of the API server: its TLS certificates, and the service behind it.

pub(crate) mod discovery;
pub(crate) mod serve;
pub(crate) mod shard_address;

use std::sync::Arc;

use hyper::service::service_fn;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio_rustls::TlsAcceptor;

use crate::transport::listener;
use crate::world::World;
use crate::world::faults::Fault;

/// Two TLS servers: one with a valid certificate, and its twin with an expired one.
pub(crate) type Faces = [TlsAcceptor; 2];

/// Serves until `stopped` changes. `shard` is the shard of this address; `None` for the address of all.
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
    listener::run(listener, tls, service, stopped).await;
}

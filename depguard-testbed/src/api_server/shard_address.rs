//! Address of a shard, which a test can close and open again.

use std::sync::Arc;
use std::time::Duration;

use tokio::net::TcpListener;
use tokio::sync::watch;

use crate::api_server::{self, Faces};
use crate::world::World;

/// Pause before a port that is not free yet is tried again.
const PORT_RETRY: Duration = Duration::from_millis(20);

/// Serves a shard's address while it shall listen, until the testbed stops.
pub(crate) async fn run(
    mut listener: TcpListener,
    tls: Faces,
    world: Arc<World>,
    index: usize,
    mut stopped: watch::Receiver<bool>,
) {
    let Some(shard) = world.shards.get(index) else { return };
    let mut desired_up = shard.desired_up.subscribe();
    loop {
        let (cut, is_cut) = watch::channel(false);
        let served = api_server::run(listener, tls.clone(), Arc::clone(&world), Some(index), is_cut);
        tokio::pin!(served);
        tokio::select! {
            () = &mut served => return,
            _ = stopped.changed() => {}
            _ = desired_up.wait_for(|up| !up) => {}
        }
        cut.send_replace(true);
        served.await;
        if *stopped.borrow() {
            return;
        }
        shard.listens.send_replace(false);
        tokio::select! {
            _ = stopped.changed() => return,
            _ = desired_up.wait_for(|up| *up) => {}
        }
        listener = loop {
            match TcpListener::bind(shard.address).await {
                Ok(listener) => break listener,
                Err(_) => tokio::time::sleep(PORT_RETRY).await,
            }
        };
        shard.listens.send_replace(true);
    }
}

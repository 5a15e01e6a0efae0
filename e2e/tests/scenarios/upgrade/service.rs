//! One address, behind which webhooks come and go, as behind a Service.

use std::io;
use std::net::Ipv4Addr;
use std::sync::Arc;
use std::time::Duration;

use depguard_e2e::Outcome;
use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::sleep;

/// Lifetime of a connection while there are several webhooks. Otherwise an API server would keep to one of them.
const MAX_SHARED: Duration = Duration::from_millis(400);

/// Listener that hands each connection to one of some webhooks, in turn. It ends with its owner.
pub(crate) struct Service {
    webhooks: Arc<watch::Sender<Vec<Backend>>>,
    task: JoinHandle<()>,
}

/// A webhook's port, and how many connections it got.
#[derive(Clone, Debug)]
struct Backend {
    port: u16,
    connections: usize,
}

impl Service {
    /// Listens at a port; there is no webhook yet.
    pub(crate) async fn listen(port: u16) -> Outcome<Service> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port)).await?;
        let webhooks = Arc::new(watch::Sender::new(Vec::new()));
        let task = tokio::spawn(serve(listener, Arc::clone(&webhooks)));
        Ok(Service { webhooks, task })
    }

    /// Hands new connections to the webhooks at these ports, from now on.
    pub(crate) fn route(&self, ports: &[u16]) {
        self.webhooks.send_replace(ports.iter().map(|&port| Backend { port, connections: 0 }).collect());
    }

    /// Returns the least number of connections that a webhook has got since the last [`Service::route`].
    pub(crate) fn least_used(&self) -> usize {
        self.webhooks.borrow().iter().map(|webhook| webhook.connections).min().unwrap_or_default()
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn serve(listener: TcpListener, webhooks: Arc<watch::Sender<Vec<Backend>>>) {
    while let Ok((client, _)) = listener.accept().await {
        let mut port = None;
        webhooks.send_modify(|webhooks| {
            let next = webhooks.iter_mut().min_by_key(|webhook| webhook.connections);
            port = next.map(|next| {
                next.connections += 1;
                next.port
            });
        });
        let (Some(port), mut webhooks) = (port, webhooks.subscribe()) else { continue };
        tokio::spawn(async move {
            tokio::select! {
                _ = forward(client, port) => {}
                () = async {
                    let _ = webhooks.wait_for(|webhooks| webhooks.len() > 1).await;
                    sleep(MAX_SHARED).await;
                } => {}
            }
        });
    }
}

/// Passes bytes on until one side ends.
async fn forward(mut client: TcpStream, port: u16) -> io::Result<()> {
    let mut webhook = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).await?;
    copy_bidirectional(&mut client, &mut webhook).await.map(drop)
}

//! Connections to webhooks, kept for the next review as in client-go's transport.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use http_body_util::Full;
use hyper::client::conn::http1::{self, SendRequest};
use hyper_util::rt::TokioIo;
use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use tokio::net::TcpStream;
use tokio::task::JoinHandle;
use tokio_rustls::TlsConnector;

use crate::transport::tls;

/// Maximum of idle connections that client-go keeps for one host.
const MAX_IDLE: usize = 25;

/// Address of a connection, and the identity that vouches for it. Only a configuration with the same values may use the
/// connection.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Destination {
    pub(crate) address: String,
    pub(crate) server_name: String,
    pub(crate) ca_pem: Vec<u8>,
}

#[derive(Debug, Default)]
pub(crate) struct Pool(Mutex<HashMap<Destination, DestinationState>>);

/// Data of one destination.
#[derive(Debug, Default)]
struct DestinationState {
    /// TLS configuration with the sessions to resume.
    tls: Option<Arc<ClientConfig>>,
    idle: Vec<Connection>,
}

/// HTTP/1.1 connection. Its task ends when it is dropped.
#[derive(Debug)]
pub(crate) struct Connection {
    pub(crate) sender: SendRequest<Full<Bytes>>,
    task: JoinHandle<()>,
}

impl Pool {
    /// Returns an idle connection that is still open, the last used first.
    pub(crate) fn take(&self, destination: &Destination) -> Option<Connection> {
        let mut known = self.lock();
        let idle = &mut known.get_mut(destination)?.idle;
        idle.retain(|connection| !connection.sender.is_closed());
        idle.pop()
    }

    pub(crate) fn keep(&self, destination: &Destination, connection: Connection) {
        let mut known = self.lock();
        let idle = &mut known.entry(destination.clone()).or_default().idle;
        if idle.len() < MAX_IDLE {
            idle.push(connection);
        }
    }

    /// Opens a new connection. An error has the wording of the API server.
    pub(crate) async fn connect(&self, destination: &Destination) -> Result<Connection, String> {
        let Destination { address, server_name, ca_pem } = destination;
        let known = self.lock().get(destination).and_then(|known| known.tls.clone());
        let config = match known {
            Some(config) => config,
            None => {
                let config = Arc::new(tls::client_trusting(ca_pem)?);
                self.lock().entry(destination.clone()).or_default().tls = Some(Arc::clone(&config));
                config
            }
        };
        let name = ServerName::try_from(server_name.clone()).map_err(|why| why.to_string())?;
        let dialled = TcpStream::connect(address).await;
        let stream = dialled.map_err(|why| format!("dial tcp {address}: {}", said(&why)))?;
        stream.set_nodelay(true).ok();
        let stream = TlsConnector::from(config).connect(name, stream).await.map_err(|why| format!("tls: {why}"))?;
        let (sender, driver) =
            http1::handshake(TokioIo::new(stream)).await.map_err(|why| format!("handshake: {why}"))?;
        let task = tokio::spawn(async move {
            if let Err(why) = driver.await {
                tracing::debug!(%why, "connection to a webhook ended");
            }
        });
        Ok(Connection { sender, task })
    }

    /// Ends all idle connections.
    pub(crate) async fn close(&self) {
        let idle: Vec<Connection> = self.lock().drain().flat_map(|(_, known)| known.idle).collect();
        for mut connection in idle {
            connection.task.abort();
            // The task was aborted, so its result tells nothing more.
            (&mut connection.task).await.ok();
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Destination, DestinationState>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Returns the error in the API server's wording.
fn said(why: &std::io::Error) -> String {
    match why.kind() {
        std::io::ErrorKind::ConnectionRefused => "connect: connection refused".to_owned(),
        _ => why.to_string(),
    }
}

//! Access to the place where depguard itself runs: the cluster, or in kcp depguard's own workspace.

use bytes::Bytes;
use depguard_core::protocol::{Ask, Verb};
use depguard_kcp::{Connection, Endpoint, fetched};
use futures::FutureExt;
use futures::future::BoxFuture;
use http::Method;

use crate::limits::read_budget::BytePermit;
use crate::ports::api_reader::{Fetched, Writer};

/// Writer to the server that the kubeconfig names, whatever logical cluster a request names: in kcp the kubeconfig names
/// depguard's own workspace.
#[derive(Debug, Clone)]
pub struct OwnEndpoint(Endpoint);

impl OwnEndpoint {
    /// Makes a writer over `connection`, with the rights of its credentials.
    pub fn new(connection: &Connection) -> Self {
        Self(connection.own_endpoint())
    }
}

impl Writer for OwnEndpoint {
    fn send<'a>(&'a self, ask: &'a Ask, permit: &'a mut BytePermit) -> BoxFuture<'a, Fetched> {
        send(&self.0, ask, permit).boxed()
    }
}

/// Sends a request to an endpoint, once.
pub(crate) async fn send(endpoint: &Endpoint, ask: &Ask, permit: &mut BytePermit) -> Fetched {
    match ask {
        Ask::Get(query) => endpoint.ask_within(query, permit).await,
        Ask::Send(send) => {
            let (method, form) = match send.verb {
                Verb::Create => (Method::POST, "application/json"),
                Verb::Replace => (Method::PUT, "application/json"),
                Verb::Merge => (Method::PATCH, "application/merge-patch+json"),
            };
            let body = Bytes::copy_from_slice(&send.body);
            fetched(endpoint.send_within(method, &send.path, (form, body), permit).await)
        }
    }
}

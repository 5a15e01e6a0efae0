//! Access to the place of the reference registers: the cluster, or in kcp depguard's own workspace.

use bytes::Bytes;
use depguard_core::interlock::RegisterRequest;
use depguard_core::protocol::Accept;
use depguard_kcp::{Connection, Endpoint, fetched};
use futures::FutureExt;
use futures::future::BoxFuture;
use http::Method;

use crate::limits::read_budget::BytePermit;
use crate::ports::api_reader::Fetched;

/// Store of the reference registers.
pub trait RegisterStore: Send + Sync + 'static {
    /// Sends the request once, and takes in an answer that fits into `permit`, which [grows](BytePermit::grow) as long as
    /// there is some; else the answer is [`Fetched::TooLarge`]. A GET must be a consistent read. A time limit is not
    /// needed: when it is too late, the future is dropped.
    fn ask<'a>(&'a self, request: &'a RegisterRequest, permit: &'a mut BytePermit) -> BoxFuture<'a, Fetched>;
}

/// Registers at the server that the kubeconfig names: in kcp it names depguard's own workspace.
#[derive(Debug, Clone)]
pub struct OwnRegisters(Endpoint);

impl OwnRegisters {
    /// Makes a store over `connection`, with the rights of its credentials.
    pub fn new(connection: &Connection) -> Self {
        Self(connection.own_endpoint())
    }
}

impl RegisterStore for OwnRegisters {
    fn ask<'a>(&'a self, request: &'a RegisterRequest, permit: &'a mut BytePermit) -> BoxFuture<'a, Fetched> {
        async move {
            match request {
                RegisterRequest::Get(path) => fetched(self.0.get_within(path, Accept::Json.as_str(), permit).await),
                RegisterRequest::Put(path, body) => {
                    let body = ("application/json", Bytes::copy_from_slice(body));
                    fetched(self.0.send_within(Method::PUT, path, body, permit).await)
                }
            }
        }
        .boxed()
    }
}

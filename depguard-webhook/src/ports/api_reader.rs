//! Access to API servers: a GET in a logical cluster, and a few writes.

use bytes::Bytes;
use depguard_core::Query;
use depguard_core::protocol::Ask;
use futures::future::BoxFuture;

use crate::limits::read_budget::BytePermit;

/// Reads from API servers. The implementation chooses the way.
///
/// Each query must be sent after [`get`](ApiReader::get) was called and answered by a consistent read. An answer from before
/// the review, or from a cache that may lag behind, lets an object go that is still referenced.
pub trait ApiReader: Send + Sync + 'static {
    /// Sends one query. A time limit is not needed: when it is too late, the future is dropped.
    fn get(&self, query: &Query) -> impl Future<Output = Fetched> + Send;

    /// Sends one query whose body must fit into `permit`, which [grows](BytePermit::grow) as long as there is some; else the
    /// answer is [`Fetched::TooLarge`]. The default implementation checks the body once it is complete; another one can
    /// check while the body comes in.
    fn get_within(&self, query: &Query, permit: &mut BytePermit) -> impl Future<Output = Fetched> + Send {
        async {
            let fetched = self.get(query).await;
            if permit.grow(fetched.size()) { fetched } else { Fetched::TooLarge }
        }
    }
}

/// Writes to API servers: access reviews, the tables of locks, the registers of references, one annotation of GlobalOwners,
/// and Events about refusals. Nothing else is ever written.
pub trait Writer: Send + Sync + 'static {
    /// Sends the request once, and takes in an answer that fits into `permit`, which [grows](BytePermit::grow) as long as there
    /// is some; else the answer is [`Fetched::TooLarge`]. A GET, which comes before a write, must be a consistent read. A
    /// time limit is not needed: when it is too late, the future is dropped.
    fn send<'a>(&'a self, ask: &'a Ask, permit: &'a mut BytePermit) -> BoxFuture<'a, Fetched>;
}

/// Result of a query.
pub type Fetched = depguard_core::Fetched<Bytes>;

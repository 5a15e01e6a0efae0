//! What the service needs of the world: a GET in a logical cluster, and for locks and owners a few writes.

use bytes::Bytes;
use depguard_core::{Query, locks};
use futures::future::BoxFuture;

use crate::budget::Room;

/// Reads from API servers. An implementation decides by which way.
///
/// Each query must be sent after [`get`](Port::get) was called and answered by a consistent read: an answer from
/// before the review, or from a cache that may lag behind, lets an object go that is still referred to.
pub trait Port: Send + Sync + 'static {
    /// Sends one query. There is no need for a time limit: when it is too late, the future is dropped.
    fn get(&self, query: &Query) -> impl Future<Output = Fetched> + Send;

    /// The same, where the body must fit into `room`, which [grows](Room::grow) as long as there is some; else the answer
    /// is [`Fetched::TooLarge`]. Written anew, it can be so while the body comes in; as it stands, it is so afterwards.
    fn get_within(&self, query: &Query, room: &mut Room) -> impl Future<Output = Fetched> + Send {
        async {
            let fetched = self.get(query).await;
            if room.grow(fetched.size()) { fetched } else { Fetched::TooLarge }
        }
    }
}

/// Writes to API servers: the questions who may do what, the tables of locks, and one annotation of GlobalOwners. Nothing
/// else is ever sent.
pub trait Writer: Send + Sync + 'static {
    /// Sends it, once, and takes in an answer that fits into `room`, which [grows](Room::grow) as long as there is some;
    /// else the answer is [`Fetched::TooLarge`]. There is no need for a time limit: when it is too late, the future is
    /// dropped.
    fn send<'a>(&'a self, send: &'a locks::Send, room: &'a mut Room) -> BoxFuture<'a, Fetched>;
}

/// What came of a query.
pub type Fetched = depguard_core::Fetched<Bytes>;

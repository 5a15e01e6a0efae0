//! What the service needs of the world: a GET in a logical cluster.

use bytes::Bytes;
use depguard_core::{Answer, Query};

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
            if room.grow(fetched.len()) { fetched } else { Fetched::TooLarge }
        }
    }
}

/// What came of a query.
#[derive(Debug, Clone)]
pub enum Fetched {
    /// A response, whatever its status.
    Response {
        /// The HTTP status.
        status: u16,
        /// The body, whole.
        body: Bytes,
    },
    /// A response longer than is taken in.
    TooLarge,
    /// No response, and why: it is shown to whoever is refused because of it.
    Failed(String),
}

impl Fetched {
    /// The bytes of the body.
    pub(crate) fn len(&self) -> usize {
        match self {
            Self::Response { body, .. } => body.len(),
            Self::TooLarge | Self::Failed(_) => 0,
        }
    }

    pub(crate) fn as_answer(&self) -> Answer<'_> {
        match self {
            Self::Response { status, body } => Answer::Response { status: *status, body },
            Self::TooLarge => Answer::TooLarge,
            Self::Failed(why) => Answer::Failed(why),
        }
    }
}

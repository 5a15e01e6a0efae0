//! Reading through the front-proxy: any logical cluster by its id, with the right to read there.

use bytes::Bytes;
use depguard_core::{Home, Query};
use depguard_kcp::{Connection, Endpoint, MAX_BODY, RequestError, Space, UpTo};
use http::Response;

use crate::budget::Room;
use crate::port::{Fetched, Port};

/// Asks each logical cluster at `{base}/clusters/{id}`; in home kubernetes, the one API server.
#[derive(Debug, Clone)]
pub struct FrontProxy {
    home: Home,
    connection: Connection,
}

impl FrontProxy {
    /// Reads over `connection`, with the rights of its credentials.
    pub fn new(home: Home, connection: Connection) -> Self {
        Self { home, connection }
    }

    /// Sends the query, and takes in what there is space for.
    pub(crate) async fn ask(&self, query: &Query, space: &mut impl Space) -> Fetched {
        match self.endpoint(query) {
            Ok(endpoint) => fetched(send(&endpoint, query, space).await),
            Err(why) => Fetched::Failed(why),
        }
    }

    /// Where a query is asked.
    fn endpoint(&self, query: &Query) -> Result<Endpoint, String> {
        match (self.home, &query.cluster) {
            (Home::Kcp, Some(cluster)) => Ok(self.connection.cluster(cluster)),
            (Home::Kubernetes, None) => Ok(self.connection.home()),
            // Another cluster's answer would say nothing of the object under review.
            (Home::Kcp, None) => Err("the review does not say its logical cluster".to_owned()),
            (Home::Kubernetes, Some(cluster)) => {
                Err(format!("there is no logical cluster `{cluster}` in a plain cluster"))
            }
        }
    }
}

impl Port for FrontProxy {
    async fn get(&self, query: &Query) -> Fetched {
        self.ask(query, &mut UpTo(MAX_BODY)).await
    }

    async fn get_within(&self, query: &Query, room: &mut Room) -> Fetched {
        self.ask(query, room).await
    }
}

/// Asks at an endpoint.
pub(crate) async fn send(
    endpoint: &Endpoint,
    query: &Query,
    space: &mut impl Space,
) -> Result<Response<Bytes>, RequestError> {
    endpoint.get_within(&query.path, query.accept.as_str(), space).await
}

/// What came of a request.
pub(crate) fn fetched(answered: Result<Response<Bytes>, RequestError>) -> Fetched {
    match answered {
        Ok(response) => Fetched::Response { status: response.status().as_u16(), body: response.into_body() },
        Err(RequestError::TooLarge { .. }) => Fetched::TooLarge,
        Err(why) => Fetched::Failed(why.to_string()),
    }
}

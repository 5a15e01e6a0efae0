//! Reading through the front-proxy: any logical cluster by its id, with the right to read there.

use bytes::Bytes;
use depguard_core::locks::{self, Verb};
use depguard_core::{Home, LogicalCluster, Query};
use depguard_kcp::{Connection, Endpoint, MAX_BODY, Space, UpTo, fetched};
use futures::FutureExt;
use futures::future::BoxFuture;
use http::Method;

use crate::budget::Room;
use crate::port::{Fetched, Port, Writer};

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
        match self.endpoint(query.cluster.as_ref()) {
            Ok(endpoint) => endpoint.ask_within(query, space).await,
            Err(why) => Fetched::Failed(why),
        }
    }

    /// Where a logical cluster, or the one cluster, is asked.
    fn endpoint(&self, cluster: Option<&LogicalCluster>) -> Result<Endpoint, String> {
        match (self.home, cluster) {
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

impl Writer for FrontProxy {
    fn send<'a>(&'a self, send: &'a locks::Send, room: &'a mut Room) -> BoxFuture<'a, Fetched> {
        let (method, form) = match send.verb {
            Verb::Create => (Method::POST, "application/json"),
            Verb::Replace => (Method::PUT, "application/json"),
            Verb::Merge => (Method::PATCH, "application/merge-patch+json"),
        };
        async move {
            match self.endpoint(send.cluster.as_ref()) {
                Ok(endpoint) => {
                    let body = Bytes::copy_from_slice(&send.body);
                    fetched(endpoint.send_within(method, &send.path, (form, body), room).await)
                }
                Err(why) => Fetched::Failed(why),
            }
        }
        .boxed()
    }
}

//! Reads through the front-proxy: any logical cluster by its id, with the right to read there.

use depguard_core::protocol::Ask;
use depguard_core::{ControlPlane, LogicalCluster, Query};
use depguard_kcp::{BodyBudget, Connection, Endpoint, MAX_BODY, UpTo};
use futures::FutureExt;
use futures::future::BoxFuture;

use crate::limits::read_budget::BytePermit;
use crate::ports::api_reader::{ApiReader, Fetched, Writer};
use crate::ports::own_endpoint;

/// Reader that asks each logical cluster at `{base}/clusters/{id}`; in plain Kubernetes, the one API server.
#[derive(Debug, Clone)]
pub struct FrontProxy {
    control_plane: ControlPlane,
    connection: Connection,
}

impl FrontProxy {
    /// Makes a reader over `connection`, with the rights of its credentials.
    pub fn new(control_plane: ControlPlane, connection: Connection) -> Self {
        Self { control_plane, connection }
    }

    /// Sends the query, and takes in as much as there is space for.
    pub(crate) async fn ask(&self, query: &Query, space: &mut impl BodyBudget) -> Fetched {
        match self.endpoint(query.cluster.as_ref()) {
            Ok(endpoint) => endpoint.ask_within(query, space).await,
            Err(why) => Fetched::Failed(why),
        }
    }

    /// Returns the endpoint of a logical cluster, or of the one cluster.
    fn endpoint(&self, cluster: Option<&LogicalCluster>) -> Result<Endpoint, String> {
        match (self.control_plane, cluster) {
            (ControlPlane::Kcp, Some(cluster)) => Ok(self.connection.cluster(cluster)),
            (ControlPlane::Kubernetes, None) => Ok(self.connection.own_endpoint()),
            // Another cluster's answer would say nothing of the object under review.
            (ControlPlane::Kcp, None) => Err("the review names no logical cluster".to_owned()),
            (ControlPlane::Kubernetes, Some(cluster)) => {
                Err(format!("there is no logical cluster `{cluster}` in a plain cluster"))
            }
        }
    }
}

impl ApiReader for FrontProxy {
    async fn get(&self, query: &Query) -> Fetched {
        self.ask(query, &mut UpTo(MAX_BODY)).await
    }

    async fn get_within(&self, query: &Query, permit: &mut BytePermit) -> Fetched {
        self.ask(query, permit).await
    }
}

impl Writer for FrontProxy {
    fn send<'a>(&'a self, ask: &'a Ask, permit: &'a mut BytePermit) -> BoxFuture<'a, Fetched> {
        let cluster = match ask {
            Ask::Get(query) => query.cluster.as_ref(),
            Ask::Send(send) => send.cluster.as_ref(),
        };
        let endpoint = self.endpoint(cluster);
        async move {
            match endpoint {
                Ok(endpoint) => own_endpoint::send(&endpoint, ask, permit).await,
                Err(why) => Fetched::Failed(why),
            }
        }
        .boxed()
    }
}

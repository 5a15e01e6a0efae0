//! Reading through the front-proxy: any logical cluster by its id, with the right to read there.

use depguard_core::{Home, Query};
use depguard_kcp::{Connection, RequestError};

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
}

impl Port for FrontProxy {
    async fn get(&self, query: &Query) -> Fetched {
        let endpoint = match (self.home, &query.cluster) {
            (Home::Kcp, Some(cluster)) => self.connection.cluster(cluster),
            (Home::Kubernetes, None) => self.connection.home(),
            // Another cluster's answer would say nothing of the object under review.
            (Home::Kcp, None) => return Fetched::Failed("the review does not say its logical cluster".to_owned()),
            (Home::Kubernetes, Some(cluster)) => {
                return Fetched::Failed(format!("there is no logical cluster `{cluster}` in a plain cluster"));
            }
        };
        match endpoint.get(&query.path).await {
            Ok(response) => {
                let status = response.status().as_u16();
                Fetched::Response { status, body: response.into_body() }
            }
            Err(RequestError::TooLarge { .. }) => Fetched::TooLarge,
            Err(why) => Fetched::Failed(why.to_string()),
        }
    }
}

//! Reads through the dependents' own exports: each kind through the virtual workspace of the APIExport that serves it.
//!
//! So the webhook needs no right to objects anywhere. It needs a right to the content of that one export in each
//! provider's workspace, and on each shard a right to the facts that belong to no provider (APIBindings, Namespaces,
//! LogicalClusters), through the front-proxy. Local kinds are read through the front-proxy, too: an operator may grant
//! the right to one, and without it the 403 is the answer.

use bytes::Bytes;
use depguard_core::{ControlPlane, Query};
use depguard_kcp::{BodyBudget, Connection, MAX_BODY, RequestError, ShardHosts, UpTo, VirtualWorkspaces, fetched};
use http::{Response, StatusCode};

use crate::limits::read_budget::BytePermit;
use crate::ports::api_reader::{ApiReader, Fetched};
use crate::ports::front_proxy::FrontProxy;

/// Reader of exported kinds at `<endpoint of their export>/clusters/{id}`, on whichever shard that is, and of
/// everything else at `{base}/clusters/{id}`. For kcp only.
#[derive(Debug)]
pub struct ThroughExports {
    views: VirtualWorkspaces,
    facts: FrontProxy,
}

impl ThroughExports {
    /// Makes a reader over `connection`, with the rights of its credentials. Of the endpoints that providers' slices
    /// name, only those on `hosts` are asked.
    pub fn new(connection: Connection, hosts: ShardHosts) -> Self {
        let facts = FrontProxy::new(ControlPlane::Kcp, connection.clone());
        Self { views: VirtualWorkspaces::new(connection, hosts), facts }
    }

    /// Asks at the endpoint that shows the logical cluster. If this endpoint doesn't show it any more, looks once more
    /// for one that does.
    ///
    /// A 403 is never passed on as an answer about dependents: an endpoint of another shard gives it too.
    pub(crate) async fn ask(&self, query: &Query, space: &mut impl BodyBudget) -> Fetched {
        let (Some(export), Some(cluster)) = (&query.export, &query.cluster) else {
            // A kind that no export serves, or a query that the front-proxy refuses as well.
            return self.facts.ask(query, space).await;
        };
        let first = match self.views.find(export, cluster).await {
            Ok(view) => view,
            Err(why) => return Fetched::Failed(why.to_string()),
        };
        let answered = first.endpoint.get_within(&query.path, query.accept.as_str(), space).await;
        if !is_elsewhere(&answered) {
            return fetched(answered);
        }
        let again = match self.views.find_anew(export, cluster, &first).await {
            Ok(view) => view,
            Err(why) => return Fetched::Failed(why.to_string()),
        };
        match again.endpoint.get_within(&query.path, query.accept.as_str(), space).await {
            Ok(response) if response.status() == StatusCode::FORBIDDEN => Fetched::Failed(format!(
                "{} answered with HTTP 403: the export may not serve the kind there yet, or the webhook's user may not \
                 `get` and `list` the export's `apiexports/content`",
                again.endpoint.url()
            )),
            answered => fetched(answered),
        }
    }
}

impl ApiReader for ThroughExports {
    async fn get(&self, query: &Query) -> Fetched {
        self.ask(query, &mut UpTo(MAX_BODY)).await
    }

    async fn get_within(&self, query: &Query, permit: &mut BytePermit) -> Fetched {
        self.ask(query, permit).await
    }
}

/// Returns true if the answer may come from an endpoint of another shard, or from one that is gone.
fn is_elsewhere(answered: &Result<Response<Bytes>, RequestError>) -> bool {
    match answered {
        Ok(response) => response.status() == StatusCode::FORBIDDEN,
        Err(RequestError::Unanswered { .. } | RequestError::TimedOut { .. }) => true,
        Err(_) => false,
    }
}

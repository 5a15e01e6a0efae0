//! Endpoints of an APIExport's virtual workspace, one a shard, and the one among them that shows a consumer.
//!
//! No decision depends on the endpoints remembered here. A virtual workspace answers for the logical clusters of its
//! own shard, and with 403 for every other one. So an endpoint that answers is the right one, however it was found, and
//! an endpoint that does not answer is looked up anew.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use depguard_core::LogicalCluster;
use futures::StreamExt;
use futures::stream::FuturesUnordered;
use http::StatusCode;
use tokio::time::Instant;

use crate::http::connection::Connection;
use crate::http::endpoint::Endpoint;
use crate::tenancy::export_endpoints::{Endpoints, Export, ExportEndpoints, Known};
use crate::tenancy::shard_hosts::ShardHosts;

/// Time limit for an endpoint's answer that shows a consumer or not. A healthy shard takes milliseconds.
const PROBE_TIME: Duration = Duration::from_secs(2);
/// Maximum of consumers whose shards are remembered.
const MAX_REMEMBERED: usize = 4096;

/// Request for the export's APIBinding, which a virtual workspace shows in every logical cluster that it reaches.
const PROBE: &str = "/apis/apis.kcp.io/v1alpha2/apibindings?limit=1";

/// Virtual workspaces of APIExports, by the endpoint slices in the exports' workspaces.
#[derive(Debug)]
pub struct VirtualWorkspaces {
    connection: Connection,
    endpoints: ExportEndpoints,
    urls: Mutex<VirtualWorkspaceUrls>,
}

/// Consumer as one endpoint of an export shows it.
#[derive(Debug, Clone)]
pub struct VirtualWorkspace {
    /// Endpoint of the consumer's objects.
    pub endpoint: Endpoint,
    url: Arc<str>,
    since: Instant,
}

/// Reason why no endpoint of an export shows a consumer: the end of a sentence.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct VirtualWorkspaceError(String);

impl VirtualWorkspaceError {
    pub(crate) fn new(why: String) -> Self {
        Self(why)
    }
}

/// Endpoints that last showed each consumer, by export.
#[derive(Debug, Default)]
struct VirtualWorkspaceUrls {
    by_export: HashMap<Export, HashMap<LogicalCluster, Arc<str>>>,
    count: usize,
}

impl VirtualWorkspaces {
    /// Reads the slices, and asks all endpoints that they name, over `connection`. Asks only hosts that `hosts` trusts:
    /// providers write the slices, and each asked host sees our credentials.
    pub fn new(connection: Connection, hosts: ShardHosts) -> Self {
        let endpoints = ExportEndpoints::new(connection.clone(), hosts);
        Self { connection, endpoints, urls: Mutex::default() }
    }

    /// Finds the consumer's objects of the export. If there is no such consumer, requests there return 403.
    pub async fn find(
        &self,
        export: &Export,
        consumer: &LogicalCluster,
    ) -> Result<VirtualWorkspace, VirtualWorkspaceError> {
        self.find_at(export, consumer, None).await
    }

    /// Finds the consumer's objects again, after `failed` answered that it does not show the consumer, or did not
    /// answer. Reads the slices again unless they were read since, as they may name another endpoint.
    pub async fn find_anew(
        &self,
        export: &Export,
        consumer: &LogicalCluster,
        failed: &VirtualWorkspace,
    ) -> Result<VirtualWorkspace, VirtualWorkspaceError> {
        self.urls().forget(export, consumer);
        self.find_at(export, consumer, Some(failed)).await
    }

    async fn find_at(
        &self,
        export: &Export,
        consumer: &LogicalCluster,
        failed: Option<&VirtualWorkspace>,
    ) -> Result<VirtualWorkspace, VirtualWorkspaceError> {
        let known = self.endpoints.of(export, failed.map(|failed| failed.since)).await?;
        let Endpoints { urls, left_out } = &*known.endpoints;
        let since = Instant::now();
        let view = |url: &Arc<str>| {
            let endpoint = self.connection.at(url).map_err(|why| VirtualWorkspaceError(why.to_string()))?;
            let endpoint = endpoint.join(&format!("/clusters/{consumer}"));
            Ok(VirtualWorkspace { endpoint, url: Arc::clone(url), since })
        };
        if let (Some(why), true) = (left_out, urls.is_empty()) {
            return Err(why.clone());
        }
        let mut left = urls.iter();
        if let (Some(only), None) = (left.next(), left.next())
            && failed.is_none_or(|failed| failed.url != *only)
        {
            return view(only);
        }
        let url = self.urls().get(export, consumer).cloned();
        if let Some(url) = url.filter(|url| urls.contains(url)) {
            return view(&url);
        }
        let views = urls.iter().map(view).collect::<Result<Vec<_>, _>>()?;
        let found = probe(views).await.map_err(|unreached| not_shown(export, consumer, unreached, &known))?;
        self.urls().remember(export, consumer, &found.url);
        Ok(found)
    }

    fn urls(&self) -> MutexGuard<'_, VirtualWorkspaceUrls> {
        self.urls.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl VirtualWorkspaceUrls {
    fn get(&self, export: &Export, consumer: &LogicalCluster) -> Option<&Arc<str>> {
        self.by_export.get(export)?.get(consumer)
    }

    fn forget(&mut self, export: &Export, consumer: &LogicalCluster) {
        let Some(consumers) = self.by_export.get_mut(export) else { return };
        if consumers.remove(consumer).is_some() {
            self.count = self.count.saturating_sub(1);
        }
        if consumers.is_empty() {
            self.by_export.remove(export);
        }
    }

    fn remember(&mut self, export: &Export, consumer: &LogicalCluster, url: &Arc<str>) {
        if self.count >= MAX_REMEMBERED {
            *self = Self::default();
        }
        let consumers = self.by_export.entry(export.clone()).or_default();
        if consumers.insert(consumer.clone(), Arc::clone(url)).is_none() {
            self.count += 1;
        }
    }
}

/// Returns the error that no endpoint shows the consumer, with all possible reasons.
fn not_shown(
    (provider, name): &Export,
    consumer: &LogicalCluster,
    unreached: Option<String>,
    known: &Known,
) -> VirtualWorkspaceError {
    let unreached = unreached.map(|why| {
        VirtualWorkspaceError(format!(
            "an endpoint of APIExport {name} that may serve {consumer} does not answer: {why}"
        ))
    });
    let reasons = unreached.iter().chain(&known.unread).chain(&known.endpoints.left_out);
    let reasons: Vec<_> = reasons.map(|VirtualWorkspaceError(why)| why.as_str()).collect();
    VirtualWorkspaceError(if reasons.is_empty() {
        format!(
            "HTTP 403 at each endpoint of APIExport {name} of logical cluster {provider}: the binding may be too new, or \
             the webhook's user may not `get` and `list` `apiexports/content` there"
        )
    } else {
        reasons.join("; ")
    })
}

/// Returns the first endpoint that shows the consumer. Otherwise returns the error of an endpoint that might have shown
/// the consumer, if there is one.
async fn probe(views: Vec<VirtualWorkspace>) -> Result<VirtualWorkspace, Option<String>> {
    let ask = async |view: VirtualWorkspace| match view.endpoint.within(PROBE_TIME).get(PROBE).await {
        Ok(response) if response.status() == StatusCode::OK => Ok(view),
        Ok(response) if response.status() == StatusCode::FORBIDDEN => Err(None),
        Ok(response) => Err(Some(format!("{} answered with HTTP {}", view.url, response.status().as_u16()))),
        Err(why) => Err(Some(why.to_string())),
    };
    let mut answers: FuturesUnordered<_> = views.into_iter().map(ask).collect();
    let mut unreached = None;
    while let Some(answer) = answers.next().await {
        match answer {
            Ok(view) => return Ok(view),
            Err(why) => unreached = unreached.or(why),
        }
    }
    Err(unreached)
}

#[cfg(test)]
mod tests {
    use depguard_core::ExportName;

    use super::*;

    #[test]
    fn no_more_is_remembered_than_may_be() {
        let cluster = |name: &str| LogicalCluster::parse(name).unwrap();
        let export = |n| (cluster(&format!("provider{n}")), ExportName::parse("compute.example.com").unwrap());
        let (mut urls, url) = (VirtualWorkspaceUrls::default(), Arc::from("https://kcp/services/apiexport/a/b"));
        for n in 0..=MAX_REMEMBERED {
            urls.remember(&export(n % 2), &cluster(&format!("consumer{n}")), &url);
        }
        let last = cluster(&format!("consumer{MAX_REMEMBERED}"));
        assert_eq!((urls.count, urls.get(&export(0), &last)), (1, Some(&url)));
        urls.remember(&export(0), &last, &url);
        assert_eq!(urls.count, 1);
        urls.forget(&export(1), &last);
        urls.forget(&export(0), &last);
        assert_eq!((urls.count, urls.by_export.len()), (0, 0));
    }
}

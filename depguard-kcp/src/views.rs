//! Where an APIExport's virtual workspace shows a consumer: which of its endpoints, one a shard.
//!
//! Nothing is decided by what is remembered here. A virtual workspace answers for a logical cluster of its own shard, and
//! with 403 for every other, so that an endpoint which answers is the right one, however it was found; and one that does
//! not is looked for anew.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use depguard_core::LogicalCluster;
use futures::StreamExt;
use futures::stream::FuturesUnordered;
use http::StatusCode;
use tokio::time::Instant;

use crate::connection::Connection;
use crate::endpoint::Endpoint;
use crate::export_endpoints::{Endpoints, Export, ExportEndpoints, Known};
use crate::shard_hosts::ShardHosts;

/// How long an endpoint may take to say whether it shows a consumer. A shard that is well takes milliseconds.
const PROBE_TIME: Duration = Duration::from_secs(2);
/// How many consumers' shards are remembered.
const MOST: usize = 4096;

/// What a virtual workspace shows of every logical cluster that it reaches: the APIBinding by which it does.
const PROBE: &str = "/apis/apis.kcp.io/v1alpha2/apibindings?limit=1";

/// The virtual workspaces of APIExports, as the endpoint slices in their workspaces name them.
#[derive(Debug)]
pub struct ExportViews {
    connection: Connection,
    endpoints: ExportEndpoints,
    homes: Mutex<Homes>,
}

/// A consumer, as one endpoint of an export shows it.
#[derive(Debug, Clone)]
pub struct ExportView {
    /// The consumer's objects.
    pub endpoint: Endpoint,
    url: Arc<str>,
    since: Instant,
}

/// Why a consumer can't be found at any endpoint of an export: the end of a sentence.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct ViewError(String);

impl ViewError {
    pub(crate) fn new(why: String) -> Self {
        Self(why)
    }
}

/// Which endpoint of an export last showed a consumer.
#[derive(Debug, Default)]
struct Homes {
    by_export: HashMap<Export, HashMap<LogicalCluster, Arc<str>>>,
    count: usize,
}

impl ExportViews {
    /// Reads the slices and all that they name over `connection`. Only hosts that `hosts` trusts are asked: the slices
    /// are in the providers' hands, and whoever is asked sees our credentials.
    pub fn new(connection: Connection, hosts: ShardHosts) -> Self {
        let endpoints = ExportEndpoints::new(connection.clone(), hosts);
        Self { connection, endpoints, homes: Mutex::default() }
    }

    /// The consumer's objects of the export. There may be no such consumer: then what is asked there is a 403.
    pub async fn find(&self, export: &Export, consumer: &LogicalCluster) -> Result<ExportView, ViewError> {
        self.find_at(export, consumer, None).await
    }

    /// The same, where `failed` has just answered that it does not show the consumer, or not at all: by what the slices
    /// say now, which may be another endpoint.
    pub async fn find_anew(
        &self,
        export: &Export,
        consumer: &LogicalCluster,
        failed: &ExportView,
    ) -> Result<ExportView, ViewError> {
        self.homes().forget(export, consumer);
        self.find_at(export, consumer, Some(failed)).await
    }

    async fn find_at(
        &self,
        export: &Export,
        consumer: &LogicalCluster,
        failed: Option<&ExportView>,
    ) -> Result<ExportView, ViewError> {
        let known = self.endpoints.of(export, failed.map(|failed| failed.since)).await?;
        let Endpoints { urls, left_out } = &*known.endpoints;
        let since = Instant::now();
        let view = |url: &Arc<str>| {
            let endpoint = self.connection.at(url).map_err(|why| ViewError(why.to_string()))?;
            let endpoint = endpoint.join(&format!("/clusters/{consumer}"));
            Ok(ExportView { endpoint, url: Arc::clone(url), since })
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
        let home = self.homes().get(export, consumer).cloned();
        if let Some(home) = home.filter(|home| urls.contains(home)) {
            return view(&home);
        }
        let views = urls.iter().map(view).collect::<Result<Vec<_>, _>>()?;
        let found = probe(views).await.map_err(|unreached| not_shown(export, consumer, unreached, &known))?;
        self.homes().remember(export, consumer, &found.url);
        Ok(found)
    }

    fn homes(&self) -> MutexGuard<'_, Homes> {
        self.homes.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Homes {
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
        if self.count >= MOST {
            *self = Self::default();
        }
        let consumers = self.by_export.entry(export.clone()).or_default();
        if consumers.insert(consumer.clone(), Arc::clone(url)).is_none() {
            self.count += 1;
        }
    }
}

/// Why no endpoint shows the consumer: everything that may be the reason.
fn not_shown(
    (provider, name): &Export,
    consumer: &LogicalCluster,
    unreached: Option<String>,
    known: &Known,
) -> ViewError {
    let unreached = unreached.map(|why| {
        ViewError(format!("an endpoint of APIExport {name} can't be asked, where {consumer} may be: {why}"))
    });
    let reasons = unreached.iter().chain(&known.unread).chain(&known.endpoints.left_out);
    let reasons: Vec<_> = reasons.map(|ViewError(why)| why.as_str()).collect();
    ViewError(if reasons.is_empty() {
        format!(
            "HTTP 403 at each endpoint of APIExport {name} of logical cluster {provider}: the binding may be too new, or \
             the webhook's user may not `get` and `list` `apiexports/content` there"
        )
    } else {
        reasons.join("; ")
    })
}

/// The first endpoint that shows the consumer; else what one said that may have been it, if any may.
async fn probe(views: Vec<ExportView>) -> Result<ExportView, Option<String>> {
    let ask = async |view: ExportView| match view.endpoint.within(PROBE_TIME).get(PROBE).await {
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
        let (mut homes, url) = (Homes::default(), Arc::from("https://kcp/services/apiexport/a/b"));
        for n in 0..=MOST {
            homes.remember(&export(n % 2), &cluster(&format!("consumer{n}")), &url);
        }
        let last = cluster(&format!("consumer{MOST}"));
        assert_eq!((homes.count, homes.get(&export(0), &last)), (1, Some(&url)));
        homes.remember(&export(0), &last, &url);
        assert_eq!(homes.count, 1);
        homes.forget(&export(1), &last);
        homes.forget(&export(0), &last);
        assert_eq!((homes.count, homes.by_export.len()), (0, 0));
    }
}

//! Where an APIExport's virtual workspace shows a consumer: which of its endpoints, one a shard.
//!
//! Nothing is decided by what is remembered here. A virtual workspace answers for a logical cluster of its own shard, and
//! with 403 for every other, so that an endpoint which answers is the right one, however it was found; and one that does
//! not is looked for anew.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use depguard_core::{ExportName, LogicalCluster};
use futures::StreamExt;
use futures::stream::FuturesUnordered;
use http::StatusCode;
use serde_json::Value;
use tokio::sync::Mutex as Turn;
use tokio::time::Instant;

use crate::connection::Connection;
use crate::endpoint::Endpoint;
use crate::shard_hosts::ShardHosts;
use crate::slices;

/// How long the endpoints of an export are taken for what its slices said.
const FRESH: Duration = Duration::from_secs(30);
/// How long it is taken for granted that they can't be told: those who ask at the same time wait for one answer.
const FAILED: Duration = Duration::from_secs(1);
/// How long the slices of an export may take: those who wait for them have no longer.
const SLICES_TIME: Duration = Duration::from_secs(4);
/// How long an endpoint may take to say whether it shows a consumer. A shard that is well takes milliseconds.
const PROBE_TIME: Duration = Duration::from_secs(2);
/// How many exports, and how many consumers' shards, are remembered.
const MOST: usize = 4096;
/// More endpoints than kcp has shards.
const MOST_ENDPOINTS: usize = 256;

const SLICES: &str = "/apis/apis.kcp.io/v1alpha1/apiexportendpointslices?limit=500";
/// What a virtual workspace shows of every logical cluster that it reaches: the APIBinding by which it does.
const PROBE: &str = "/apis/apis.kcp.io/v1alpha2/apibindings?limit=1";

/// The virtual workspaces of APIExports, as the endpoint slices in their workspaces name them.
#[derive(Debug)]
pub struct ExportViews {
    connection: Connection,
    hosts: ShardHosts,
    exports: Mutex<HashMap<Export, Arc<Turn<Option<Known>>>>>,
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

/// An export: its logical cluster and its name.
type Export = (LogicalCluster, ExportName);

/// The URLs of an export's endpoints, each once.
type Urls = Arc<BTreeSet<Arc<str>>>;

/// What its slices said.
#[derive(Debug)]
struct Known {
    at: Instant,
    urls: Result<Urls, ViewError>,
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
        Self { connection, hosts, exports: Mutex::default(), homes: Mutex::default() }
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
        let (provider, name) = export;
        let urls = self.urls(export, failed.map(|failed| failed.since)).await?;
        let since = Instant::now();
        let view = |url: &Arc<str>| {
            let endpoint = self.connection.at(url).map_err(|why| ViewError(why.to_string()))?;
            let endpoint = endpoint.join(&format!("/clusters/{consumer}"));
            Ok(ExportView { endpoint, url: Arc::clone(url), since })
        };
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
        let found = probe(views).await.map_err(|unreached| {
            ViewError(match unreached {
                Some(why) => format!("an endpoint of APIExport {name} can't be asked, where {consumer} may be: {why}"),
                None => format!(
                    "HTTP 403 at each endpoint of APIExport {name} of logical cluster {provider}: the binding may be too \
                     new, or the webhook's user may not `get` and `list` `apiexports/content` there"
                ),
            })
        })?;
        self.homes().remember(export, consumer, &found.url);
        Ok(found)
    }

    /// The endpoints of an export, read since `since` if that is given.
    async fn urls(&self, export: &Export, since: Option<Instant>) -> Result<Urls, ViewError> {
        let turn = self.turn(export);
        // One reads, and those who wait for it have its answer.
        let mut known = turn.lock().await;
        if let Some(Known { at, urls }) = &*known {
            let fresh = if urls.is_ok() { FRESH } else { FAILED };
            if at.elapsed() < fresh && since.is_none_or(|since| *at > since) {
                return urls.clone();
            }
        }
        let at = Instant::now();
        let urls = self.read(export).await.map(Arc::new);
        *known = Some(Known { at, urls: urls.clone() });
        urls
    }

    fn turn(&self, export: &Export) -> Arc<Turn<Option<Known>>> {
        let mut exports = self.exports.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(turn) = exports.get(export) {
            return Arc::clone(turn);
        }
        if exports.len() >= MOST {
            exports.clear();
        }
        Arc::clone(exports.entry(export.clone()).or_default())
    }

    /// What the slices name, which is something: that there is nothing yet may be over in a moment, and is an error.
    async fn read(&self, (provider, name): &Export) -> Result<BTreeSet<Arc<str>>, ViewError> {
        let list = self.connection.cluster(provider).within(SLICES_TIME).get_json(SLICES).await.map_err(|why| {
            ViewError(format!("the endpoints of APIExport {name} in logical cluster {provider} can't be read: {why}"))
        })?;
        let slices = list.get("items").and_then(Value::as_array).into_iter().flatten();
        // Whatever else a slice says.
        let suffix = slices::suffix(provider.as_str(), name.as_str());
        let of_export = slices.flat_map(slices::urls).filter(|url| url.ends_with(&suffix));
        let named: BTreeSet<Arc<str>> = of_export.map(Arc::from).take(MOST_ENDPOINTS).collect();
        if named.is_empty() {
            return Err(ViewError(format!(
                "the APIExportEndpointSlices of APIExport {name} in logical cluster {provider} name no endpoint yet"
            )));
        }
        for url in &named {
            self.hosts.check(url).await.map_err(|host| {
                ViewError(format!(
                    "an endpoint of APIExport {name} in logical cluster {provider} is at `{host}`, where neither the \
                     kubeconfig nor depguard's own endpoints lead: if it is a shard, name it in --shard-hosts"
                ))
            })?;
        }
        Ok(named)
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

//! Endpoints of APIExports, one a shard, from the APIExportEndpointSlices in their workspaces.
//!
//! Known endpoints stay in use while their slices can't be read: see [`KEPT`]. No decision depends on them, because an
//! endpoint answers for the logical clusters of its own shard only.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use depguard_core::{ExportName, LogicalCluster};
use serde_json::Value;
use tokio::sync::{Mutex as Turn, OwnedMutexGuard};
use tokio::time::Instant;

use crate::http::connection::Connection;
use crate::tenancy::endpoint_slices;
use crate::tenancy::shard_hosts::ShardHosts;
use crate::tenancy::virtual_workspaces::VirtualWorkspaceError;

/// Time for which endpoints count as the present content of the slices.
const FRESH: Duration = Duration::from_secs(30);
/// Time for which endpoints stay in use while the slices can't be read: the time for which they are fresh, and the
/// minute for which unfollowed rules still count. So endpoints never run out before the rules do.
const KEPT: Duration = Duration::from_secs(30 + 60);
/// Pause after a failed read. Requests in this pause share the failure.
const FAILED: Duration = Duration::from_secs(1);
/// Time limit of a read of the slices.
const SLICES_TIME: Duration = Duration::from_secs(4);
/// Maximum of exports that are remembered.
const MAX_EXPORTS: usize = 4096;
/// Maximum of endpoints of one export: more than kcp has shards.
const MAX_ENDPOINTS: usize = 256;

const SLICES: &str = "/apis/apis.kcp.io/v1alpha1/apiexportendpointslices?limit=500";

/// Logical cluster and name of an export.
pub(crate) type Export = (LogicalCluster, ExportName);

/// Cache of the endpoints of exports.
#[derive(Debug)]
pub(crate) struct ExportEndpoints {
    reader: Arc<Reader>,
    slots: Mutex<HashMap<Export, Arc<Slot>>>,
}

/// Endpoints of one export, as far as the slices could be read.
#[derive(Debug, Clone)]
pub(crate) struct Known {
    pub(crate) endpoints: Arc<Endpoints>,
    /// Reason why the slices can't be read at the moment, if so.
    pub(crate) unread: Option<VirtualWorkspaceError>,
}

/// Endpoints in the slices of one export.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Endpoints {
    /// URLs that may be asked.
    pub(crate) urls: BTreeSet<Arc<str>>,
    /// Reason why further endpoints are not asked, if there are any.
    pub(crate) left_out: Option<VirtualWorkspaceError>,
}

/// Reader of slices over one connection.
#[derive(Debug)]
struct Reader {
    connection: Connection,
    hosts: ShardHosts,
}

/// Cache entry of one export.
#[derive(Debug, Default)]
struct Slot {
    memory: Mutex<Memory>,
    /// Lock of the task that reads.
    reading: Arc<Turn<()>>,
}

/// Results of the last reads of one export's slices.
#[derive(Debug, Default)]
struct Memory {
    /// Last endpoints that could be read, and the time when that read began.
    good: Option<(Instant, Arc<Endpoints>)>,
    /// Failure of the read after that, if the read failed.
    failed: Option<Failed>,
}

#[derive(Debug)]
struct Failed {
    began: Instant,
    ended: Instant,
    why: VirtualWorkspaceError,
}

/// Outcome of a look at the cache entry.
#[derive(Debug)]
enum Look {
    /// The entry answers the request.
    Answer(Result<Known, VirtualWorkspaceError>),
    /// The entry answers the request, and the slices are due to be read again.
    Due(Known),
    /// The slices must be read first.
    Missing,
}

impl ExportEndpoints {
    /// Reads slices over `connection`, and hands out endpoints on hosts that `hosts` trusts.
    pub(crate) fn new(connection: Connection, hosts: ShardHosts) -> Self {
        Self { reader: Arc::new(Reader { connection, hosts }), slots: Mutex::default() }
    }

    /// Returns the endpoints of an export. With `since`, reads the slices again unless they were read after that time.
    pub(crate) async fn of(&self, export: &Export, since: Option<Instant>) -> Result<Known, VirtualWorkspaceError> {
        let slot = self.slot(export);
        match slot.memory().look(Instant::now(), since) {
            Look::Answer(answer) => return answer,
            Look::Due(known) => {
                if let Ok(turn) = Arc::clone(&slot.reading).try_lock_owned() {
                    let (reader, slot, export) = (Arc::clone(&self.reader), Arc::clone(&slot), export.clone());
                    tokio::spawn(async move { reader.read_into(&slot, &export, turn).await });
                }
                return Ok(known);
            }
            Look::Missing => {}
        }
        // One task reads; the tasks that wait for it share its answer.
        let turn = Arc::clone(&slot.reading).lock_owned().await;
        match slot.memory().look(Instant::now(), since) {
            Look::Answer(answer) => return answer,
            Look::Due(known) => return Ok(known),
            Look::Missing => {}
        }
        self.reader.read_into(&slot, export, turn).await
    }

    fn slot(&self, export: &Export) -> Arc<Slot> {
        let mut slots = self.slots.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(slot) = slots.get(export) {
            return Arc::clone(slot);
        }
        if slots.len() >= MAX_EXPORTS {
            slots.clear();
        }
        Arc::clone(slots.entry(export.clone()).or_default())
    }
}

impl Reader {
    async fn read_into(
        &self,
        slot: &Slot,
        export: &Export,
        _turn: OwnedMutexGuard<()>,
    ) -> Result<Known, VirtualWorkspaceError> {
        let began = Instant::now();
        let read = self.read(export).await;
        slot.memory().take(began, read)
    }

    /// Reads the endpoints that the slices name. Slices without endpoints count as a failed read, because they may name
    /// some in a moment.
    async fn read(&self, (provider, name): &Export) -> Result<Endpoints, VirtualWorkspaceError> {
        let list = self.connection.cluster(provider).within(SLICES_TIME).get_json(SLICES).await.map_err(|why| {
            VirtualWorkspaceError::new(format!(
                "the endpoints of APIExport {name} in logical cluster {provider} can't be read: {why}"
            ))
        })?;
        let slices = list.get("items").and_then(Value::as_array).into_iter().flatten();
        // Only the URL's end counts, whatever else a slice says.
        let suffix = endpoint_slices::suffix(provider.as_str(), name.as_str());
        let of_export = slices.flat_map(endpoint_slices::urls).filter(|url| url.ends_with(&suffix));
        let named: BTreeSet<&str> = of_export.take(MAX_ENDPOINTS).collect();
        if named.is_empty() {
            return Err(VirtualWorkspaceError::new(format!(
                "the APIExportEndpointSlices of APIExport {name} in logical cluster {provider} name no endpoint yet"
            )));
        }
        let mut endpoints = Endpoints::default();
        for url in named {
            let left_out = match self.hosts.check(url).await {
                Err(host) => format!(
                    "an endpoint of APIExport {name} in logical cluster {provider} is at `{host}`, which neither the \
                     kubeconfig nor depguard's own endpoints name: if it is a shard, name it in --shard-hosts"
                ),
                Ok(()) => match self.connection.at(url) {
                    Ok(_) => {
                        endpoints.urls.insert(Arc::from(url));
                        continue;
                    }
                    Err(why) => {
                        format!("an endpoint of APIExport {name} in logical cluster {provider} can't be used: {why}")
                    }
                },
            };
            endpoints.left_out.get_or_insert(VirtualWorkspaceError::new(left_out));
        }
        Ok(endpoints)
    }
}

impl Slot {
    // No code can panic while it holds the lock.
    fn memory(&self) -> MutexGuard<'_, Memory> {
        self.memory.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Memory {
    fn look(&self, now: Instant, since: Option<Instant>) -> Look {
        let age = |at: Instant| now.saturating_duration_since(at);
        let is_since = |at: Instant| since.is_none_or(|since| at > since);
        if let Some(Failed { began, ended, why }) = &self.failed
            && age(*ended) < FAILED
            && is_since(*began)
        {
            return Look::Answer(self.known(now).ok_or_else(|| why.clone()));
        }
        match (&self.good, self.known(now)) {
            (Some((at, _)), Some(known)) if self.failed.is_none() && age(*at) < FRESH && is_since(*at) => {
                Look::Answer(Ok(known))
            }
            (_, Some(known)) if since.is_none() => Look::Due(known),
            _ => Look::Missing,
        }
    }

    /// Returns the last endpoints that could be read, unless they are too old.
    fn known(&self, now: Instant) -> Option<Known> {
        let (at, endpoints) = self.good.as_ref()?;
        let unread = self.failed.as_ref().map(|failed| failed.why.clone());
        let is_kept = now.saturating_duration_since(*at) < KEPT;
        is_kept.then(|| Known { endpoints: Arc::clone(endpoints), unread })
    }

    /// Stores the outcome of a read, and returns the known endpoints.
    fn take(
        &mut self,
        began: Instant,
        read: Result<Endpoints, VirtualWorkspaceError>,
    ) -> Result<Known, VirtualWorkspaceError> {
        let ended = Instant::now();
        match read {
            Ok(endpoints) => {
                let endpoints = Arc::new(endpoints);
                *self = Self { good: Some((began, Arc::clone(&endpoints))), failed: None };
                Ok(Known { endpoints, unread: None })
            }
            Err(why) => {
                self.failed = Some(Failed { began, ended, why: why.clone() });
                self.known(ended).ok_or(why)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn endpoints(url: &str) -> Endpoints {
        Endpoints { urls: BTreeSet::from([Arc::from(url)]), left_out: None }
    }

    fn failure() -> VirtualWorkspaceError {
        VirtualWorkspaceError::new("the shard is down".to_owned())
    }

    /// Returns `known` or `due`, with `, unread` after a failure; or `missing`, or the error.
    fn seen(memory: &Memory, since: Option<Instant>) -> String {
        match memory.look(Instant::now(), since) {
            Look::Answer(Ok(known)) => format!("known{}", known.unread.map_or("", |_| ", unread")),
            Look::Answer(Err(why)) => why.to_string(),
            Look::Due(known) => format!("due{}", known.unread.map_or("", |_| ", unread")),
            Look::Missing => "missing".to_owned(),
        }
    }

    #[tokio::test(start_paused = true)]
    async fn good_endpoints_outlast_failed_reads_for_as_long_as_rules_are_believed() {
        let mut memory = Memory::default();
        assert_eq!(seen(&memory, None), "missing");
        memory.take(Instant::now(), Ok(endpoints("https://a"))).unwrap();
        assert_eq!(seen(&memory, None), "known");
        tokio::time::advance(FRESH).await;
        assert_eq!(seen(&memory, None), "due", "nobody waits for the read");
        memory.take(Instant::now(), Err(failure())).unwrap();
        assert_eq!(seen(&memory, None), "known, unread");
        tokio::time::advance(Duration::from_secs(59)).await;
        assert_eq!(seen(&memory, None), "due, unread");
        tokio::time::advance(Duration::from_secs(1)).await;
        assert_eq!(seen(&memory, None), "missing");
        assert_eq!(memory.take(Instant::now(), Err(failure())).unwrap_err(), failure());
        assert_eq!(seen(&memory, None), "the shard is down", "shared by those who ask at the same time");
        tokio::time::advance(FAILED).await;
        assert_eq!(seen(&memory, None), "missing");
    }

    #[tokio::test(start_paused = true)]
    async fn who_was_refused_by_an_endpoint_has_the_slices_read_since() {
        let mut memory = Memory::default();
        let before = Instant::now();
        tokio::time::advance(Duration::from_millis(1)).await;
        memory.take(Instant::now(), Ok(endpoints("https://a"))).unwrap();
        assert_eq!(seen(&memory, Some(before)), "known");
        let refused = Instant::now();
        assert_eq!(seen(&memory, Some(refused)), "missing");
        tokio::time::advance(Duration::from_millis(1)).await;
        // A read that uses up its time fails at its end, not at its beginning.
        let began = Instant::now();
        tokio::time::advance(SLICES_TIME).await;
        memory.take(began, Err(failure())).unwrap();
        assert_eq!(seen(&memory, Some(refused)), "known, unread");
        tokio::time::advance(FAILED).await;
        assert_eq!(seen(&memory, Some(refused)), "missing");
    }
}

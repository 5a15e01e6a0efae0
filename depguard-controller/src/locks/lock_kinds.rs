//! Kinds that the API servers of locks serve, and in kcp the APIExport that each bound kind comes from.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use depguard_core::model::GroupResource;
use depguard_core::{ControlPlane, Group, LogicalCluster};
use depguard_kcp::{ApiError, Connection, Endpoint};
use futures::{StreamExt, stream};
use serde_json::Value;
use tokio::time::{Instant, sleep};

use crate::runtime::apply;

/// Time for which an answer holds.
const FRESH: Duration = Duration::from_secs(30);
/// Time for which an answer holds if it lacks a kind, or is a failure.
pub(super) const LACKING: Duration = Duration::from_secs(4);
/// Time for which an answer is believed while later requests fail.
const BELIEVED: Duration = Duration::from_secs(60);
/// Maximum number of requests at once.
const MAX_CONCURRENT_READS: usize = 8;
/// Time limit of one refresh. The next refresh asks for the rest.
const PATIENCE: Duration = Duration::from_secs(15);
/// Maximum number of versions of a group that are asked about.
const MAX_VERSIONS: usize = 32;

type Cluster = Option<LogicalCluster>;

/// Answers of the API servers.
#[derive(Debug, Default)]
pub(super) struct Kinds {
    /// Resources in any version, subresources among them, by logical cluster and group.
    served: BTreeMap<(Cluster, Group), Known<BTreeSet<String>>>,
    /// Bound kinds by logical cluster, each with the logical cluster of its APIExport.
    bound: BTreeMap<LogicalCluster, Known<BTreeMap<GroupResource, LogicalCluster>>>,
}

#[derive(Debug)]
struct Known<T> {
    found: Result<T, String>,
    /// Time at which `found` was answered.
    at: Instant,
    /// Time of a later request that failed.
    failed: Option<Instant>,
}

impl Kinds {
    /// Asks for the answers about `named` that are due, and forgets all others. A failure leaves an earlier answer in
    /// place for a minute.
    pub(super) async fn refresh(
        &mut self,
        connection: &Connection,
        control_plane: ControlPlane,
        named: &BTreeSet<(Cluster, GroupResource)>,
    ) {
        let now = Instant::now();
        let groups: BTreeSet<_> = named.iter().map(|(cluster, kind)| (cluster.clone(), kind.group.clone())).collect();
        self.served.retain(|key, _| groups.contains(key));
        let lacks = |(cluster, group): &(Cluster, Group), found: &BTreeSet<String>| {
            let mut kinds = named.iter().filter(|(at, kind)| at == cluster && kind.group == *group);
            kinds.any(|(_, kind)| !found.contains(kind.resource.as_str()))
        };
        let due = groups.into_iter().filter(|key| {
            let known = self.served.get(key);
            !known.is_some_and(|known| known.is_fresh(now, |found| lacks(key, found)))
        });
        let asked = due.collect::<Vec<_>>().into_iter().map(|key| async move {
            let found = served(&at(connection, key.0.as_ref()), &key.1).await;
            (key, found)
        });
        let asked: Vec<_> = asked.collect();
        let mut asked =
            Box::pin(stream::iter(asked).buffer_unordered(MAX_CONCURRENT_READS).take_until(sleep(PATIENCE)));
        while let Some((key, found)) = asked.next().await {
            note(&mut self.served, key, found, Instant::now());
        }
        drop(asked);
        if control_plane == ControlPlane::Kubernetes {
            return;
        }
        let clusters: BTreeSet<_> = named.iter().filter_map(|(cluster, _)| cluster.clone()).collect();
        self.bound.retain(|cluster, _| clusters.contains(cluster));
        let due =
            clusters.into_iter().filter(|key| !self.bound.get(key).is_some_and(|known| known.is_fresh(now, |_| false)));
        let asked = due.collect::<Vec<_>>().into_iter().map(|key| async move {
            let found = bound(&at(connection, Some(&key))).await;
            (key, found)
        });
        let asked: Vec<_> = asked.collect();
        let mut asked =
            Box::pin(stream::iter(asked).buffer_unordered(MAX_CONCURRENT_READS).take_until(sleep(PATIENCE)));
        while let Some((key, found)) = asked.next().await {
            note(&mut self.bound, key, found, Instant::now());
        }
    }

    /// Returns true if a kind is served, or its subresource if one is named.
    pub(super) fn serves(&self, cluster: &Cluster, kind: &GroupResource, of: Option<&str>) -> Result<bool, &str> {
        let name = match of {
            Some(of) => format!("{}/{of}", kind.resource),
            None => kind.resource.to_string(),
        };
        match self.served.get(&(cluster.clone(), kind.group.clone())) {
            Some(known) => known.found.as_ref().map(|found| found.contains(&name)).map_err(String::as_str),
            None => Err("the API server has not been asked yet"),
        }
    }

    /// Returns the logical cluster in which the webhooks of a kind are looked up: that of its APIExport, or its own.
    pub(super) fn place(&self, cluster: &LogicalCluster, kind: &GroupResource) -> Result<LogicalCluster, &str> {
        match self.bound.get(cluster) {
            Some(known) => {
                let of = known.found.as_ref().map(|found| found.get(kind).unwrap_or(cluster).clone());
                of.map_err(String::as_str)
            }
            None => Err("the APIBindings of the workspace have not been listed yet"),
        }
    }
}

#[cfg(test)]
impl Kinds {
    /// Returns the answers for one workspace that has bound these kinds, each from the APIExport of a logical cluster.
    pub(super) fn new(cluster: &str, bound: &[(&str, &str)]) -> Self {
        use crate::testing::{cluster as logical, kind};
        let bound = bound.iter().map(|(of, exporter)| (kind(of), logical(exporter)));
        let known = Known { found: Ok(bound.collect()), at: Instant::now(), failed: None };
        Self { bound: BTreeMap::from([(logical(cluster), known)]), ..Self::default() }
    }
}

impl<T> Known<T> {
    fn is_fresh(&self, now: Instant, lacks: impl Fn(&T) -> bool) -> bool {
        let (since, holds) = match (&self.found, self.failed) {
            (_, Some(failed)) => (failed, LACKING),
            (Ok(found), None) if !lacks(found) => (self.at, FRESH),
            _ => (self.at, LACKING),
        };
        now.saturating_duration_since(since) < holds
    }
}

/// Stores an answer. A failure replaces an earlier answer once that is too old to be believed.
fn note<K: Ord, T>(known: &mut BTreeMap<K, Known<T>>, key: K, found: Result<T, ApiError>, now: Instant) {
    let found = found.map_err(|error| error.to_string());
    let is_believed = |before: &Known<T>| before.found.is_ok() && now.saturating_duration_since(before.at) < BELIEVED;
    match known.get_mut(&key) {
        Some(before) if found.is_err() && is_believed(before) => before.failed = Some(now),
        _ => drop(known.insert(key, Known { found, at: now, failed: None })),
    }
}

fn at(connection: &Connection, cluster: Option<&LogicalCluster>) -> Endpoint {
    match cluster {
        Some(cluster) => connection.cluster(cluster).within(apply::REQUEST),
        None => apply::own_endpoint(connection),
    }
}

/// Returns the resources of a group in any version.
async fn served(endpoint: &Endpoint, group: &Group) -> Result<BTreeSet<String>, ApiError> {
    let root = if group.is_core() { "/api".to_owned() } else { format!("/apis/{group}") };
    let versions = match endpoint.get_json(&root).await {
        Ok(found) => found,
        Err(error) if error.is_not_found() => return Ok(BTreeSet::new()),
        Err(error) => return Err(error),
    };
    let versions = versions.get("versions").and_then(Value::as_array).cloned().unwrap_or_default();
    // The versions of the core group are plain strings.
    let name = |version: &Value| version.as_str().or_else(|| version.get("version")?.as_str()).map(str::to_owned);
    let mut resources = BTreeSet::new();
    for version in versions.iter().filter_map(name).take(MAX_VERSIONS) {
        match endpoint.get_json(&format!("{root}/{version}")).await {
            Ok(list) => {
                let list = list.get("resources").and_then(Value::as_array).cloned().unwrap_or_default();
                resources.extend(list.iter().filter_map(|resource| Some(resource.get("name")?.as_str()?.to_owned())));
            }
            Err(error) if error.is_not_found() => {}
            Err(error) => return Err(error),
        }
    }
    Ok(resources)
}

/// Returns the kinds that a workspace has bound, each with the logical cluster of its APIExport.
async fn bound(endpoint: &Endpoint) -> Result<BTreeMap<GroupResource, LogicalCluster>, ApiError> {
    let bindings = endpoint.list_json("/apis/apis.kcp.io/v1alpha2/apibindings").await?;
    let mut bound = BTreeMap::new();
    for binding in &bindings.items {
        let exporter = binding.pointer("/status/apiExportClusterName").and_then(Value::as_str);
        let Some(exporter) = exporter.and_then(|cluster| LogicalCluster::parse(cluster).ok()) else { continue };
        let resources = binding.pointer("/status/boundResources").and_then(Value::as_array);
        for resource in resources.into_iter().flatten() {
            let text = |field| resource.get(field).and_then(Value::as_str).unwrap_or_default();
            let kind = (Group::parse(text("group")), depguard_core::model::Resource::parse(text("resource")));
            if let (Ok(group), Ok(resource)) = kind {
                bound.insert(GroupResource { group, resource }, exporter.clone());
            }
        }
    }
    Ok(bound)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_believed_for_a_minute_while_requests_fail() {
        let begun = Instant::now();
        let after = |seconds| begun + Duration::from_secs(seconds);
        let failure = || ApiError::Unusable { request: "GET /apis".to_owned(), why: "was cut".to_owned() };
        let mut known: BTreeMap<&str, Known<u32>> = BTreeMap::new();
        note(&mut known, "a", Ok(1), begun);
        assert!(known["a"].is_fresh(after(29), |_| false) && !known["a"].is_fresh(after(30), |_| false));

        note(&mut known, "a", Err(failure()), after(30));
        assert_eq!(known["a"].found, Ok(1));
        assert!(known["a"].is_fresh(after(33), |_| false), "nobody asks again at once");
        assert!(!known["a"].is_fresh(after(34), |_| false), "a failure does not make the earlier answer fresh");
        note(&mut known, "a", Err(failure()), after(60));
        assert!(known["a"].found.is_err(), "it is too old to be believed");
        note(&mut known, "a", Ok(2), after(64));
        assert!(known["a"].found == Ok(2) && known["a"].is_fresh(after(93), |_| false));
    }
}

//! What the API servers of locks serve: whether there is a kind, and in home kcp whose it is.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use depguard_core::{Group, GroupResource, Home, LogicalCluster};
use depguard_kcp::{ApiError, Connection, Endpoint};
use futures::{StreamExt, stream};
use serde_json::Value;
use tokio::time::{Instant, sleep};

use crate::install;

/// For how long an answer holds.
const FRESH: Duration = Duration::from_secs(30);
/// For how long it holds that something is not served, or could not be seen.
pub(super) const LACKING: Duration = Duration::from_secs(4);
/// Asked at once.
const AT_ONCE: usize = 8;
/// How long one refresh may take. What is left is asked in the next.
const PATIENCE: Duration = Duration::from_secs(15);
/// The most versions of a group that are asked about.
const MOST_VERSIONS: usize = 32;

type Cluster = Option<LogicalCluster>;

/// What is known.
#[derive(Debug, Default)]
pub(super) struct Kinds {
    /// By logical cluster and group: the resources in any version, subresources among them.
    served: BTreeMap<(Cluster, Group), Known<BTreeSet<String>>>,
    /// By logical cluster: of whose APIExport each bound kind is.
    bound: BTreeMap<LogicalCluster, Known<BTreeMap<GroupResource, LogicalCluster>>>,
}

#[derive(Debug)]
struct Known<T> {
    found: Result<T, String>,
    at: Instant,
}

impl Kinds {
    /// Sees to it that these are known, and forgets all others. What fails leaves what was known before.
    pub(super) async fn refresh(
        &mut self,
        connection: &Connection,
        home: Home,
        named: &BTreeSet<(Cluster, GroupResource)>,
    ) {
        let groups: BTreeSet<_> = named.iter().map(|(cluster, kind)| (cluster.clone(), kind.group.clone())).collect();
        self.served.retain(|key, _| groups.contains(key));
        let lacks = |(cluster, group): &(Cluster, Group), found: &BTreeSet<String>| {
            let mut kinds = named.iter().filter(|(at, kind)| at == cluster && kind.group == *group);
            kinds.any(|(_, kind)| !found.contains(kind.resource.as_str()))
        };
        let due = groups.into_iter().filter(|key| {
            let known = self.served.get(key);
            !known.is_some_and(|known| known.is_fresh(|found| lacks(key, found)))
        });
        let asked = due.collect::<Vec<_>>().into_iter().map(|key| async move {
            let found = served(&at(connection, key.0.as_ref()), &key.1).await;
            (key, found)
        });
        let asked: Vec<_> = asked.collect();
        let mut asked = Box::pin(stream::iter(asked).buffer_unordered(AT_ONCE).take_until(sleep(PATIENCE)));
        while let Some((key, found)) = asked.next().await {
            note(&mut self.served, key, found);
        }
        drop(asked);
        if home == Home::Kubernetes {
            return;
        }
        let clusters: BTreeSet<_> = named.iter().filter_map(|(cluster, _)| cluster.clone()).collect();
        self.bound.retain(|cluster, _| clusters.contains(cluster));
        let due =
            clusters.into_iter().filter(|key| !self.bound.get(key).is_some_and(|known| known.is_fresh(|_| false)));
        let asked = due.collect::<Vec<_>>().into_iter().map(|key| async move {
            let found = bound(&at(connection, Some(&key))).await;
            (key, found)
        });
        let asked: Vec<_> = asked.collect();
        let mut asked = Box::pin(stream::iter(asked).buffer_unordered(AT_ONCE).take_until(sleep(PATIENCE)));
        while let Some((key, found)) = asked.next().await {
            note(&mut self.bound, key, found);
        }
    }

    /// Whether a kind is served, with the subresource if that is named.
    pub(super) fn serves(&self, cluster: &Cluster, kind: &GroupResource, of: Option<&str>) -> Result<bool, &str> {
        let name = match of {
            Some(of) => format!("{}/{of}", kind.resource),
            None => kind.resource.to_string(),
        };
        match self.served.get(&(cluster.clone(), kind.group.clone())) {
            Some(known) => known.found.as_ref().map(|found| found.contains(&name)).map_err(String::as_str),
            None => Err("it has not been asked yet"),
        }
    }

    /// The logical cluster in which it is looked up who reviews a kind: that of its APIExport, or its own.
    pub(super) fn place(&self, cluster: &LogicalCluster, kind: &GroupResource) -> Result<LogicalCluster, &str> {
        match self.bound.get(cluster) {
            Some(known) => {
                let of = known.found.as_ref().map(|found| found.get(kind).unwrap_or(cluster).clone());
                of.map_err(String::as_str)
            }
            None => Err("its APIBindings have not been listed yet"),
        }
    }
}

#[cfg(test)]
impl Kinds {
    /// In this workspace these kinds are bound, each of the APIExport of a logical cluster.
    pub(super) fn of(cluster: &str, bound: &[(&str, &str)]) -> Self {
        use crate::testing::{cluster as logical, kind};
        let bound = bound.iter().map(|(of, exporter)| (kind(of), logical(exporter)));
        let known = Known { found: Ok(bound.collect()), at: Instant::now() };
        Self { bound: BTreeMap::from([(logical(cluster), known)]), ..Self::default() }
    }
}

impl<T> Known<T> {
    fn is_fresh(&self, lacks: impl Fn(&T) -> bool) -> bool {
        let holds = match &self.found {
            Ok(found) if !lacks(found) => FRESH,
            _ => LACKING,
        };
        self.at.elapsed() < holds
    }
}

/// Takes note of what was found. A failure does not replace what is known: it is asked again sooner.
fn note<K: Ord, T>(known: &mut BTreeMap<K, Known<T>>, key: K, found: Result<T, ApiError>) {
    let found = found.map_err(|error| error.to_string());
    let at = Instant::now();
    match known.get_mut(&key) {
        Some(before) if before.found.is_ok() && found.is_err() => before.at = at,
        _ => drop(known.insert(key, Known { found, at })),
    }
}

fn at(connection: &Connection, cluster: Option<&LogicalCluster>) -> Endpoint {
    match cluster {
        Some(cluster) => connection.cluster(cluster).within(install::REQUEST),
        None => install::home(connection),
    }
}

/// The resources of a group, in whichever version.
async fn served(endpoint: &Endpoint, group: &Group) -> Result<BTreeSet<String>, ApiError> {
    let root = if group.is_core() { "/api".to_owned() } else { format!("/apis/{group}") };
    let versions = match endpoint.get_json(&root).await {
        Ok(found) => found,
        Err(error) if error.is_not_found() => return Ok(BTreeSet::new()),
        Err(error) => return Err(error),
    };
    let versions = versions.get("versions").and_then(Value::as_array).cloned().unwrap_or_default();
    // The core group's are no objects.
    let name = |version: &Value| version.as_str().or_else(|| version.get("version")?.as_str()).map(str::to_owned);
    let mut resources = BTreeSet::new();
    for version in versions.iter().filter_map(name).take(MOST_VERSIONS) {
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

/// What a workspace has bound, and of whose APIExport each is.
async fn bound(endpoint: &Endpoint) -> Result<BTreeMap<GroupResource, LogicalCluster>, ApiError> {
    let bindings = endpoint.list_json("/apis/apis.kcp.io/v1alpha2/apibindings").await?;
    let mut bound = BTreeMap::new();
    for binding in &bindings.items {
        let exporter = binding.pointer("/status/apiExportClusterName").and_then(Value::as_str);
        let Some(exporter) = exporter.and_then(|cluster| LogicalCluster::parse(cluster).ok()) else { continue };
        let resources = binding.pointer("/status/boundResources").and_then(Value::as_array);
        for resource in resources.into_iter().flatten() {
            let text = |field| resource.get(field).and_then(Value::as_str).unwrap_or_default();
            let kind = (Group::parse(text("group")), depguard_core::Resource::parse(text("resource")));
            if let (Ok(group), Ok(resource)) = kind {
                bound.insert(GroupResource { group, resource }, exporter.clone());
            }
        }
    }
    Ok(bound)
}

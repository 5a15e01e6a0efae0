//! Kinds that the API servers of locks serve, and in kcp the APIExport that each bound kind comes from.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use depguard_core::model::GroupResource;
use depguard_core::{ControlPlane, Group, LogicalCluster};
use depguard_kcp::{ApiError, Connection, Endpoint, long_freshness};
use serde_json::Value;
use tokio::time::Instant;

use crate::runtime::apply;
use crate::schema::answers::{Answers, Holds};

/// Time for which an answer holds at first. That a kind comes from another APIExport is seen late where that has never
/// changed, but not while there are objects of the kind to lock: they go with their binding, and a lock on one keeps
/// both.
const FRESH: Duration = Duration::from_secs(60);
/// Times for which an answer holds that lacks a kind.
pub(super) const LACKING: Holds = Holds { first: Duration::from_secs(4), last: Duration::from_secs(30) };
/// Maximum number of workspaces that are asked at once.
const MAX_CONCURRENT_READS: usize = 8;
/// Reason while there is no answer.
const NOT_ASKED: &str = "the API server has not been asked yet";
/// Maximum number of versions of a group that are asked about.
const MAX_VERSIONS: usize = 32;

type Cluster = Option<LogicalCluster>;

/// Kind that a lock names, with the name of a subresource if the lock names one.
pub(super) type NamedKind = (GroupResource, Option<String>);

/// Kinds that locks name, by the logical cluster of the locks and the group of the kinds.
pub(super) type NamedKinds = BTreeMap<(Cluster, Group), BTreeSet<NamedKind>>;

/// Answers of the API servers. Each group is asked about by itself, so that one that can't be asked about, such as that of
/// an aggregated API server that is away, says nothing about others.
#[derive(Debug, Default)]
pub(super) struct Kinds(Answers<(Cluster, Group), Found>);

/// Answer of an API server about a kind, or its subresource.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Served {
    /// It is served in no version.
    No,
    /// It is served. `namespaced` is true if its objects are in namespaces; `None`: the API server did not tell.
    Yes { namespaced: Option<bool> },
}

/// Answer of one API server about the named kinds of one group.
#[derive(Debug, Default, PartialEq)]
struct Found {
    served: BTreeMap<NamedKind, Served>,
    /// Logical cluster of the APIExport of each of the kinds that is bound.
    exporters: BTreeMap<GroupResource, LogicalCluster>,
}

impl Kinds {
    /// Asks for the answers about `named` that are due, and forgets all others. A failure leaves an earlier answer in
    /// place for a minute.
    pub(super) async fn refresh(&mut self, connection: &Connection, control_plane: ControlPlane, named: &NamedKinds) {
        let ask = |(cluster, group): (Cluster, Group), named| async move {
            let endpoint = at(connection, cluster.as_ref());
            find(&endpoint, control_plane, &group, named).await.map_err(|error| error.to_string())
        };
        self.0.refresh(named, MAX_CONCURRENT_READS, holds, ask).await;
    }

    /// Returns the time at which an answer that lacks a kind, or a failure, is due.
    pub(super) fn next_due(&self) -> Option<Instant> {
        self.0.next_due(FRESH)
    }

    /// Returns whether a kind is served, or its subresource if one is named.
    pub(super) fn serves(&self, cluster: &Cluster, kind: &GroupResource, of: Option<&str>) -> Result<Served, &str> {
        let found = self.found(cluster.clone(), kind)?;
        found.served.get(&(kind.clone(), of.map(str::to_owned))).copied().ok_or(NOT_ASKED)
    }

    /// Returns the logical cluster in which the webhooks of a kind are looked up: that of its APIExport, or its own.
    pub(super) fn place(&self, cluster: &LogicalCluster, kind: &GroupResource) -> Result<LogicalCluster, &str> {
        let found = self.found(Some(cluster.clone()), kind)?;
        if !found.served.keys().any(|(named, _)| named == kind) {
            return Err(NOT_ASKED);
        }
        Ok(found.exporters.get(kind).unwrap_or(cluster).clone())
    }

    fn found(&self, cluster: Cluster, kind: &GroupResource) -> Result<&Found, &str> {
        self.0.get(&(cluster, kind.group.clone())).unwrap_or(Err(NOT_ASKED))
    }
}

#[cfg(test)]
impl Kinds {
    /// Returns the answer of one workspace about these kinds of one group, which have namespaces, each with the logical
    /// cluster of its APIExport; `None`: of no APIExport.
    pub(super) fn new(cluster: &str, kinds: &[(&str, Option<&str>)]) -> Self {
        use crate::testing::{cluster as logical, kind};
        let served = kinds.iter().map(|(of, _)| ((kind(of), None), Served::Yes { namespaced: Some(true) })).collect();
        let exporters = kinds.iter().filter_map(|(of, exporter)| Some((kind(of), logical((*exporter)?)))).collect();
        let group = kinds.first().map_or(Group::CORE, |(of, _)| kind(of).group);
        Self(Answers::of((Some(logical(cluster)), group), Found { served, exporters }))
    }

    /// Returns the answer of a plain cluster about one kind.
    pub(super) fn of_one(of: &GroupResource, served: Served) -> Self {
        let served = [((of.clone(), None), served)].into();
        Self(Answers::of((None, of.group.clone()), Found { served, exporters: BTreeMap::new() }))
    }
}

/// Returns the time for which an answer holds: none at all if somebody names another kind since.
fn holds(key: &(Cluster, Group), named: &BTreeSet<NamedKind>, found: &Found) -> Holds {
    if named.iter().any(|named| !found.served.contains_key(named)) {
        return Holds::always(Duration::ZERO);
    }
    if found.served.values().any(|served| !matches!(served, Served::Yes { namespaced: Some(_) })) {
        return LACKING;
    }
    Holds { first: FRESH, last: long_freshness(key) }
}

fn at(connection: &Connection, cluster: Option<&LogicalCluster>) -> Endpoint {
    match cluster {
        Some(cluster) => connection.cluster(cluster).within(apply::REQUEST),
        None => apply::own_endpoint(connection),
    }
}

/// Finds out which of the kinds of a group are served, and which APIExport each comes from. In kcp a kind that is bound is
/// served, whatever discovery says.
async fn find(
    endpoint: &Endpoint,
    control_plane: ControlPlane,
    group: &Group,
    named: BTreeSet<NamedKind>,
) -> Result<Found, ApiError> {
    let resources = served(endpoint, group).await;
    // Asked for afterwards: what was bound meanwhile is served, too, and by its APIExport.
    let is_kcp = control_plane == ControlPlane::Kcp;
    let mut exporters = if is_kcp { exporters(endpoint).await? } else { BTreeMap::new() };
    let is_bound = |(kind, of): &NamedKind| of.is_none() && exporters.contains_key(kind);
    let resources = match resources {
        Err(_) if named.iter().all(is_bound) => BTreeMap::new(),
        found => found?,
    };
    let found = named.into_iter().map(|named| {
        let (kind, of) = &named;
        let name = of.as_ref().map_or_else(|| kind.resource.to_string(), |of| format!("{}/{of}", kind.resource));
        let served = match resources.get(&name) {
            None if !is_bound(&named) => Served::No,
            namespaced => Served::Yes { namespaced: namespaced.copied().flatten() },
        };
        (named, served)
    });
    let served: BTreeMap<_, _> = found.collect();
    exporters.retain(|kind, _| served.keys().any(|(named, _)| named == kind));
    Ok(Found { served, exporters })
}

/// Returns the resources of a group in any version, each with true if its objects are in namespaces, as far as that is told.
async fn served(endpoint: &Endpoint, group: &Group) -> Result<BTreeMap<String, Option<bool>>, ApiError> {
    let root = if group.is_core() { "/api".to_owned() } else { format!("/apis/{group}") };
    let versions = match endpoint.get_json(&root).await {
        Ok(found) => found,
        Err(error) if error.is_not_found() => return Ok(BTreeMap::new()),
        Err(error) => return Err(error),
    };
    let versions = versions.get("versions").and_then(Value::as_array).cloned().unwrap_or_default();
    // The versions of the core group are plain strings.
    let name = |version: &Value| version.as_str().or_else(|| version.get("version")?.as_str()).map(str::to_owned);
    let mut resources = BTreeMap::new();
    for version in versions.iter().filter_map(name).take(MAX_VERSIONS) {
        match endpoint.get_json(&format!("{root}/{version}")).await {
            Ok(list) => {
                let list = list.get("resources").and_then(Value::as_array).into_iter().flatten();
                resources.extend(list.filter_map(|resource| {
                    let namespaced = resource.get("namespaced").and_then(Value::as_bool);
                    Some((resource.get("name")?.as_str()?.to_owned(), namespaced))
                }));
            }
            Err(error) if error.is_not_found() => {}
            Err(error) => return Err(error),
        }
    }
    Ok(resources)
}

/// Returns the kinds that a workspace has bound, each with the logical cluster of its APIExport.
async fn exporters(endpoint: &Endpoint) -> Result<BTreeMap<GroupResource, LogicalCluster>, ApiError> {
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
    use crate::testing::{cluster, kind};

    #[test]
    fn an_answer_that_lacks_a_kind_is_asked_for_again_soon() {
        let named = |names: &[&str]| names.iter().map(|of| (kind(of), None)).collect::<BTreeSet<NamedKind>>();
        let found = |served: &[(&str, Served)]| Found {
            served: served.iter().map(|(of, served)| ((kind(of), None), *served)).collect(),
            exporters: BTreeMap::new(),
        };
        let place = (Some(cluster("c1")), kind("as.x").group);
        let of = |names: &[&str], served: &[(&str, Served)]| {
            let Holds { first, last } = holds(&place, &named(names), &found(served));
            (first, last)
        };
        let (lacking, whole) = ((LACKING.first, LACKING.last), (FRESH, long_freshness(&place)));
        assert_eq!(of(&["as.x"], &[("as.x", Served::Yes { namespaced: Some(false) })]), whole);
        assert_eq!(of(&["as.x"], &[("as.x", Served::No)]), lacking);
        assert_eq!(of(&["as.x"], &[("as.x", Served::Yes { namespaced: None })]), lacking, "the scope is to be told");
        let served = [("as.x", Served::Yes { namespaced: Some(true) })];
        assert_eq!(of(&["as.x", "bs.x"], &served), (Duration::ZERO, Duration::ZERO), "another kind is named");
    }

    #[test]
    fn where_a_kind_is_from_is_known_only_of_kinds_that_were_asked_about() {
        let kinds = Kinds::new("c1", &[("as.x", None), ("bs.x", Some("e1"))]);
        let place = |of: &str, kind: &str| kinds.place(&cluster(of), &crate::testing::kind(kind));
        assert_eq!(place("c1", "as.x"), Ok(cluster("c1")));
        assert_eq!(place("c1", "bs.x"), Ok(cluster("e1")));
        assert_eq!((place("c1", "cs.x"), place("c2", "as.x")), (Err(NOT_ASKED), Err(NOT_ASKED)));
    }
}

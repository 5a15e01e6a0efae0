//! The object of a deletion.

use std::collections::BTreeMap;

use crate::model::control_plane::ControlPlane;
use crate::model::names::{GroupResource, LogicalCluster, NameError, Namespace};
use crate::model::ownership::Owner;
use crate::protocol::reviewed_object::ReviewedObject;

/// The known parts of the object that is to be deleted.
#[derive(Debug)]
pub(crate) struct DeletionTarget {
    pub(crate) kind: GroupResource,
    pub(crate) cluster: Option<LogicalCluster>,
    pub(crate) namespace: Option<Namespace>,
    pub(crate) name: String,
    pub(crate) uid: Option<String>,
    pub(crate) labels: BTreeMap<String, String>,
    /// The kind by which each version that was looked at serves the target; `None`: that version doesn't serve it.
    pub(crate) kinds: BTreeMap<String, Option<String>>,
    /// True if the dependents that the target owns may stay.
    pub(crate) orphans: bool,
}

impl DeletionTarget {
    /// Reads the target from a review's oldObject. An error is the end of a sentence.
    pub(crate) fn read(
        control_plane: ControlPlane,
        kind: GroupResource,
        object: &ReviewedObject<'_>,
    ) -> Result<Self, String> {
        let namespaced = |error: NameError| format!("its oldObject's namespace {error}");
        Ok(Self {
            kind,
            cluster: cluster_of(control_plane, object.cluster())?,
            namespace: object.namespace().map(Namespace::parse).transpose().map_err(namespaced)?,
            name: object.name().ok_or("its oldObject has no name").and_then(stored_name)?.to_owned(),
            uid: object.uid().map(str::to_owned),
            labels: object.labels().map(|(key, value)| (key.to_owned(), value.to_owned())).collect(),
            kinds: BTreeMap::new(),
            orphans: true,
        })
    }

    /// Returns the target as the possible owner of its dependents.
    pub(crate) fn owner(&self) -> Owner<'_> {
        Owner {
            group: self.kind.group.as_str(),
            kinds: &self.kinds,
            namespace: self.namespace.as_ref().map(Namespace::as_str),
            name: &self.name,
            uid: self.uid.as_deref(),
            orphans: self.orphans,
        }
    }
}

/// Returns the logical cluster of an object by its annotation. An error is the end of a sentence.
pub(crate) fn cluster_of(control_plane: ControlPlane, cluster: Option<&str>) -> Result<Option<LogicalCluster>, String> {
    if control_plane == ControlPlane::Kubernetes {
        return Ok(None);
    }
    let cluster = cluster.ok_or("its object has no annotation kcp.io/cluster")?;
    LogicalCluster::parse(cluster).map(Some).map_err(|error| format!("its annotation kcp.io/cluster {error}"))
}

/// Checks that an API server could have stored an object of that name, by the rules that all kinds share. The name
/// goes into messages unchanged.
pub(crate) fn stored_name(name: &str) -> Result<&str, &'static str> {
    if is_stored_name(name) { Ok(name) } else { Err("its oldObject has an invalid name") }
}

/// Returns true if an API server could have stored an object of that name.
pub(crate) fn is_stored_name(name: &str) -> bool {
    name.len() <= 253
        && !name.contains(|c: char| matches!(c, '/' | '%') || c.is_control())
        && !matches!(name, "." | "..")
}

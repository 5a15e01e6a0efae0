//! The object of a deletion.

use std::collections::BTreeMap;

use crate::model::control_plane::ControlPlane;
use crate::model::names::{GroupResource, LogicalCluster, NameError, Namespace};
use crate::protocol::admission_review::ReviewedObject;

/// The known parts of the object that is to be deleted.
#[derive(Debug)]
pub(crate) struct DeletionTarget {
    pub(crate) kind: GroupResource,
    pub(crate) cluster: Option<LogicalCluster>,
    pub(crate) namespace: Option<Namespace>,
    pub(crate) name: String,
    pub(crate) uid: Option<String>,
    pub(crate) labels: BTreeMap<String, String>,
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
        })
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

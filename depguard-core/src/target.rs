//! The object that is to be deleted.

use std::collections::BTreeMap;

use crate::home::Home;
use crate::names::{GroupResource, LogicalCluster, NameError, Namespace};
use crate::review::ReviewedObject;

/// What is known of the object that is to be deleted.
#[derive(Debug)]
pub(crate) struct Target {
    pub(crate) kind: GroupResource,
    pub(crate) cluster: Option<LogicalCluster>,
    pub(crate) namespace: Option<Namespace>,
    pub(crate) name: String,
    pub(crate) uid: Option<String>,
    pub(crate) labels: BTreeMap<String, String>,
}

impl Target {
    /// Reads it from a review's oldObject; or tells why it can't, as the end of a sentence.
    pub(crate) fn read(home: Home, kind: GroupResource, object: &ReviewedObject<'_>) -> Result<Self, String> {
        let namespaced = |error: NameError| format!("its oldObject's namespace {error}");
        Ok(Self {
            kind,
            cluster: cluster_of(home, Some(object))?,
            namespace: object.namespace().map(Namespace::parse).transpose().map_err(namespaced)?,
            name: object.name().ok_or("its oldObject has no name").and_then(stored_name)?.to_owned(),
            uid: object.uid().map(str::to_owned),
            labels: object.labels().map(|(key, value)| (key.to_owned(), value.to_owned())).collect(),
        })
    }
}

/// The logical cluster that an object lies in; or why that can't be told, as the end of a sentence.
pub(crate) fn cluster_of(home: Home, object: Option<&ReviewedObject<'_>>) -> Result<Option<LogicalCluster>, String> {
    if home == Home::Kubernetes {
        return Ok(None);
    }
    let cluster = object.and_then(ReviewedObject::cluster).ok_or("its oldObject has no annotation kcp.io/cluster")?;
    LogicalCluster::parse(cluster).map(Some).map_err(|error| format!("its annotation kcp.io/cluster {error}"))
}

/// A name that an API server could have stored: the rules that all kinds share. It goes into messages as it is.
pub(crate) fn stored_name(name: &str) -> Result<&str, &'static str> {
    if is_stored_name(name) { Ok(name) } else { Err("its oldObject has a name that no API server would have stored") }
}

/// Whether an API server could have stored an object of that name.
pub(crate) fn is_stored_name(name: &str) -> bool {
    name.len() <= 253
        && !name.contains(|c: char| matches!(c, '/' | '%') || c.is_control())
        && !matches!(name, "." | "..")
}

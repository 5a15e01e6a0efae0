//! The object that is to be changed or deleted.

use std::collections::BTreeMap;

use super::review::LockReview;
use crate::home::Home;
use crate::names::{Group, GroupResource, LogicalCluster, Namespace, Resource, Version};
use crate::query::percent_encode;
use crate::review::{Operation, evicts};
use crate::target::{Target, cluster_of, is_stored_name};

/// What a review is about.
#[derive(Debug)]
pub(super) struct Object {
    pub(super) kind: GroupResource,
    pub(super) subresource: Option<String>,
    pub(super) cluster: Option<LogicalCluster>,
    pub(super) namespace: Option<Namespace>,
    pub(super) name: String,
    /// `None`: the review doesn't say them.
    pub(super) labels: Option<BTreeMap<String, String>>,
    version: Option<String>,
}

/// What is to be done with it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Aim {
    Update,
    Delete,
}

impl Aim {
    /// `None`: nothing that a lock forbids. What is done through a subresource counts as a change, but for an eviction.
    pub(super) fn of(review: &LockReview<'_>) -> Option<Self> {
        let review = review.review();
        match (review.operation(), review.sub_resource()) {
            (Operation::Delete, _) => Some(Self::Delete),
            _ if review.is_eviction() => Some(Self::Delete),
            (Operation::Update, None) | (Operation::Update | Operation::Create | Operation::Connect, Some(_)) => {
                Some(Self::Update)
            }
            (Operation::Create | Operation::Connect, None) => None,
        }
    }
}

impl Object {
    /// Reads it from a review; or tells why it can't, as the end of a sentence.
    pub(super) fn read(home: Home, review: &LockReview<'_>) -> Result<Self, String> {
        let request = review.review();
        let group = Group::parse(request.group()).map_err(|error| format!("its group {error}"))?;
        let resource = Resource::parse(request.resource()).map_err(|error| format!("its resource {error}"))?;
        let kind = GroupResource { group, resource };
        let version = request.version().map(str::to_owned);
        let Some(subresource) = request.sub_resource() else {
            let object = request.old_object().ok_or("the review has no oldObject")?;
            let Target { kind, cluster, namespace, name, labels, .. } = Target::read(home, kind, object)?;
            return Ok(Self { kind, subresource: None, cluster, namespace, name, labels: Some(labels), version });
        };
        // What is to be stored may say what it likes, but where a kcp makes it say its logical cluster.
        let new = review.new_metadata().filter(|_| request.operation() == Operation::Create);
        let said = request.old_object().or(new.as_ref());
        let name = request.asked_name().or_else(|| said?.name());
        let name = name
            .filter(|name| is_stored_name(name))
            .ok_or("it names no object, or none that an API server would have stored")?;
        // A Namespace's own review says that it lies in itself.
        let is_namespace = kind.group.is_core() && kind.resource.as_str() == "namespaces";
        let namespace = request.asked_namespace().filter(|_| !is_namespace).map(Namespace::parse).transpose();
        // What else is stored under the object's name has no labels, or others.
        let labels = request
            .old_object()
            .filter(|_| subresource == "status")
            .map(|object| object.labels().map(|(key, value)| (key.to_owned(), value.to_owned())).collect());
        Ok(Self {
            kind,
            subresource: Some(subresource.to_owned()),
            cluster: cluster_of(home, said)?,
            namespace: namespace.map_err(|error| format!("its namespace {error}"))?,
            name: name.to_owned(),
            labels,
            version,
        })
    }

    /// Whether the review shows it in this version.
    pub(super) fn is_in(&self, version: &Version) -> bool {
        self.version.as_deref() == Some(version.as_str())
    }

    /// The path of the object itself; `None`: the review doesn't say its version.
    pub(super) fn path(&self) -> Option<String> {
        let version = self.version.as_deref().filter(|version| version.bytes().all(|c| c.is_ascii_alphanumeric()))?;
        let mut path = match self.kind.group.is_core() {
            true => format!("/api/{version}/"),
            false => format!("/apis/{}/{version}/", self.kind.group),
        };
        if let Some(namespace) = &self.namespace {
            path.push_str(&format!("namespaces/{namespace}/"));
        }
        path.push_str(&format!("{}/{}", self.kind.resource, percent_encode(&self.name)));
        Some(path)
    }

    pub(super) fn is_evicted(&self) -> bool {
        let subresource = self.subresource.as_deref();
        subresource.is_some_and(|sub| evicts(self.kind.group.as_str(), self.kind.resource.as_str(), sub))
    }
}

impl std::fmt::Display for Object {
    /// `vms/a`, or `deployments/scale a`.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match &self.subresource {
            Some(subresource) => write!(f, "{}/{subresource} {}", self.kind.resource, self.name),
            None => write!(f, "{}/{}", self.kind.resource, self.name),
        }
    }
}

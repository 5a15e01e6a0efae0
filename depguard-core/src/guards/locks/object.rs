//! Object of a review about locks.

use std::collections::BTreeMap;

use crate::model::control_plane::ControlPlane;
use crate::model::names::{Group, GroupResource, LogicalCluster, Namespace, Resource, Version};
use crate::model::percent_encoding::percent_encode;
use crate::protocol::admission_review::{Operation, evicts};
use crate::protocol::deletion_target::{DeletionTarget, cluster_of, is_stored_name};
use crate::protocol::object_review::ObjectReview;
use crate::protocol::reviewed_object::ReviewedObject;

/// The object of a review.
#[derive(Debug)]
pub(super) struct Object {
    pub(super) kind: GroupResource,
    pub(super) subresource: Option<String>,
    pub(super) cluster: Option<LogicalCluster>,
    pub(super) namespace: Option<Namespace>,
    pub(super) name: String,
    /// `None`: the review doesn't show the labels.
    pub(super) labels: Option<BTreeMap<String, String>>,
    version: Option<String>,
}

/// The requested operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Aim {
    Update,
    Delete,
}

impl Aim {
    /// Returns the operation of a review; `None` if no lock can forbid it. A request to a subresource counts as an
    /// update, unless it deletes or evicts.
    pub(super) fn from_review(review: &ObjectReview<'_>) -> Option<Self> {
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
    /// Reads the object of a review. An error is the end of a sentence.
    pub(super) fn read(control_plane: ControlPlane, review: &ObjectReview<'_>) -> Result<Self, String> {
        let request = review.review();
        let group = Group::parse(request.group()).map_err(|error| format!("its group {error}"))?;
        let resource = Resource::parse(request.resource()).map_err(|error| format!("its resource {error}"))?;
        let kind = GroupResource { group, resource };
        let version = request.version().map(str::to_owned);
        let Some(subresource) = request.sub_resource() else {
            let object = request.old_object().ok_or("the review has no oldObject")?;
            let DeletionTarget { kind, cluster, namespace, name, labels, .. } =
                DeletionTarget::read(control_plane, kind, object)?;
            return Ok(Self { kind, subresource: None, cluster, namespace, name, labels: Some(labels), version });
        };
        // The new state may claim any logical cluster. Only on a CREATE kcp sets the logical cluster itself.
        let new = review.new_metadata().filter(|_| request.operation() == Operation::Create);
        let said = request.old_object().or(new.as_ref());
        let name = request.asked_name().or_else(|| said?.name());
        let name = name.filter(|name| is_stored_name(name)).ok_or("it names no valid object")?;
        // The review of a Namespace names the Namespace itself as its namespace.
        let is_namespace = kind.group.is_core() && kind.resource.as_str() == "namespaces";
        let namespace = request.asked_namespace().filter(|_| !is_namespace).map(Namespace::parse).transpose();
        // Other subresources have no labels, or labels of their own.
        let labels = request
            .old_object()
            .filter(|_| subresource == "status")
            .map(|object| object.labels().map(|(key, value)| (key.to_owned(), value.to_owned())).collect());
        Ok(Self {
            kind,
            subresource: Some(subresource.to_owned()),
            cluster: cluster_of(control_plane, said.and_then(ReviewedObject::cluster))?,
            namespace: namespace.map_err(|error| format!("its namespace {error}"))?,
            name: name.to_owned(),
            labels,
            version,
        })
    }

    /// Returns true if the review shows the object in this version.
    pub(super) fn is_in(&self, version: &Version) -> bool {
        self.version.as_deref() == Some(version.as_str())
    }

    /// Returns the path of the object itself; `None` if the review doesn't name the version.
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
    /// Prints `vms/a`, or `deployments/scale a`.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match &self.subresource {
            Some(subresource) => write!(f, "{}/{subresource} {}", self.kind.resource, self.name),
            None => write!(f, "{}/{}", self.kind.resource, self.name),
        }
    }
}

//! AdmissionReview, borrowed from its bytes.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::value::RawValue;

use crate::protocol::cascade::{Cascade, DeleteOptions};
use crate::protocol::cause::Cause;
use crate::protocol::problem::Unresolved;
use crate::protocol::reviewed_object::{Annotations, ReviewedObject, given};
use crate::protocol::subresource::Subresource;
use crate::scan::text::Text;

/// An `admission.k8s.io/v1` AdmissionReview, as an API server sends it, reduced to the parts that a decision needs.
#[derive(Debug, Clone)]
pub struct Review<'a> {
    request: Request<'a>,
}

/// The operation that the requester wants.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
#[expect(clippy::exhaustive_enums, reason = "Kubernetes' own four")]
pub enum Operation {
    /// A new object.
    Create,
    /// A changed object.
    Update,
    /// A deletion of one object: a collection delete sends a review for each object.
    Delete,
    /// A connection to a subresource such as `exec`.
    Connect,
}

/// The reason why a review can't be read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReviewError {
    /// Bytes that are not JSON, or don't have the shape of a review.
    #[error("not an AdmissionReview: {0}")]
    Malformed(#[from] serde_json::Error),
    /// Another version of the API.
    #[error("`{0}` is not `admission.k8s.io/v1`: set the webhook's admissionReviewVersions to [v1]")]
    Version(String),
    /// A review without a request.
    #[error("the AdmissionReview has no request")]
    NoRequest,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Envelope<'a> {
    #[serde(borrow)]
    api_version: Option<Text<'a>>,
    #[serde(borrow)]
    request: Option<Request<'a>>,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Request<'a> {
    #[serde(borrow)]
    uid: Text<'a>,
    #[serde(borrow)]
    kind: Option<RequestKind<'a>>,
    #[serde(borrow)]
    resource: RequestResource<'a>,
    #[serde(borrow)]
    sub_resource: Option<Text<'a>>,
    #[serde(borrow)]
    name: Option<Text<'a>>,
    #[serde(borrow)]
    namespace: Option<Text<'a>>,
    operation: Operation,
    #[serde(borrow, default)]
    user_info: Requester<'a>,
    #[serde(borrow)]
    object: Option<NewObject<'a>>,
    #[serde(borrow)]
    old_object: Option<ReviewedObject<'a>>,
    #[serde(borrow)]
    options: Option<DeleteOptions<'a>>,
    dry_run: Option<bool>,
}

/// The kind of the reviewed object, in the version of the review.
#[derive(Debug, Clone, Deserialize)]
struct RequestKind<'a> {
    #[serde(borrow)]
    kind: Text<'a>,
}

#[derive(Debug, Clone, Deserialize)]
struct RequestResource<'a> {
    #[serde(borrow)]
    group: Text<'a>,
    #[serde(borrow)]
    version: Option<Text<'a>>,
    #[serde(borrow)]
    resource: Text<'a>,
}

/// The user who sent the request.
#[derive(Debug, Clone, Default, Deserialize)]
pub struct Requester<'a> {
    #[serde(borrow)]
    username: Option<Text<'a>>,
    #[serde(borrow)]
    uid: Option<Text<'a>>,
    #[serde(borrow)]
    groups: Option<Vec<Text<'a>>>,
    #[serde(borrow)]
    extra: Option<BTreeMap<Text<'a>, Option<Vec<Text<'a>>>>>,
}

/// The new state of an object. It may have no metadata: the options of a connection have none.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
struct NewObject<'a> {
    #[serde(borrow)]
    metadata: Option<NewMetadata<'a>>,
    /// The options of an eviction. In another kind, the field may hold anything.
    #[serde(borrow)]
    delete_options: Option<&'a RawValue>,
}

/// The part of the new state's metadata that says which object it is.
#[derive(Debug, Clone, Deserialize)]
struct NewMetadata<'a> {
    #[serde(borrow)]
    name: Option<Text<'a>>,
    #[serde(borrow)]
    namespace: Option<Text<'a>>,
    #[serde(borrow)]
    annotations: Option<Annotations<'a>>,
}

impl<'a> Review<'a> {
    /// Reads a review. Of the objects in the review, only the metadata is kept.
    pub fn parse(bytes: &'a [u8]) -> Result<Self, ReviewError> {
        let envelope: Envelope<'a> = serde_json::from_slice(bytes)?;
        match envelope.api_version {
            Some(version) if version.as_str() != "admission.k8s.io/v1" => {
                return Err(ReviewError::Version(version.0.into_owned()));
            }
            _ => {}
        }
        Ok(Self { request: envelope.request.ok_or(ReviewError::NoRequest)? })
    }

    /// Returns the review's own id, which the answer repeats.
    pub fn uid(&self) -> &str {
        self.request.uid.as_str()
    }

    /// Returns the requested operation.
    pub fn operation(&self) -> Operation {
        self.request.operation
    }

    /// Returns the reviewed object's API group; empty for the core group.
    pub fn group(&self) -> &str {
        self.request.resource.group.as_str()
    }

    /// Returns the reviewed object's resource, plural.
    pub fn resource(&self) -> &str {
        self.request.resource.resource.as_str()
    }

    /// Returns the subresource; `None` if the request is about the object itself.
    pub(crate) fn sub_resource(&self) -> Option<&str> {
        self.request.sub_resource.as_ref().map(Text::as_str).filter(|name| !name.is_empty())
    }

    /// Returns the version of the group in which the review holds the object.
    pub(crate) fn version(&self) -> Option<&str> {
        given(self.request.resource.version.as_ref())
    }

    /// Returns the requested name; for a subresource, the name of its object.
    pub(crate) fn asked_name(&self) -> Option<&str> {
        given(self.request.name.as_ref())
    }

    /// Returns the requested namespace.
    pub(crate) fn asked_namespace(&self) -> Option<&str> {
        given(self.request.namespace.as_ref())
    }

    /// Returns true if the request evicts a Pod: the API server then deletes the Pod without a review of the
    /// deletion. The review holds only the Pod's name, not the Pod.
    pub(crate) fn is_eviction(&self) -> bool {
        let below = |sub| evicts(self.group(), self.resource(), sub);
        self.operation() == Operation::Create && self.sub_resource().is_some_and(below)
    }

    /// Returns the kind by which the version of the review serves the object: what of the API's versions the review
    /// itself tells.
    pub(crate) fn kinds(&self) -> BTreeMap<String, Option<String>> {
        let evicted = self.is_eviction().then_some("Pod");
        let kind = evicted.or_else(|| given(self.request.kind.as_ref().map(|kind| &kind.kind)));
        let served = self.version().zip(kind);
        served.into_iter().map(|(version, kind)| (version.to_owned(), Some(kind.to_owned()))).collect()
    }

    /// Returns the outcome that the deletion of this object has for the objects that it owns.
    #[cfg(any(feature = "interlock", feature = "owners"))]
    pub(crate) fn cascade(&self, object: &ReviewedObject<'_>) -> Cascade {
        Cascade::new(self.requested_cascade(), object.finalizers(), self.group(), self.resource())
    }

    /// Returns the cascade that the options ask for; `None` if they leave it open.
    pub(crate) fn requested_cascade(&self) -> Option<Cascade> {
        if !self.is_eviction() {
            return self.request.options.as_ref()?.cascade();
        }
        let options = self.request.object.as_ref()?.delete_options?;
        // Options that can't be read may ask for anything.
        serde_json::from_str::<DeleteOptions<'_>>(options.get())
            .map_or(Some(Cascade::Orphan), |options| options.cascade())
    }

    /// Returns true if the request binds a Pod to a node. The review holds only the Binding, not the Pod.
    pub(crate) fn is_binding(&self) -> bool {
        let place = (self.group(), self.resource(), self.sub_resource());
        self.operation() == Operation::Create
            && matches!(place, ("", "pods", Some(Subresource::BINDING)) | ("", "bindings", None))
    }

    /// Returns true if nothing will be stored, whatever the answer.
    pub fn dry_run(&self) -> bool {
        self.request.dry_run == Some(true)
    }

    /// Returns the user who sent the request.
    pub fn requester(&self) -> &Requester<'a> {
        &self.request.user_info
    }

    /// Returns the name of the object that the review is about; for an eviction or a binding, the name of the Pod. (The
    /// review of a collection delete has no name of its own.)
    pub fn name(&self) -> Option<&str> {
        let of_pod = || self.asked_name().filter(|_| self.is_eviction() || self.is_binding());
        let created = || given(self.created().and_then(|created| created.name.as_ref()));
        self.old_object().and_then(ReviewedObject::name).or_else(created).or_else(of_pod)
    }

    /// Returns the namespace of the object that the review is about, if it has one; for an eviction or a binding, the
    /// namespace of the Pod.
    pub fn namespace(&self) -> Option<&str> {
        let of_pod = || self.asked_namespace().filter(|_| self.is_eviction() || self.is_binding());
        let created = || given(self.created().and_then(|created| created.namespace.as_ref()));
        self.old_object().and_then(ReviewedObject::namespace).or_else(created).or_else(of_pod)
    }

    /// Returns the logical cluster of the object that the review is about. A creation has only a new object, on which
    /// kcp sets the annotation.
    pub(crate) fn cluster(&self) -> Option<&str> {
        match self.created() {
            Some(created) => given(created.annotations.as_ref().and_then(|all| all.cluster.as_ref())),
            None => self.old_object().and_then(ReviewedObject::cluster),
        }
    }

    /// Returns the metadata of the object that the review creates.
    fn created(&self) -> Option<&NewMetadata<'a>> {
        let creates = self.operation() == Operation::Create && self.sub_resource().is_none();
        self.request.object.as_ref().filter(|_| creates)?.metadata.as_ref()
    }

    pub(crate) fn old_object(&self) -> Option<&ReviewedObject<'a>> {
        self.request.old_object.as_ref()
    }
}

impl Requester<'_> {
    /// Returns the user's name; empty if the review has none.
    pub fn username(&self) -> &str {
        self.username.as_ref().map_or("", Text::as_str)
    }

    /// Returns the user's groups.
    pub fn groups(&self) -> impl Iterator<Item = &str> {
        self.groups.iter().flatten().map(Text::as_str)
    }

    /// Returns the user's UID, if there is one.
    #[cfg_attr(not(feature = "locks"), allow(dead_code, reason = "only object locks use it"))]
    pub(crate) fn uid(&self) -> Option<&str> {
        given(self.uid.as_ref())
    }

    /// Returns the authenticator's extra values under that key.
    #[cfg_attr(not(feature = "locks"), allow(dead_code, reason = "only object locks use it"))]
    pub(crate) fn extra(&self, key: &str) -> impl Iterator<Item = &str> {
        let values = self.extras().find(|(name, _)| *name == key).map(|(_, values)| values);
        values.into_iter().flatten().map(Text::as_str)
    }

    /// Returns all extra values of the authenticator.
    #[cfg_attr(not(feature = "locks"), allow(dead_code, reason = "only object locks use it"))]
    pub(crate) fn extras(&self) -> impl Iterator<Item = (&str, &[Text<'_>])> {
        let all = self.extra.iter().flatten();
        all.map(|(key, values)| (key.as_str(), values.as_deref().unwrap_or_default()))
    }
}

/// Returns true if creating this subresource deletes the object without a DELETE review.
pub(crate) fn evicts(group: &str, resource: &str, subresource: &str) -> bool {
    (group, resource, subresource) == ("", "pods", "eviction")
}

/// Returns the message for a review that lacks a part that every API server sends.
pub(crate) fn unreadable_review(why: &str) -> Unresolved {
    Unresolved::new(Cause::ReviewInvalid, format!("the review can't be read: {why}; find out who sent it"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_deletion_is_read_from_its_old_object() {
        let bytes = json!({
            "apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview",
            "request": {
                "uid": "1", "operation": "DELETE", "dryRun": true, "object": null,
                "resource": {"group": "network.example.com", "version": "v1", "resource": "vpcs"},
                "userInfo": {"username": "alice", "groups": ["dev", "\u{e9}quipe"]},
                "oldObject": {"spec": {"a": [1]}, "metadata": {
                    "name": "a", "namespace": "default", "uid": "u",
                    "annotations": {"kcp.io/cluster": "c1", "other": "x"},
                }},
            },
        })
        .to_string();
        let review = Review::parse(bytes.as_bytes()).unwrap();
        assert_eq!((review.uid(), review.operation(), review.dry_run()), ("1", Operation::Delete, true));
        assert_eq!((review.group(), review.resource(), review.sub_resource()), ("network.example.com", "vpcs", None));
        assert_eq!((review.name(), review.namespace()), (Some("a"), Some("default")));
        assert_eq!(review.requester().groups().collect::<Vec<_>>(), ["dev", "équipe"]);
        let object = review.old_object().unwrap();
        assert_eq!((object.uid(), object.cluster()), (Some("u"), Some("c1")));
        assert!(!object.is_terminating() && !object.wants_no_protection());
    }

    #[test]
    fn what_is_not_a_review_is_an_error() {
        for bytes in [
            "",
            "null",
            "[]",
            "{}",
            r#"{"request":null}"#,
            r#"{"request":{"uid":"1"}}"#,
            r#"{"request":{"uid":1,"operation":"DELETE","resource":{"group":"","resource":"pods"}}}"#,
            r#"{"request":{"uid":"1","operation":"PURGE","resource":{"group":"","resource":"pods"}}}"#,
            r#"{"request":{"uid":"1","uid":"2","operation":"DELETE","resource":{"group":"","resource":"pods"}}}"#,
            r#"{"apiVersion":"admission.k8s.io/v1beta1"}"#,
        ] {
            assert!(Review::parse(bytes.as_bytes()).is_err(), "{bytes}");
        }
    }

    #[test]
    fn deep_nesting_in_the_object_is_passed_over() {
        let deep = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
        let bytes = format!(
            r#"{{"request":{{"uid":"1","operation":"DELETE","resource":{{"group":"","resource":"pods"}},
                "oldObject":{{"metadata":{{"name":"a"}},"spec":{deep}}}}}}}"#
        );
        assert_eq!(Review::parse(bytes.as_bytes()).unwrap().name(), Some("a"));
    }
}

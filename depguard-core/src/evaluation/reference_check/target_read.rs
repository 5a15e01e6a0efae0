//! Read of one target, to find out if it is there.

use serde::Deserialize;

use crate::model::names::{ExportName, GroupVersionResource, LogicalCluster, Namespace};
use crate::protocol::cascade::ORPHAN_FINALIZER;
use crate::protocol::deletion_target::is_stored_name;
use crate::protocol::discovery::KindRead;
use crate::protocol::problem::Unresolved;
use crate::protocol::request::{Accept, Filter, MAX_PER_PAGE, Query, QueryId, page_path};
use crate::protocol::response::Answer;
use crate::protocol::response_error::{failure, is_object_missing, response, something_else};
use crate::protocol::reviewed_object::ReviewedObject;
use crate::scan::extract::{Page, present_items};

/// Identity of a target: two references to the same target cost one read.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct TargetKey {
    pub(super) gvr: GroupVersionResource,
    /// False if another provider's kind may be found: then it doesn't matter if the object exists.
    pub(super) is_own_kind: bool,
    /// The APIExport through which the target is read; `None` for a local kind.
    pub(super) export: Option<(LogicalCluster, ExportName)>,
    /// The namespace, if the kind has namespaces. `None`: any.
    pub(super) namespace: Option<String>,
    pub(super) name: String,
}

/// Result of a read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Found {
    /// Objects of the name: one, unless any namespace will do.
    Objects {
        objects: Vec<FoundObject>,
        /// False if there are more of them.
        are_all: bool,
    },
    /// No object of the name, although the kind is served.
    Nothing,
    /// The kind is not served.
    NoKind,
    /// Unknown, for this reason: the end of a sentence that begins with the name of the read.
    Failed(Unresolved),
}

/// An object of the target's name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct FoundObject {
    pub(super) uid: Option<String>,
    pub(super) namespace: Option<String>,
    pub(super) is_terminating: bool,
    /// True if its deletion orphans the objects that it owns.
    pub(super) orphans: bool,
}

/// Read of a target. Rules don't say if a kind has namespaces, so the read follows the answers.
#[derive(Debug)]
pub(super) struct TargetRead {
    key: TargetKey,
    step: Step,
    found: Option<Found>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Step {
    /// The object of the name in the namespace.
    InNamespace,
    /// The object of the name without a namespace.
    WithoutNamespace,
    /// The objects of the name in all namespaces.
    InAnyNamespace,
    /// Any object of the kind, to find out if the kind is served: no object can have the name, or be in the namespace.
    AnyObject,
}

impl TargetKey {
    /// Returns the read of a version of the target's kind.
    pub(super) fn kind_read(&self, version: String) -> KindRead {
        KindRead { kind: self.gvr.group_resource(), version }
    }
}

impl TargetRead {
    pub(super) fn new(key: TargetKey) -> Self {
        let (step, found) = match (is_stored_name(&key.name), &key.namespace) {
            (false, _) => (Step::AnyObject, key.is_own_kind.then_some(Found::Nothing)),
            (true, Some(namespace)) if Namespace::parse(namespace).is_ok() => (Step::InNamespace, None),
            (true, _) => (Step::WithoutNamespace, None),
        };
        Self { key, step, found }
    }

    /// Returns the result; `None` if the read has not ended.
    pub(super) fn found(&self) -> Option<&Found> {
        self.found.as_ref()
    }

    pub(super) fn key(&self) -> &TargetKey {
        &self.key
    }

    /// Returns the next query.
    pub(super) fn query(&self, id: QueryId, cluster: Option<&LogicalCluster>) -> Query {
        let TargetKey { gvr, is_own_kind: _, export, namespace, name } = &self.key;
        let list = |filter, limit| page_path(&gvr.path(None, None), filter, limit, None);
        let (path, accept) = match self.step {
            Step::InNamespace => (gvr.path(namespace.as_deref(), Some(name)), Accept::ObjectMetadata),
            Step::WithoutNamespace => (gvr.path(None, Some(name)), Accept::ObjectMetadata),
            Step::InAnyNamespace => (list(Some(&Filter::field("metadata.name", name)), MAX_PER_PAGE), Accept::Metadata),
            Step::AnyObject => (list(None, 1), Accept::Metadata),
        };
        Query { id, cluster: cluster.cloned(), export: export.clone(), path, accept }
    }

    /// Takes the answer to the query. Another query follows if the result is not known yet.
    pub(super) fn answer(&mut self, answer: Answer<'_>) {
        let (status, body) = match response(answer) {
            Ok(response) => response,
            Err(why) => return self.end(Found::Failed(why)),
        };
        let TargetKey { gvr, is_own_kind: _, export: _, namespace, name } = &self.key;
        match (status, self.step) {
            (200, Step::InNamespace) => self.end(object(body, name, namespace.as_deref())),
            (200, Step::WithoutNamespace) => self.end(object(body, name, None)),
            (200, Step::InAnyNamespace) => self.end(objects(body, name)),
            (200, Step::AnyObject) => self.end(list(body).map_or_else(lie, |_| Found::Nothing)),
            (404, Step::InAnyNamespace | Step::AnyObject) => self.end(Found::NoKind),
            (404, _) if is_object_missing(body, gvr.resource.as_str(), name) => self.end(Found::Nothing),
            (404, Step::InNamespace) => self.step = Step::WithoutNamespace,
            (404, Step::WithoutNamespace) => match namespace {
                None => self.step = Step::InAnyNamespace,
                Some(namespace) if Namespace::parse(namespace).is_err() => self.step = Step::AnyObject,
                Some(_) => self.end(Found::NoKind),
            },
            (status, _) => self.end(Found::Failed(failure(status, body, "get it"))),
        }
    }

    fn end(&mut self, found: Found) {
        self.found = Some(found);
    }
}

#[derive(Deserialize)]
struct List<'a> {
    #[serde(default)]
    metadata: Page,
    #[serde(borrow, default, deserialize_with = "present_items")]
    items: Option<Vec<ReviewedObject<'a>>>,
}

fn lie() -> Found {
    Found::Failed(something_else())
}

/// Reads the object of a name. An object of another namespace than the requested one is no answer.
fn object(body: &[u8], name: &str, namespace: Option<&str>) -> Found {
    let is_requested = |object: &ReviewedObject<'_>| {
        object.name() == Some(name) && object.namespace().is_none_or(|own| Some(own) == namespace)
    };
    let object = serde_json::from_slice::<ReviewedObject<'_>>(body).ok().filter(is_requested);
    object.map_or_else(lie, |object| Found::Objects { objects: vec![FoundObject::new(&object)], are_all: true })
}

/// Reads a page of objects of one name. Further pages are not read: if none of the first objects will do, the result is
/// unknown.
fn objects(body: &[u8], name: &str) -> Found {
    let of_name = |list: &List<'_>| list.items.iter().flatten().all(|item| item.name() == Some(name));
    let Some(List { metadata, items }) = list(body).filter(of_name) else { return lie() };
    let objects: Vec<_> = items.iter().flatten().map(FoundObject::new).collect();
    match (objects.is_empty(), metadata.continue_token) {
        (true, None) => Found::Nothing,
        (_, more) => Found::Objects { objects, are_all: more.is_none() },
    }
}

/// Reads a page of a list. A list without a resourceVersion or without items is no API server's answer.
fn list(body: &[u8]) -> Option<List<'_>> {
    let list: List<'_> = serde_json::from_slice(body).ok()?;
    (list.metadata.resource_version.is_some() && list.items.is_some()).then_some(list)
}

impl FoundObject {
    fn new(object: &ReviewedObject<'_>) -> Self {
        Self {
            uid: object.uid().map(str::to_owned),
            namespace: object.namespace().map(str::to_owned),
            is_terminating: object.is_terminating(),
            orphans: object.finalizers().any(|finalizer| finalizer.as_str() == ORPHAN_FINALIZER),
        }
    }
}

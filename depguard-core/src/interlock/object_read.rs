//! Read of one object, to find out if a mark about it is void.

use serde::Deserialize;
use serde::de::IgnoredAny;

use super::evaluation::Observation;
use super::object_key::{ObjectKey, Revision};
use crate::model::names::{ExportName, GroupVersionResource, LogicalCluster, Namespace};
use crate::model::percent_encoding::percent_encode;
use crate::protocol::problem::Unresolved;
use crate::protocol::request::{Accept, Filter, Query, QueryId, page_path};
use crate::protocol::response::Answer;
use crate::protocol::response_error::{failure, is_object_missing, response, something_else};
use crate::protocol::reviewed_object::ReviewedObject;
use crate::scan::text::Text;

/// Read of an object by its key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ObjectRead {
    key: ObjectKey,
    gvr: GroupVersionResource,
    /// The APIExport that serves the kind; `None` for a local kind.
    export: Option<(LogicalCluster, ExportName)>,
}

/// List, of which only the number of objects counts.
#[derive(Deserialize)]
struct Hint<'a> {
    #[serde(borrow)]
    metadata: ListMetadata<'a>,
    /// `null` if there are none, in a `PartialObjectMetadataList` of a kube-apiserver.
    items: Option<Vec<IgnoredAny>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ListMetadata<'a> {
    #[serde(borrow)]
    resource_version: Option<Text<'a>>,
}

/// Event of a watch.
#[derive(Deserialize)]
struct Event<'a> {
    #[serde(borrow)]
    object: ReviewedObject<'a>,
}

impl ObjectRead {
    /// Creates the read of an object of this resource.
    pub(crate) fn new(key: ObjectKey, gvr: GroupVersionResource, export: Option<(LogicalCluster, ExportName)>) -> Self {
        Self { key, gvr, export }
    }

    /// Returns the GET, which must be sent after the mark was read.
    pub fn query(&self) -> Query {
        self.query_of(self.gvr.path(self.namespace(), Some(&self.key.name)), Accept::ObjectMetadata)
    }

    /// Returns a LIST of the objects of the name, which an API server answers from its cache: it is a hint.
    pub fn hint_query(&self) -> Query {
        self.query_of(format!("{}&resourceVersion=0", self.by_name()), Accept::Metadata)
    }

    /// Returns the revision of the cache that answered the [hint](Self::hint_query), and true if no object had the name
    /// then.
    pub fn hint(&self, answer: Answer<'_>) -> Option<(String, bool)> {
        let (200, body) = response(answer).ok()? else { return None };
        let Hint { metadata, items } = serde_json::from_slice(body).ok()?;
        Some((metadata.resource_version?.0.into_owned(), items.is_none_or(|items| items.is_empty())))
    }

    /// Returns a watch of the object's name, which begins after this revision and lasts for a second.
    pub fn watch_query(&self, revision: &str) -> Query {
        let revision = percent_encode(revision);
        let path = format!("{}&watch=true&timeoutSeconds=1&resourceVersion={revision}", self.by_name());
        self.query_of(path, Accept::Event)
    }

    /// Returns the state that the first event of a [watch](Self::watch_query) shows. The object had this state once, and may
    /// have another by now.
    pub fn event(&self, answer: Answer<'_>) -> Option<Revision> {
        let (200, body) = response(answer).ok()? else { return None };
        let event = serde_json::Deserializer::from_slice(body).into_iter::<Event<'_>>().next()?.ok()?;
        self.revision(&event.object)
    }

    fn by_name(&self) -> String {
        page_path(
            &self.gvr.path(self.namespace(), None),
            Some(&Filter::field("metadata.name", &self.key.name)),
            1,
            None,
        )
    }

    fn query_of(&self, path: String, accept: Accept) -> Query {
        let Self { key, gvr: _, export } = self;
        Query { id: QueryId(0), cluster: key.cluster.clone(), export: export.clone(), path, accept }
    }

    fn namespace(&self) -> Option<&str> {
        self.key.namespace.as_ref().map(Namespace::as_str)
    }

    /// Returns the state of an object of this key; `None` if it is another object.
    fn revision(&self, object: &ReviewedObject<'_>) -> Option<Revision> {
        let is_requested = object.name() == Some(&self.key.name) && object.namespace() == self.namespace();
        Revision::parse(object.uid()?, object.resource_version()?).ok().filter(|_| is_requested)
    }

    /// Returns the state that an answer to the GET shows.
    pub fn observation(&self, answer: Answer<'_>) -> Observation {
        let ObjectKey { kind, name, .. } = &self.key;
        let (status, body) = match response(answer) {
            Ok(response) => response,
            Err(why) => return self.unknown(why),
        };
        match status {
            200 => {}
            404 if is_object_missing(body, kind.resource.as_str(), name) => return Observation::Absent,
            status => return self.unknown(failure(status, body, "get it")),
        }
        let object = serde_json::from_slice::<ReviewedObject<'_>>(body).ok();
        let stored = object.and_then(|object| {
            let revision = self.revision(&object)?;
            Some(Observation::Stored { revision, is_terminating: object.is_terminating() })
        });
        stored.unwrap_or_else(|| self.unknown(something_else()))
    }

    fn unknown(&self, why: Unresolved) -> Observation {
        Observation::Unknown(why.about(format_args!("the read of {}/{}", self.key.kind.resource, self.key.name)))
    }
}

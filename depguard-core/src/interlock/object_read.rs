//! Read of one object, to find out if a mark about it is void.

use super::evaluation::Observation;
use super::object_key::{ObjectKey, Revision};
use crate::model::names::{ExportName, GroupVersionResource, LogicalCluster, Namespace};
use crate::protocol::admission_review::ReviewedObject;
use crate::protocol::problem::Unresolved;
use crate::protocol::request::{Accept, Query, QueryId};
use crate::protocol::response::Answer;
use crate::protocol::response_error::{failure, is_object_missing, response, something_else};

/// Read of an object by its key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ObjectRead {
    key: ObjectKey,
    gvr: GroupVersionResource,
    /// The APIExport that serves the kind; `None` for a local kind.
    export: Option<(LogicalCluster, ExportName)>,
}

impl ObjectRead {
    /// Creates the read of an object of this resource.
    pub(crate) fn new(key: ObjectKey, gvr: GroupVersionResource, export: Option<(LogicalCluster, ExportName)>) -> Self {
        Self { key, gvr, export }
    }

    /// Returns the GET, which must be sent after the mark was read.
    pub fn query(&self) -> Query {
        let ObjectKey { cluster, kind: _, namespace, name } = &self.key;
        Query {
            id: QueryId(0),
            cluster: cluster.clone(),
            export: self.export.clone(),
            path: self.gvr.path(namespace.as_ref().map(Namespace::as_str), Some(name)),
            accept: Accept::ObjectMetadata,
        }
    }

    /// Returns the state that an answer to the GET shows.
    pub fn observation(&self, answer: Answer<'_>) -> Observation {
        let ObjectKey { cluster: _, kind, namespace, name } = &self.key;
        let (status, body) = match response(answer) {
            Ok(response) => response,
            Err(why) => return self.unknown(why),
        };
        match status {
            200 => {}
            404 if is_object_missing(body, kind.resource.as_str(), name) => return Observation::Absent,
            status => return self.unknown(failure(status, body, "get it")),
        }
        let is_requested = |object: &ReviewedObject<'_>| {
            object.name() == Some(name) && object.namespace() == namespace.as_ref().map(Namespace::as_str)
        };
        let object = serde_json::from_slice::<ReviewedObject<'_>>(body).ok().filter(is_requested);
        let stored = object.and_then(|object| {
            let revision = Revision::parse(object.uid()?, object.resource_version()?).ok()?;
            Some(Observation::Stored { revision, is_terminating: object.is_terminating() })
        });
        stored.unwrap_or_else(|| self.unknown(something_else()))
    }

    fn unknown(&self, why: Unresolved) -> Observation {
        Observation::Unknown(why.about(format_args!("the read of {}/{}", self.key.kind.resource, self.key.name)))
    }
}

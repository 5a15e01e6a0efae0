//! Read of one target, to find out if it is there.

use serde::Deserialize;

use crate::model::names::{ExportName, GroupVersionResource, LogicalCluster, Namespace};
use crate::protocol::admission_review::ReviewedObject;
use crate::protocol::cause::Cause;
use crate::protocol::deletion_target::is_stored_name;
use crate::protocol::problem::Unresolved;
use crate::protocol::request::{Accept, Filter, MAX_PER_PAGE, Query, QueryId, page_path};
use crate::protocol::response::Answer;
use crate::protocol::response_error::{failure, is_object_missing, response, something_else};

/// Identity of a target: two references to the same target cost one read.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct TargetKey {
    pub(super) gvr: GroupVersionResource,
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
    Objects(Vec<FoundObject>),
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
    pub(super) is_terminating: bool,
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
}

impl TargetRead {
    pub(super) fn new(key: TargetKey) -> Self {
        let is_namespace = |text: &String| Namespace::parse(text).is_ok();
        let can_exist = is_stored_name(&key.name) && key.namespace.as_ref().is_none_or(is_namespace);
        let step = if key.namespace.is_some() { Step::InNamespace } else { Step::WithoutNamespace };
        Self { key, step, found: (!can_exist).then_some(Found::Nothing) }
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
        let TargetKey { gvr, export, namespace, name } = &self.key;
        let path = match self.step {
            Step::InNamespace => gvr.path(namespace.as_deref(), Some(name)),
            Step::WithoutNamespace => gvr.path(None, Some(name)),
            Step::InAnyNamespace => {
                let filter = Filter::Field(format!("metadata.name={name}"));
                page_path(&gvr.path(None, None), Some(&filter), MAX_PER_PAGE, None)
            }
        };
        let accept = if self.step == Step::InAnyNamespace { Accept::Metadata } else { Accept::ObjectMetadata };
        Query { id, cluster: cluster.cloned(), export: export.clone(), path, accept }
    }

    /// Takes the answer to the query. Another query follows if the result is not known yet.
    pub(super) fn answer(&mut self, answer: Answer<'_>) {
        let (status, body) = match response(answer) {
            Ok(response) => response,
            Err(why) => return self.end(Found::Failed(why)),
        };
        match (status, self.step) {
            (200, Step::InAnyNamespace) => self.end(objects(body, &self.key.name)),
            (200, _) => self.end(object(body, &self.key.name)),
            (404, Step::InAnyNamespace) => self.end(Found::NoKind),
            (404, _) if is_object_missing(body, self.key.gvr.resource.as_str(), &self.key.name) => {
                self.end(Found::Nothing);
            }
            (404, Step::InNamespace) => self.step = Step::WithoutNamespace,
            (404, Step::WithoutNamespace) if self.key.namespace.is_none() => self.step = Step::InAnyNamespace,
            (404, Step::WithoutNamespace) => self.end(Found::NoKind),
            (status, _) => self.end(Found::Failed(failure(status, body, "get it"))),
        }
    }

    fn end(&mut self, found: Found) {
        self.found = Some(found);
    }
}

fn object(body: &[u8], name: &str) -> Found {
    match serde_json::from_slice::<ReviewedObject<'_>>(body) {
        Ok(object) if object.name() == Some(name) => Found::Objects(vec![FoundObject::new(&object)]),
        _ => Found::Failed(something_else()),
    }
}

/// Reads a page of objects of one name. Further pages are not read: if none of the first objects will do, the result is
/// unknown.
fn objects(body: &[u8], name: &str) -> Found {
    #[derive(Deserialize)]
    struct List<'a> {
        #[serde(default)]
        metadata: crate::scan::extract::Page,
        #[serde(borrow)]
        items: Option<Vec<ReviewedObject<'a>>>,
    }
    let Ok(List { metadata, items }) = serde_json::from_slice::<List<'_>>(body) else {
        return Found::Failed(something_else());
    };
    // Go writes an empty slice as `null`. A list without a resourceVersion is no API server's answer.
    let items = items.unwrap_or_default();
    if metadata.resource_version.is_none() || items.iter().any(|item| item.name() != Some(name)) {
        return Found::Failed(something_else());
    }
    if metadata.continue_token.is_some() {
        let why = format!("found more than {MAX_PER_PAGE} objects; name a namespace in the rule");
        return Found::Failed(Unresolved::new(Cause::RuleInvalid, why));
    }
    if items.is_empty() { Found::Nothing } else { Found::Objects(items.iter().map(FoundObject::new).collect()) }
}

impl FoundObject {
    fn new(object: &ReviewedObject<'_>) -> Self {
        Self { uid: object.uid().map(str::to_owned), is_terminating: object.is_terminating() }
    }
}

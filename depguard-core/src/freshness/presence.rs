//! Reads of a logical cluster that every check needs: its APIBindings, and its own object.

use serde::Deserialize;

use crate::applicability::api_bindings::{self, BINDINGS_PATH, Binding};
use crate::model::api::CLUSTER_ANNOTATION;
use crate::model::names::{ExportName, LogicalCluster};
use crate::protocol::cause::Cause;
use crate::protocol::paged_list::{PagedList, Progress};
use crate::protocol::problem::Unresolved;
use crate::protocol::request::{Accept, Query, QueryId};
use crate::protocol::response::Answer;
use crate::protocol::response_error::{failure, list_not_found, response, unanswered};

/// Path of a logical cluster's own object.
const ITSELF_PATH: &str = "/apis/core.kcp.io/v1alpha1/logicalclusters/cluster";

/// The APIBindings of a logical cluster, and proof that the logical cluster exists. kcp shows an unknown id to some
/// users as an empty workspace, so a list without bindings proves nothing by itself.
#[derive(Debug)]
pub(super) struct Presence {
    cluster: LogicalCluster,
    listing: PagedList,
    listed: bool,
    exists: bool,
    /// True if one of the APIBindings read so far is for depguard's APIExport.
    binds: bool,
}

/// One read of a check.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Read {
    /// The next page of the APIBindings.
    Bindings,
    /// The logical cluster's own object.
    Itself,
}

/// Result of an answer.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// No further request is needed for this read.
    Done,
    /// The same read must be requested again, for the next page.
    Again,
    /// The same read must be requested again, from the beginning.
    Restart,
}

impl Presence {
    pub(super) fn new(cluster: LogicalCluster) -> Self {
        let listing = PagedList::new(BINDINGS_PATH.to_owned());
        Self { cluster, listing, listed: false, exists: false, binds: false }
    }

    pub(super) fn cluster(&self) -> &LogicalCluster {
        &self.cluster
    }

    /// Returns, once everything was read, true if the logical cluster has bound depguard's APIExport.
    pub(super) fn binds(&self) -> Option<bool> {
        (self.listed && self.exists).then_some(self.binds)
    }

    pub(super) fn query(&self, id: QueryId, read: Read) -> Query {
        let path = match read {
            Read::Bindings => self.listing.next(),
            Read::Itself => ITSELF_PATH.to_owned(),
        };
        Query { id, cluster: Some(self.cluster.clone()), export: None, path, accept: Accept::Json }
    }

    /// Takes an answer, and hands each APIBinding of a page to `each`. The error is a sentence.
    pub(super) fn answer(
        &mut self,
        read: Read,
        own: &(LogicalCluster, ExportName),
        answer: Answer<'_>,
        mut each: impl FnMut(&Binding<'_>),
    ) -> Result<Step, Unresolved> {
        if read == Read::Itself {
            self.exists = is_itself(&self.cluster, answer)?;
            return Ok(Step::Done);
        }
        let binds = &mut self.binds;
        let progress = self.listing.answer(answer, |body| {
            api_bindings::read_page(body, |binding| {
                *binds |= is_own(binding, own);
                each(binding);
            })
        });
        let failed = |why: Unresolved| {
            Err(why.about(format_args!("the list of apibindings of logical cluster {}", self.cluster)))
        };
        match progress {
            Progress::More => Ok(Step::Again),
            Progress::Restart => {
                self.binds = false;
                Ok(Step::Restart)
            }
            Progress::Complete => {
                self.listed = true;
                Ok(Step::Done)
            }
            Progress::NotFound => failed(list_not_found()),
            Progress::Failed(why) => failed(why),
        }
    }

    /// Returns the message for a read that was not answered in time.
    pub(super) fn unanswered(&self) -> Unresolved {
        let what = if self.listed { "the object of" } else { "the list of apibindings of" };
        unanswered().about(format_args!("{what} logical cluster {}", self.cluster))
    }
}

/// Returns true if the APIBinding is for depguard's APIExport. A binding that kcp has not resolved yet counts as
/// well.
fn is_own(binding: &Binding<'_>, (cluster, name): &(LogicalCluster, ExportName)) -> bool {
    binding.export() == Some(name.as_str()) && binding.provider().is_none_or(|provider| provider == cluster.as_str())
}

/// Returns `Ok(true)`, or the reason why the answer may not come from this logical cluster.
fn is_itself(cluster: &LogicalCluster, answer: Answer<'_>) -> Result<bool, Unresolved> {
    #[derive(Deserialize)]
    struct Object {
        metadata: Metadata,
    }
    #[derive(Deserialize)]
    struct Metadata {
        annotations: std::collections::HashMap<String, String>,
    }
    let wrong = |why: Unresolved| why.about(format_args!("the object of logical cluster {cluster}"));
    match response(answer).map_err(wrong)? {
        (200, body) => {
            let object = serde_json::from_slice::<Object>(body).ok();
            let says = object.as_ref().and_then(|object| object.metadata.annotations.get(CLUSTER_ANNOTATION));
            match says {
                Some(says) if says == cluster.as_str() => Ok(true),
                _ => Err(wrong(Unresolved::new(
                    Cause::ReadUnusable,
                    "does not name this logical cluster; check which server answers there",
                ))),
            }
        }
        (status, body) => Err(wrong(failure(status, body, "get it"))),
    }
}

//! Reads of what every check asks of a logical cluster: its APIBindings, and its own object.

use serde::Deserialize;

use crate::answers::{UNANSWERED, failure, response};
use crate::api::CLUSTER_ANNOTATION;
use crate::bindings::{self, BINDINGS_PATH, Binding};
use crate::listing::{Listing, Progress};
use crate::names::{ExportName, LogicalCluster};
use crate::query::{Accept, Answer, Query, QueryId};

/// Path of a logical cluster's own object.
const ITSELF_PATH: &str = "/apis/core.kcp.io/v1alpha1/logicalclusters/cluster";

/// APIBindings of a logical cluster, and proof that it is there: kcp shows some users an id that nobody has as an empty
/// workspace, so that a list without bindings proves nothing by itself.
#[derive(Debug)]
pub(super) struct Presence {
    cluster: LogicalCluster,
    listing: Listing,
    listed: bool,
    exists: bool,
    /// It has bound depguard's APIExport, as far as its APIBindings have been read.
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

/// What an answer came to.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// Nothing more to ask for this read.
    Done,
    /// The same read is to be asked again, for the next page.
    Again,
    /// The same read is to be asked again, from the beginning.
    Restart,
}

impl Presence {
    pub(super) fn new(cluster: LogicalCluster) -> Self {
        let listing = Listing::new(BINDINGS_PATH.to_owned());
        Self { cluster, listing, listed: false, exists: false, binds: false }
    }

    pub(super) fn cluster(&self) -> &LogicalCluster {
        &self.cluster
    }

    /// `Some` once everything was read: whether it has bound depguard's APIExport.
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
    ) -> Result<Step, String> {
        if read == Read::Itself {
            self.exists = is_itself(&self.cluster, answer)?;
            return Ok(Step::Done);
        }
        let binds = &mut self.binds;
        let progress = self.listing.answer(answer, |body| {
            bindings::read_page(body, |binding| {
                *binds |= is_own(binding, own);
                each(binding);
            })
        });
        let failed = |why| Err(format!("the list of apibindings of logical cluster {} {why}", self.cluster));
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
            Progress::NotFound => failed("failed with HTTP 404; retry later".to_owned()),
            Progress::Failed(why) => failed(why),
        }
    }

    /// What is missing where time ran out.
    pub(super) fn unanswered(&self) -> String {
        let what = if self.listed { "the object of" } else { "the list of apibindings of" };
        format!("{what} logical cluster {} {UNANSWERED}", self.cluster)
    }
}

/// An APIBinding of depguard's APIExport. One that kcp has not resolved yet may be.
fn is_own(binding: &Binding<'_>, (cluster, name): &(LogicalCluster, ExportName)) -> bool {
    binding.export() == Some(name.as_str()) && binding.provider().is_none_or(|provider| provider == cluster.as_str())
}

/// `Ok(true)`, or why it is not certain that this logical cluster answers.
fn is_itself(cluster: &LogicalCluster, answer: Answer<'_>) -> Result<bool, String> {
    #[derive(Deserialize)]
    struct Object {
        metadata: Metadata,
    }
    #[derive(Deserialize)]
    struct Metadata {
        annotations: std::collections::HashMap<String, String>,
    }
    let wrong = |why: String| format!("the object of logical cluster {cluster} {why}");
    match response(answer).map_err(wrong)? {
        (200, body) => {
            let object = serde_json::from_slice::<Object>(body).ok();
            let says = object.as_ref().and_then(|object| object.metadata.annotations.get(CLUSTER_ANNOTATION));
            match says {
                Some(says) if says == cluster.as_str() => Ok(true),
                _ => {
                    Err(wrong("does not say that it is of this logical cluster; look at what answers there".to_owned()))
                }
            }
        }
        (status, body) => Err(wrong(failure(status, body, "get it"))),
    }
}

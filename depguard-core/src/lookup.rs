//! Who refers to a target among the dependents of one kind.

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::discovery::{Discovery, Served};
use crate::found::{Findings, Found};
use crate::home::Home;
use crate::listing::{Listing, Progress};
use crate::names::{ExportName, GroupVersionResource, LogicalCluster, Namespace};
use crate::query::Answer;
use crate::references::{References, Refers};
use crate::ruleset::{Check, IndexedEdge};
use crate::scopes::Release;
use crate::target::Target;

/// The most doubts that are kept: one is enough to refuse.
const MOST_DOUBTS: usize = 8;

/// A search through the dependents of one kind, for all edges about them.
#[derive(Debug)]
pub(crate) struct Lookup {
    export: Option<(LogicalCluster, ExportName)>,
    gvr: GroupVersionResource,
    references: References,
    /// The namespace that is listed; `None` when it is all of them.
    namespace: Option<Namespace>,
    source: Source,
    found: Findings,
    /// Where it could not be told whether an object refers to the target; the first of them.
    doubts: BTreeSet<String>,
    /// Where this lets go what was found, a doubtful object is one of those: where it lies tells what becomes of it.
    release: Option<Release>,
    /// How many values stood where a name was looked for and were none.
    misfits: usize,
}

#[derive(Debug)]
enum Source {
    Listing(Listing),
    Discovery(Discovery),
}

/// What an answer means for the lookup.
#[derive(Debug)]
pub(crate) enum Step {
    /// Ask [`Lookup::next`].
    Ask,
    /// All dependents were seen.
    Done,
    /// They could not be; the end of a sentence that begins with what was listed.
    Failed(String),
}

impl Lookup {
    pub(crate) fn new(
        export: Option<(LogicalCluster, ExportName)>,
        gvr: GroupVersionResource,
        edges: &[Arc<IndexedEdge>],
        namespace: Option<Namespace>,
        release: Option<Release>,
    ) -> Self {
        Self {
            export,
            references: References::new(edges),
            source: Source::Listing(Listing::new(list_path(&gvr, namespace.as_ref()))),
            gvr,
            namespace,
            found: Findings::default(),
            doubts: BTreeSet::new(),
            release,
            misfits: 0,
        }
    }

    /// The path and query to ask now.
    pub(crate) fn next(&self) -> String {
        match &self.source {
            Source::Listing(listing) => listing.next(),
            Source::Discovery(discovery) => discovery.next(),
        }
    }

    pub(crate) fn export(&self) -> Option<(LogicalCluster, ExportName)> {
        match self.source {
            Source::Listing(_) => self.export.clone(),
            Source::Discovery(_) => None,
        }
    }

    pub(crate) fn namespace(&self) -> Option<&Namespace> {
        self.namespace.as_ref()
    }

    /// What is listed, for people.
    pub(crate) fn subject(&self) -> String {
        self.gvr.to_string()
    }

    pub(crate) fn found(&self) -> &Findings {
        &self.found
    }

    /// What could not be told of some objects, and what to do.
    pub(crate) fn doubts(&self) -> &BTreeSet<String> {
        &self.doubts
    }

    /// How many values stood where a name was looked for and were none.
    pub(crate) fn misfits(&self) -> usize {
        self.misfits
    }

    pub(crate) fn answer(&mut self, home: Home, target: &Target, answer: Answer<'_>) -> Step {
        match &mut self.source {
            Source::Discovery(discovery) => match discovery.answer(answer) {
                Served::More => Step::Ask,
                Served::Nowhere => Step::Done,
                Served::Unclear(why) => Step::Failed(why),
            },
            Source::Listing(listing) => {
                let (found, doubts, release) = (&mut self.found, &mut self.doubts, self.release);
                let misfits = &mut self.misfits;
                let progress = listing.answer(answer, |body| {
                    self.references.page(body, target, misfits, |item, edge, refers| {
                        let Check::Follow { dependent, .. } = &edge.check else { return };
                        let (kind, name) = (dependent.kind.as_str().to_owned(), item.name().to_owned());
                        let object = Found { kind, namespace: item.namespace().map(str::to_owned), name };
                        match refers {
                            Refers::No => {}
                            Refers::Unclear(why)
                                if !release.is_some_and(|release| release.covers(item.namespace())) =>
                            {
                                if doubts.len() < MOST_DOUBTS {
                                    doubts.insert(format!("{object} {why}"));
                                }
                            }
                            Refers::Yes | Refers::Unclear(_) => found.insert(object, edge),
                        }
                    })
                });
                match progress {
                    Progress::More => Step::Ask,
                    Progress::Complete => Step::Done,
                    Progress::Restart => {
                        self.forget();
                        Step::Ask
                    }
                    Progress::NotFound => self.not_found(home),
                    Progress::Failed(why) => Step::Failed(why),
                }
            }
        }
    }

    fn forget(&mut self) {
        self.found.clear();
        self.doubts.clear();
        self.misfits = 0;
    }

    /// A kind without namespaces answers 404 where a namespace is named. A kind that is not there does so everywhere;
    /// an exported one must be there, since the cluster's bindings say so.
    fn not_found(&mut self, home: Home) -> Step {
        self.forget();
        if self.namespace.take().is_some() {
            self.source = Source::Listing(Listing::new(list_path(&self.gvr, None)));
            Step::Ask
        } else if self.export.is_none() || home == Home::Kubernetes {
            self.source = Source::Discovery(Discovery::new(self.gvr.clone()));
            Step::Ask
        } else {
            let why = "failed with HTTP 404, although it is bound; set the rule's dependent.version to a served version, or retry later";
            Step::Failed(why.to_owned())
        }
    }
}

fn list_path(gvr: &GroupVersionResource, namespace: Option<&Namespace>) -> String {
    let root = gvr.root();
    match namespace {
        Some(namespace) => format!("{root}/namespaces/{namespace}/{}", gvr.resource),
        None => format!("{root}/{}", gvr.resource),
    }
}

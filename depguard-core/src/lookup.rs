//! Who refers to a target among the dependents of one kind.

use std::sync::Arc;

use crate::discovery::{Discovery, Served};
use crate::extract::{Extractor, Item};
use crate::found::{Findings, Found};
use crate::home::Home;
use crate::listing::{Listing, Progress};
use crate::names::{ExportName, GroupVersionResource, LogicalCluster, Namespace};
use crate::query::Answer;
use crate::ruleset::{Check, IndexedEdge};
use crate::target::Target;

/// A search through the dependents of one kind, for all edges about them.
#[derive(Debug)]
pub(crate) struct Lookup {
    export: Option<(LogicalCluster, ExportName)>,
    gvr: GroupVersionResource,
    edges: Vec<Arc<IndexedEdge>>,
    extractor: Extractor,
    /// The namespace that is listed; `None` when it is all of them.
    namespace: Option<Namespace>,
    source: Source,
    found: Findings,
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
        edges: Vec<Arc<IndexedEdge>>,
        target: &Target,
    ) -> Self {
        let paths = edges.iter().filter_map(|edge| match &edge.check {
            Check::Follow { path, .. } => Some(path),
            Check::Broken(_) => None,
        });
        let namespace = target.namespace.clone();
        let source = Source::Listing(Listing::new(list_path(&gvr, namespace.as_ref())));
        Self { export, extractor: Extractor::new(paths), namespace, source, found: Findings::default(), gvr, edges }
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

    pub(crate) fn answer(&mut self, home: Home, target: &Target, answer: Answer<'_>) -> Step {
        match &mut self.source {
            Source::Discovery(discovery) => match discovery.answer(answer) {
                Served::More => Step::Ask,
                Served::Nowhere => Step::Done,
                Served::Unclear(why) => Step::Failed(why),
            },
            Source::Listing(listing) => {
                let (edges, found) = (&self.edges, &mut self.found);
                let progress = listing.answer(answer, |body| {
                    self.extractor.page(body, |item| {
                        if let Some((object, edge)) = reference(item, edges, target) {
                            found.insert(object, edge);
                        }
                    })
                });
                match progress {
                    Progress::More => Step::Ask,
                    Progress::Complete => Step::Done,
                    Progress::Restart => {
                        self.found.clear();
                        Step::Ask
                    }
                    Progress::NotFound => self.not_found(home),
                    Progress::Failed(why) => Step::Failed(why),
                }
            }
        }
    }

    /// A kind without namespaces answers 404 where a namespace is named. A kind that is not there does so everywhere;
    /// an exported one must be there, since the cluster's bindings say so.
    fn not_found(&mut self, home: Home) -> Step {
        self.found.clear();
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

/// The first edge through which an object refers to the target.
fn reference<'e>(
    item: &Item<'_, '_>,
    edges: &'e [Arc<IndexedEdge>],
    target: &Target,
) -> Option<(Found, &'e Arc<IndexedEdge>)> {
    let is_target = item.uid().is_some() && item.uid() == target.uid.as_deref();
    // Only where both have a namespace must they share it: an object without one may refer to any.
    let elsewhere = matches!((item.namespace(), &target.namespace), (Some(a), Some(b)) if a != b.as_str());
    if is_target || elsewhere {
        return None;
    }
    let (_, edge) = edges.iter().enumerate().find(|(path, _)| item.value(*path) == Some(&target.name))?;
    let Check::Follow { kind, .. } = &edge.check else { return None };
    let namespace = item.namespace().map(str::to_owned);
    Some((Found { kind: kind.as_str().to_owned(), namespace, name: item.name().to_owned() }, edge))
}

//! Reads lists of dependents, for one lookup or for many at once.

use std::sync::Arc;

use crate::discovery::{Discovery, Served};
use crate::extract::{Needle, Page, PageError, outer};
use crate::listing::{Listing, Progress};
use crate::lookup::{Lookup, Object};
use crate::names::{ExportName, GroupVersionResource, LogicalCluster};
use crate::plan::Dependents;
use crate::query::{Answer, Query, QueryId, Request};
use crate::references::{References, Targets};
use crate::ruleset::IndexedEdge;

/// Carries out lookups, without I/O: says what to GET, takes the answers, until [`next`](Self::next) is `None`.
///
/// All its requests must be sent after each lookup in it was handed out: what an API server said before says nothing of
/// references that were made since.
#[derive(Debug)]
pub struct Reading {
    dependents: Dependents,
    source: Source,
    lookups: Vec<Member>,
    crowds: Vec<Crowd>,
}

#[derive(Debug)]
enum Source {
    Selection(Listing),
    List(Listing),
    Discovery(Discovery),
    Ended,
}

#[derive(Debug)]
struct Member {
    lookup: Lookup,
    /// Whether anybody still waits for it.
    wanted: bool,
}

/// Lookups of the same edges, each for a target of its own.
#[derive(Debug)]
struct Crowd {
    edges: Vec<Arc<IndexedEdge>>,
    references: References,
    targets: Targets,
    /// What those who refer to one of them hold.
    needle: Option<Needle>,
    /// Which of the reading's lookups are for those targets, in their order.
    members: Vec<usize>,
}

impl Reading {
    /// Asks the API server for those dependents alone that refer to the lookup's target, by
    /// [its field](Lookup::field). Where the server does not select by that, the lookup has not ended at the end, and
    /// has no field any more: it must be [scanned](Self::scanning).
    ///
    /// Without a field it is a scan.
    pub fn selecting(lookup: Lookup) -> Self {
        let list = path(&lookup.dependents().gvr, lookup.dependents());
        let source = match lookup.field() {
            Some(field) => {
                let selector = format!("{field}={}", escaped(&lookup.target().name));
                Source::Selection(Listing::selecting(list, selector))
            }
            None => Source::List(Listing::new(list)),
        };
        Self::new(lookup.dependents().clone(), source, vec![lookup])
    }

    /// Reads all dependents once, for all of these lookups, in an order that [`into_lookups`](Self::into_lookups) keeps.
    ///
    /// Their [`dependents`](Lookup::dependents) must be equal; one whose are not fails. `None` where there are none.
    pub fn scanning(mut lookups: Vec<Lookup>) -> Option<Self> {
        let dependents = lookups.first()?.dependents().clone();
        for lookup in &mut lookups {
            lookup.scan();
            if *lookup.dependents() != dependents {
                lookup.fail("was mixed up with another; this is a mistake in the webhook, report it");
            }
        }
        let source = Source::List(Listing::new(path(&dependents.gvr, &dependents)));
        Some(Self::new(dependents, source, lookups))
    }

    fn new(dependents: Dependents, source: Source, lookups: Vec<Lookup>) -> Self {
        let mut crowds: Vec<Crowd> = Vec::new();
        for (member, lookup) in lookups.iter().enumerate() {
            let same = |crowd: &&mut Crowd| {
                let (a, b) = (&crowd.edges, lookup.edges());
                a.len() == b.len() && a.iter().zip(b).all(|(a, b)| Arc::ptr_eq(a, b))
            };
            match crowds.iter_mut().find(same) {
                Some(crowd) => {
                    crowd.targets.push(lookup.target());
                    crowd.members.push(member);
                }
                None => crowds.push(Crowd {
                    edges: lookup.edges().to_vec(),
                    references: References::new(lookup.edges()),
                    targets: Targets::of(lookup.target()),
                    needle: None,
                    members: vec![member],
                }),
            }
        }
        for crowd in &mut crowds {
            crowd.needle = crowd.references.needle(&crowd.targets);
        }
        let lookups = lookups.into_iter().map(|lookup| Member { lookup, wanted: true }).collect();
        let mut reading = Self { dependents, source, lookups, crowds };
        reading.end_if_idle();
        reading
    }

    /// Which objects it looks through.
    pub fn dependents(&self) -> &Dependents {
        &self.dependents
    }

    /// Whose API is asked now, as in [`Query::export`](crate::Query::export).
    pub(crate) fn export(&self) -> Option<(LogicalCluster, ExportName)> {
        match self.source {
            Source::Selection(_) | Source::List(_) => self.dependents.export.clone(),
            Source::Discovery(_) | Source::Ended => None,
        }
    }

    /// What to ask now; `None` when it has ended.
    pub fn next(&self) -> Option<Request> {
        let (path, accept) = match &self.source {
            Source::Selection(listing) | Source::List(listing) => (listing.next(), self.dependents.accept),
            Source::Discovery(discovery) => (discovery.next(), Default::default()),
            Source::Ended => return None,
        };
        Some(Request { path, accept })
    }

    /// A request of this reading as a query, for whoever sends those. All have the same id: it says nothing here.
    pub fn query(&self, request: Request) -> Query {
        let Request { path, accept } = request;
        Query { id: QueryId(0), cluster: self.dependents.cluster.clone(), export: self.export(), path, accept }
    }

    /// What [`next`](Self::next) will most likely be once this page was taken, so that it can be asked for meanwhile. To
    /// be used only if it is; `None` where it can't be told without reading the page.
    pub fn ahead(&self, body: &[u8]) -> Option<Request> {
        let (Source::Selection(listing) | Source::List(listing)) = &self.source else { return None };
        let path = listing.after(&outer(body)?, body.len())?;
        Some(Request { path, accept: self.dependents.accept })
    }

    /// Takes the answer to [`next`](Self::next).
    pub fn answer(&mut self, answer: Answer<'_>) {
        let progress = match &mut self.source {
            Source::Ended => return,
            Source::Discovery(discovery) => {
                match discovery.answer(answer) {
                    Served::More => {}
                    Served::Nowhere => self.end(Lookup::complete),
                    Served::Unclear(why) => self.end(|lookup| lookup.fail(why.as_str())),
                }
                return;
            }
            Source::Selection(_) if is_unselectable(&answer) => {
                self.forget();
                return self.end(Lookup::scan);
            }
            Source::Selection(listing) | Source::List(listing) => {
                let (crowds, lookups) = (&self.crowds, &mut self.lookups);
                listing.answer(answer, |body| {
                    let mut read = Default::default();
                    for crowd in crowds {
                        read = crowd.read(body, lookups)?;
                    }
                    Ok(read)
                })
            }
        };
        match progress {
            Progress::More => self.each(Lookup::see_enough),
            Progress::Complete => self.end(Lookup::complete),
            Progress::Restart => self.forget(),
            Progress::NotFound => self.not_found(),
            Progress::Failed(why) => self.end(|lookup| lookup.fail(why.as_str())),
        }
        self.end_if_idle();
    }

    /// Nobody waits any more for the lookup of that index, in the order in which they were given.
    pub fn abandon(&mut self, index: usize) {
        if let Some(member) = self.lookups.get_mut(index) {
            member.wanted = false;
        }
        self.end_if_idle();
    }

    /// The lookups, in the order in which they were given, with what was found.
    pub fn into_lookups(self) -> Vec<Lookup> {
        self.lookups.into_iter().map(|member| member.lookup).collect()
    }

    fn each(&mut self, what: impl Fn(&mut Lookup)) {
        self.lookups.iter_mut().for_each(|member| what(&mut member.lookup));
    }

    fn end(&mut self, what: impl Fn(&mut Lookup)) {
        self.each(what);
        self.source = Source::Ended;
    }

    fn end_if_idle(&mut self) {
        if self.lookups.iter().all(|member| !member.wanted || member.lookup.has_ended()) {
            self.source = Source::Ended;
        }
    }

    /// What was found in a list that begins anew. Lookups that have seen enough keep it: it did refer to their target
    /// when they were under way.
    fn forget(&mut self) {
        self.each(|lookup| {
            if !lookup.has_ended() {
                lookup.forget();
            }
        });
    }

    /// A kind without namespaces answers 404 where a namespace is named. A kind that is not there does so everywhere;
    /// an exported one must be there, since the cluster's bindings say so.
    fn not_found(&mut self) {
        self.forget();
        if self.dependents.namespace.take().is_some() {
            self.each(Lookup::widen);
            let list = path(&self.dependents.gvr, &self.dependents);
            match &mut self.source {
                Source::Selection(listing) | Source::List(listing) => listing.move_to(list),
                Source::Discovery(_) | Source::Ended => {}
            }
        } else if self.dependents.export.is_none() {
            self.source = Source::Discovery(Discovery::new(self.dependents.gvr.clone()));
        } else {
            let why = "failed with HTTP 404, although it is bound; set the rule's dependent.version to a served version, or retry later";
            self.end(|lookup| lookup.fail(why));
        }
    }
}

impl Crowd {
    fn read(&self, body: &[u8], lookups: &mut [Member]) -> Result<Page, PageError> {
        let mut misfits = 0;
        let page = self.references.page(
            body,
            self.needle.as_ref(),
            &self.targets,
            &mut misfits,
            |target, item, edge, refers| {
                let member = self.members.get(target).and_then(|member| lookups.get_mut(*member));
                if let Some(Member { lookup, wanted: true }) = member
                    && !lookup.has_ended()
                {
                    lookup.take(Object { namespace: item.namespace(), name: item.name() }, edge, refers);
                }
            },
        )?;
        for member in &self.members {
            if let Some(member) = lookups.get_mut(*member) {
                member.lookup.count_misfits(misfits);
            }
        }
        Ok(page)
    }
}

/// A server that doesn't select by a field says 400 `field label not supported`.
fn is_unselectable(answer: &Answer<'_>) -> bool {
    matches!(answer, Answer::Response { status: 400, .. })
}

/// A value as it stands in a field selector.
fn escaped(value: &str) -> String {
    let mut escaped = String::with_capacity(value.len());
    for c in value.chars() {
        if matches!(c, '\\' | ',' | '=') {
            escaped.push('\\');
        }
        escaped.push(c);
    }
    escaped
}

fn path(gvr: &GroupVersionResource, dependents: &Dependents) -> String {
    let root = gvr.root();
    match &dependents.namespace {
        Some(namespace) => format!("{root}/namespaces/{namespace}/{}", gvr.resource),
        None => format!("{root}/{}", gvr.resource),
    }
}

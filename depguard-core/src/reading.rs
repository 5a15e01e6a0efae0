//! Reads lists of dependents, for one lookup or for many at once.

use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;

use crate::answers::failure;
use crate::discovery::{Discovery, Served};
use crate::extract::{Needle, Page, PageError, outer};
use crate::listing::{Listing, Progress};
use crate::lookup::Lookup;
use crate::plan::Dependents;
use crate::query::{Accept, Answer, Filter, Query, QueryId, Request};
use crate::references::{References, Targets};
use crate::ruleset::IndexedEdge;
use crate::table::{self, Rows};

/// Where more rows of a page than this may refer to a target, looking at each costs more than the page itself.
const MOST_HITS: usize = 8;

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
    refused: bool,
}

#[derive(Debug)]
enum Source {
    Selection(Listing),
    Table(Table),
    List(Listing),
    Discovery(Discovery),
    Ended,
}

/// A list of what is printed of the objects, and those of its objects that must be looked at.
#[derive(Debug)]
struct Table {
    listing: Listing,
    hits: VecDeque<String>,
    /// Whether the list was read to its end.
    last: bool,
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
        let list = lookup.dependents().path();
        let source = match lookup.field() {
            Some(field) => {
                let selector = format!("{field}={}", escaped(&lookup.target().name));
                Source::Selection(Listing::filtered(list, Filter::Field(selector)))
            }
            None => Source::List(Listing::new(list)),
        };
        Self::new(lookup.dependents().clone(), source, vec![lookup])
    }

    /// Reads all dependents once, for all of these lookups, in an order that [`into_lookups`](Self::into_lookups) keeps.
    ///
    /// Their [`dependents`](Lookup::dependents) must be equal; one whose are not fails. `None` where there are none.
    pub fn scanning(mut lookups: Vec<Lookup>) -> Option<Self> {
        lookups.iter_mut().for_each(Lookup::scan);
        let dependents = same_dependents(&mut lookups)?;
        let source = Source::List(Listing::new(dependents.path()));
        Some(Self::new(dependents, source, lookups))
    }

    /// The same by what the API server prints of the dependents, and a look at those of them that may refer to a target.
    /// Where that does not show enough, the lookups have not ended at the end, and must be [scanned](Self::scanning).
    ///
    /// Only for lookups with [columns](Lookup::columns); others fail.
    pub fn tabling(mut lookups: Vec<Lookup>) -> Option<Self> {
        lookups.iter_mut().for_each(Lookup::tabulate);
        let dependents = same_dependents(&mut lookups)?;
        let listing = Listing::filtered(dependents.path(), Filter::Cells);
        let source = Source::Table(Table { listing, hits: VecDeque::new(), last: false });
        Some(Self::new(dependents, source, lookups))
    }

    fn new(dependents: Dependents, source: Source, lookups: Vec<Lookup>) -> Self {
        let mut crowds: Vec<Crowd> = Vec::new();
        for (member, lookup) in lookups.iter().enumerate() {
            let same = |crowd: &&mut Crowd| {
                let first = crowd.members.first().and_then(|first| lookups.get(*first));
                first.is_some_and(|first| are_same(first.edges(), lookup.edges()))
            };
            match crowds.iter_mut().find(same) {
                Some(crowd) => {
                    crowd.targets.push(lookup.target());
                    crowd.members.push(member);
                }
                None => crowds.push(Crowd {
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
        let mut reading = Self { dependents, source, lookups, crowds, refused: false };
        reading.end_if_idle();
        reading
    }

    /// Which objects it looks through.
    pub fn dependents(&self) -> &Dependents {
        &self.dependents
    }

    /// What to ask now; `None` when it has ended.
    pub fn next(&self) -> Option<Request> {
        let (path, accept) = match &self.source {
            Source::Selection(listing) | Source::List(listing) => (listing.next(), self.dependents.accept),
            Source::Table(Table { listing, hits, .. }) => match hits.front() {
                None => (listing.next(), Accept::Table),
                Some(name) => (format!("{}/{name}", self.dependents.path()), Accept::Json),
            },
            Source::Discovery(discovery) => (discovery.next(), Accept::Json),
            Source::Ended => return None,
        };
        Some(Request { path, accept })
    }

    /// A request of this reading as a query, for whoever sends those. All have the same id: it says nothing here.
    pub fn query(&self, request: Request) -> Query {
        let Request { path, accept } = request;
        let export = match self.source {
            Source::Selection(_) | Source::Table(_) | Source::List(_) => self.dependents.export.clone(),
            Source::Discovery(_) | Source::Ended => None,
        };
        Query { id: QueryId(0), cluster: self.dependents.cluster.clone(), export, path, accept }
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
        if let (Source::Selection(_), Answer::Response { status: 400, body }) = (&self.source, answer) {
            return if says_unselectable(body) { self.refuse() } else { self.give_up() };
        }
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
            Source::Table(_) => return self.answer_table(answer),
            Source::Selection(listing) | Source::List(listing) => {
                let (crowds, lookups) = (&self.crowds, &mut self.lookups);
                listing.answer(answer, |body| {
                    let mut read = Default::default();
                    for crowd in crowds {
                        read = crowd.read(body, crowd.needle.as_ref(), lookups)?;
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

    /// Whether the API server does not do what was asked: select by that field, or show those fields in a table. It will
    /// say so again, until the kind is changed: worth remembering for a while.
    pub fn was_refused(&self) -> bool {
        self.refused
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

    fn answer_table(&mut self, answer: Answer<'_>) {
        let Source::Table(Table { listing, hits, last }) = &mut self.source else { return };
        if let Some(name) = hits.pop_front() {
            return match answer {
                Answer::Response { status: 200, body } => self.look_at(body),
                // It was deleted in the meantime.
                Answer::Response { status: 404, body } if table::says_gone(body, &name) => self.look_further(),
                Answer::Response { status, body } => {
                    let why = failure(status, body, "get and list it");
                    self.end(|lookup| lookup.fail(format!("showed {name}, whose GET {why}")));
                }
                _ => self.end(|lookup| lookup.fail(format!("showed {name}, which could not be read; retry later"))),
            };
        }
        if let Answer::Response { status: 400 | 406 | 415, .. } = answer {
            return self.refuse();
        }
        let fields: BTreeSet<_> = self.crowds.iter().flat_map(|crowd| crowd.references.fields()).collect();
        let is_wanted = |name: &str| self.crowds.iter().any(|crowd| crowd.targets.holds(name));
        let mut blind = false;
        let progress = listing.answer(answer, |body| match table::read(body, &fields, is_wanted)? {
            Rows::Hits(names, page) => {
                hits.extend(names);
                Ok(page)
            }
            Rows::Blind => {
                blind = true;
                Err(PageError::NoItems)
            }
        });
        match progress {
            _ if blind => self.refuse(),
            Progress::NotFound => self.refuse(),
            Progress::More | Progress::Complete if hits.len() > MOST_HITS => self.give_up(),
            Progress::More => {}
            Progress::Complete => {
                *last = true;
                self.look_further();
            }
            Progress::Restart => self.forget(),
            Progress::Failed(why) => self.end(|lookup| lookup.fail(why.as_str())),
        }
    }

    /// An object of the table is read as a list of its own.
    fn look_at(&mut self, object: &[u8]) {
        let list = [br#"{"metadata":{},"items":["#, object, b"]}"].concat();
        let read = self.crowds.iter().try_for_each(|crowd| crowd.read(&list, None, &mut self.lookups).map(drop));
        match read {
            Ok(()) => self.look_further(),
            Err(error) => {
                self.end(|lookup| lookup.fail(format!("was answered with {error}; look at what answers there")));
            }
        }
    }

    fn look_further(&mut self) {
        match &self.source {
            Source::Table(Table { hits, last: true, .. }) if hits.is_empty() => self.end(Lookup::complete),
            _ => self.each(Lookup::see_enough),
        }
        self.end_if_idle();
    }

    /// The server doesn't do what was asked.
    fn refuse(&mut self) {
        self.refused = true;
        self.give_up();
    }

    /// This is no way to find them: all dependents must be read.
    fn give_up(&mut self) {
        self.forget();
        self.end(Lookup::scan);
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
            let list = self.dependents.path();
            match &mut self.source {
                Source::Selection(listing) | Source::List(listing) => listing.move_to(list),
                Source::Table(_) | Source::Discovery(_) | Source::Ended => {}
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
    fn read(&self, body: &[u8], needle: Option<&Needle>, lookups: &mut [Member]) -> Result<Page, PageError> {
        let mut misfits = 0;
        let page = self.references.page(body, needle, &self.targets, &mut misfits, |target, item, edge, refers| {
            let member = self.members.get(target).and_then(|member| lookups.get_mut(*member));
            if let Some(Member { lookup, wanted: true }) = member
                && !lookup.has_ended()
            {
                lookup.take(item, edge, refers);
            }
        })?;
        for member in &self.members {
            if let Some(member) = lookups.get_mut(*member) {
                member.lookup.count_misfits(misfits);
            }
        }
        Ok(page)
    }
}

/// The dependents of all these lookups; one whose are others fails.
fn same_dependents(lookups: &mut [Lookup]) -> Option<Dependents> {
    let dependents = lookups.first()?.dependents().clone();
    for lookup in lookups {
        if *lookup.dependents() != dependents {
            lookup.fail("was mixed up with another; this is a mistake in the webhook, report it");
        }
    }
    Some(dependents)
}

fn are_same(a: &[Arc<IndexedEdge>], b: &[Arc<IndexedEdge>]) -> bool {
    a.len() == b.len() && a.iter().zip(b).all(|(a, b)| Arc::ptr_eq(a, b))
}

/// Whether a 400 says that the server doesn't select by the field: the first it says of custom resources and most others,
/// the second of some of its own kinds.
fn says_unselectable(body: &[u8]) -> bool {
    let says = |text: &str| memchr::memmem::find(body, text.as_bytes()).is_some();
    says("field label not supported") || says("is not a known field selector")
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

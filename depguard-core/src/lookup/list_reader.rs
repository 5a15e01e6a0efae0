//! Reader of lists of dependents, for one lookup or for many at once.

use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;

use crate::lookup::Lookup;
use crate::lookup::matcher::{ReferenceMatcher, Targets};
use crate::lookup::planner::Dependents;
use crate::lookup::referrer_set::MAX_SOUGHT;
use crate::protocol::cause::Cause;
use crate::protocol::discovery::{Discovery, Served};
use crate::protocol::paged_list::{PagedList, Progress, unusable_page};
use crate::protocol::printed_table::{self, Rows};
use crate::protocol::problem::Unresolved;
use crate::protocol::request::{Accept, Filter, MAX_PER_PAGE, Query, QueryId, Request};
use crate::protocol::response::Answer;
use crate::protocol::response_error::failure;
use crate::scan::extract::{Page, PageError, Prefilter, list_envelope};

/// The most rows of a page that are looked at one by one. With more rows, reading all dependents costs less.
const MAX_HITS: usize = 8;

/// Execution of lookups, without I/O: it returns the requests and takes the answers, until [`next`](Self::next) is
/// `None`.
///
/// Each request must be sent after the last of the lookups was handed out: an earlier answer of an API server doesn't
/// show references that were made since.
#[derive(Debug)]
pub struct ListReader {
    dependents: Dependents,
    source: Source,
    lookups: Vec<Waiter>,
    groups: Vec<TargetGroup>,
    refused: bool,
}

#[derive(Debug)]
enum Source {
    Selection(PagedList),
    Table(Table),
    List(PagedList),
    Discovery(Discovery),
    Ended,
}

/// A list of printed columns, and the objects in it that must be read.
#[derive(Debug)]
struct Table {
    listing: PagedList,
    hits: VecDeque<String>,
    /// True if the list was read to its end.
    last: bool,
}

#[derive(Debug)]
struct Waiter {
    lookup: Lookup,
    /// True while a caller waits for the lookup.
    is_awaited: bool,
}

/// Lookups of the same edges, each for its own target.
#[derive(Debug)]
struct TargetGroup {
    references: Arc<ReferenceMatcher>,
    targets: Targets,
    /// Byte pattern that every object referring to one of the targets must contain; `None` if all objects must be
    /// parsed.
    prefilter: Option<Prefilter>,
    /// Indexes of the reading's lookups for these targets, in the order of the targets.
    members: Vec<usize>,
}

impl ListReader {
    /// Asks the API server only for the dependents that refer to the lookup's target, by [its field](Lookup::field).
    /// If the server doesn't select by that field, the lookup has not ended when the reading ends, and no longer has
    /// a field: it must be [scanned](Self::by_scan).
    ///
    /// A lookup without a field is scanned.
    pub fn by_field(lookup: Lookup) -> Self {
        let list = lookup.dependents().path();
        let source = match lookup.field() {
            Some(field) => Source::Selection(PagedList::filtered(list, Filter::field(field, &lookup.target().name))),
            None => Source::List(PagedList::new(list)),
        };
        Self::new(lookup.dependents().clone(), source, vec![lookup])
    }

    /// Reads all dependents once, for all of these lookups. [`into_lookups`](Self::into_lookups) keeps their order.
    ///
    /// The lookups must have equal [`dependents`](Lookup::dependents); a lookup with other dependents fails. `None`
    /// if there are no lookups.
    pub fn by_scan(mut lookups: Vec<Lookup>) -> Option<Self> {
        lookups.iter_mut().for_each(Lookup::scan);
        let dependents = same_dependents(&mut lookups)?;
        let listing = PagedList::new(dependents.path());
        // As many as a message needs. If the first page has fewer referrers than objects, full pages follow.
        let few = u32::try_from(MAX_SOUGHT).unwrap_or(MAX_PER_PAGE);
        let listing = if lookups.iter().all(Lookup::finds_each) { listing.beginning_with(few) } else { listing };
        let source = Source::List(listing);
        Some(Self::new(dependents, source, lookups))
    }

    /// Reads the printed columns of all dependents, and then the objects that may refer to a target. If the columns
    /// don't show enough, the lookups have not ended when the reading ends, and must be [scanned](Self::by_scan).
    ///
    /// Only for lookups with [columns](Lookup::columns); other lookups fail.
    pub fn by_table(mut lookups: Vec<Lookup>) -> Option<Self> {
        lookups.iter_mut().for_each(Lookup::tabulate);
        let dependents = same_dependents(&mut lookups)?;
        let listing = PagedList::filtered(dependents.path(), Filter::Cells);
        let source = Source::Table(Table { listing, hits: VecDeque::new(), last: false });
        Some(Self::new(dependents, source, lookups))
    }

    fn new(dependents: Dependents, source: Source, lookups: Vec<Lookup>) -> Self {
        let mut groups: Vec<TargetGroup> = Vec::new();
        for (member, lookup) in lookups.iter().enumerate() {
            let same = |group: &&mut TargetGroup| {
                let first = group.members.first().and_then(|first| lookups.get(*first));
                first.is_some_and(|first| first.edges().is_same(lookup.edges()))
            };
            match groups.iter_mut().find(same) {
                Some(group) => {
                    group.targets.push(lookup.target());
                    group.members.push(member);
                }
                None => groups.push(TargetGroup {
                    references: lookup.edges().matcher(),
                    targets: Targets::new(lookup.target()),
                    prefilter: None,
                    members: vec![member],
                }),
            }
        }
        for group in &mut groups {
            group.prefilter = group.references.prefilter(&group.targets);
        }
        let lookups = lookups.into_iter().map(|lookup| Waiter { lookup, is_awaited: true }).collect();
        let mut reader = Self { dependents, source, lookups, groups, refused: false };
        reader.end_if_idle();
        reader
    }

    /// Returns the objects that are searched.
    pub fn dependents(&self) -> &Dependents {
        &self.dependents
    }

    /// Returns the next request; `None` if the reading has ended.
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

    /// Returns a request of this reading as a query. All queries have the same id, which has no meaning here.
    pub fn query(&self, request: Request) -> Query {
        let Request { path, accept } = request;
        let export = match self.source {
            Source::Selection(_) | Source::Table(_) | Source::List(_) => self.dependents.export.clone(),
            Source::Discovery(_) | Source::Ended => None,
        };
        Query { id: QueryId(0), cluster: self.dependents.cluster.clone(), export, path, accept }
    }

    /// Returns the most likely value of [`next`](Self::next) after this page, so that the caller can send that
    /// request in advance. The caller must check that it is the next request indeed. `None` if the page must be read
    /// to know.
    pub fn prefetch(&self, body: &[u8]) -> Option<Request> {
        let (Source::Selection(listing) | Source::List(listing)) = &self.source else { return None };
        let path = listing.after(&list_envelope(body)?, body.len())?;
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
                    Served::Unclear(why) => self.fail(&why),
                }
                return;
            }
            Source::Table(_) => return self.answer_table(answer),
            Source::Selection(listing) | Source::List(listing) => {
                let (groups, lookups) = (&self.groups, &mut self.lookups);
                listing.answer(answer, |body| {
                    let mut read = Default::default();
                    for group in groups {
                        read = group.read(body, group.prefilter.as_ref(), lookups)?;
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
            Progress::Failed(why) => self.fail(&why),
        }
        self.end_if_idle();
    }

    /// Returns true if the API server refused to select by that field, or to show those fields in a table. The server
    /// will refuse again until the kind is changed, so the result is worth caching for a while.
    pub fn was_refused(&self) -> bool {
        self.refused
    }

    /// Records that no caller waits any more for the lookup of that index, in the given order.
    pub fn cancel(&mut self, index: usize) {
        if let Some(member) = self.lookups.get_mut(index) {
            member.is_awaited = false;
        }
        self.end_if_idle();
    }

    /// Returns the lookups with their results, in the given order.
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
                Answer::Response { status: 404, body } if printed_table::says_gone(body, &name) => self.look_further(),
                Answer::Response { status, body } => {
                    let why = failure(status, body, "get and list it");
                    self.fail(&why.about(format_args!("showed {name}, but the read of {name}")));
                }
                _ => {
                    let why = format!("showed {name}, but the webhook could not read it; retry later");
                    self.fail(&Unresolved::new(Cause::ReadFailed, why));
                }
            };
        }
        if let Answer::Response { status: 400 | 406 | 415, .. } = answer {
            return self.refuse();
        }
        let fields: BTreeSet<_> = self.groups.iter().flat_map(|group| group.references.fields()).collect();
        let selects = |name: &str| self.groups.iter().any(|group| group.targets.holds(name));
        let mut blind = false;
        let progress = listing.answer(answer, |body| match printed_table::read(body, &fields, selects)? {
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
            Progress::More | Progress::Complete if hits.len() > MAX_HITS => self.give_up(),
            Progress::More => {}
            Progress::Complete => {
                *last = true;
                self.look_further();
            }
            Progress::Restart => self.forget(),
            Progress::Failed(why) => self.fail(&why),
        }
    }

    /// Reads one object of the table, as a list with one item.
    fn look_at(&mut self, object: &[u8]) {
        let list = [br#"{"metadata":{},"items":["#, object, b"]}"].concat();
        let read = self.groups.iter().try_for_each(|group| group.read(&list, None, &mut self.lookups).map(drop));
        match read {
            Ok(()) => self.look_further(),
            Err(error) => self.fail(&unusable_page(&error)),
        }
    }

    fn look_further(&mut self) {
        match &self.source {
            Source::Table(Table { hits, last: true, .. }) if hits.is_empty() => self.end(Lookup::complete),
            _ => self.each(Lookup::see_enough),
        }
        self.end_if_idle();
    }

    /// Ends the strategy because the server refused it.
    fn refuse(&mut self) {
        self.refused = true;
        self.give_up();
    }

    /// Ends the strategy: all dependents must be read.
    fn give_up(&mut self) {
        self.forget();
        self.end(Lookup::scan);
    }

    fn fail(&mut self, why: &Unresolved) {
        self.end(|lookup| lookup.fail(why.clone()));
    }

    fn end(&mut self, what: impl Fn(&mut Lookup)) {
        self.each(what);
        self.source = Source::Ended;
    }

    fn end_if_idle(&mut self) {
        if self.lookups.iter().all(|member| !member.is_awaited || member.lookup.has_ended()) {
            self.source = Source::Ended;
        }
    }

    /// Forgets the results of a list that begins again. Lookups that have ended keep theirs: those objects did refer
    /// to their target while the lookup was running.
    fn forget(&mut self) {
        self.each(|lookup| {
            if !lookup.has_ended() {
                lookup.forget();
            }
        });
    }

    /// Handles a 404. For a kind without namespaces, a server answers 404 if the path has a namespace; for a missing
    /// kind, it answers 404 to every path. An exported kind can't be missing, because the cluster's bindings show the
    /// kind.
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
            let why = "failed with HTTP 404, although an APIBinding binds the kind; set the rule's dependent.version \
                       to a served version, or retry later";
            self.fail(&Unresolved::new(Cause::KindNotServed, why));
        }
    }
}

impl TargetGroup {
    fn read(&self, body: &[u8], prefilter: Option<&Prefilter>, lookups: &mut [Waiter]) -> Result<Page, PageError> {
        let mut misfits = 0;
        let page =
            self.references.page(body, prefilter, &self.targets, &mut misfits, |target, item, edge, refers| {
                let member = self.members.get(target).and_then(|member| lookups.get_mut(*member));
                if let Some(Waiter { lookup, is_awaited: true }) = member
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

/// Returns the dependents of the lookups; a lookup with other dependents fails.
fn same_dependents(lookups: &mut [Lookup]) -> Option<Dependents> {
    let dependents = lookups.first()?.dependents().clone();
    for lookup in lookups {
        if *lookup.dependents() != dependents {
            let why = "was confused with another list; this is a bug in the webhook, report it";
            lookup.fail(Unresolved::new(Cause::ReadUnusable, why));
        }
    }
    Some(dependents)
}

/// Returns true if a 400 means that the server doesn't select by the field. Custom resources and most other kinds
/// answer `field label not supported: spec.a`, Jobs `field label "spec.a" not supported for Job`, and kinds without
/// fields of their own `"spec.a" is not a known field selector`.
fn says_unselectable(body: &[u8]) -> bool {
    let says = |text: &str| memchr::memmem::find(body, text.as_bytes()).is_some();
    (says("field label") && says("not supported")) || says("is not a known field selector")
}

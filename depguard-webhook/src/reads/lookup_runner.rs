//! Lookups of dependents: one run serves all reviews that look for the same ones at the same time.

use std::sync::Arc;

use depguard_core::lookup::{Dependents, ListReader, Lookup};

use crate::coalesce::batcher::Thresholds;
use crate::coalesce::executor::{BatchJob, BatchRun, Coalescer, SingleRun};
use crate::limits::read_budget::Size;
use crate::metrics::List;
use crate::ports::api_reader::ApiReader;
use crate::reads::bounded_reader::BoundedReader;
use crate::reads::page_reader::{FIRST_PAGE, PageReader};
use crate::reads::refusal_cache::RefusalCache;
use crate::server::tasks::Tasks;
use crate::traces::{ReadSpan, ReadStats};

/// Estimated bytes of a list of the objects that refer to one target.
const SELECTED: usize = 64 << 10;
/// Maximum number of times that a lookup is carried out: it is repeated once if no field can be selected by, and once
/// if there is no namespace.
const MAX_ROUNDS: usize = 4;

/// Lookups under way, by the dependents through which they look.
pub(crate) struct LookupRunner<P: ApiReader>(Coalescer<Finder<P>>);

struct Finder<P> {
    source: Arc<BoundedReader<P>>,
    tasks: Tasks,
    refusals: Arc<RefusalCache>,
}

impl<P: ApiReader> LookupRunner<P> {
    pub(crate) fn new(source: Arc<BoundedReader<P>>, tasks: Tasks) -> Self {
        let finder = Finder { source, tasks: tasks.clone(), refusals: Arc::default() };
        Self(Coalescer::new(finder, tasks))
    }

    /// Carries out a lookup by lists that begin from now on. `None` if it was lost on the way.
    pub(crate) async fn find(&self, mut lookup: Lookup) -> Option<Lookup> {
        let span = ReadSpan::list(lookup.dependents());
        let mut stats = ReadStats::default();
        for _ in 0..MAX_ROUNDS {
            let selects = self.0.batch_job().refusals.try_field(&lookup).is_some();
            let round;
            (lookup, round) = self.0.ask(lookup.dependents().clone(), lookup, selects).await?;
            stats.add(round);
            if lookup.has_ended() {
                break;
            }
        }
        span.end(stats);
        Some(lookup)
    }
}

impl<P: ApiReader> BatchJob for Finder<P> {
    type Key = Dependents;
    type Job = Lookup;
    /// The lookup, and what its lists took.
    type Answer = (Lookup, ReadStats);

    /// Bounds from a comparison of costs: a selector costs an API server some fiftieth of a scan through 10,000
    /// dependents. Two dozen selectors at once, as when a tool deletes side by side, are still cheaper one by one;
    /// hundreds are not.
    const THRESHOLDS: Thresholds = Thresholds { at_once: 3, batch_threshold: 24 };

    /// Returns false if a scan takes longer than anybody waits: then asking one by one is the only chance.
    fn may_batch(&self, dependents: &Dependents) -> bool {
        self.refusals.has_time_for(dependents)
    }

    async fn run_single(run: SingleRun<Self>) {
        let Self { source, tasks, refusals } = run.batch_job();
        let Some(permit) = source.enter(Size::Small, SELECTED).await else { return };
        let Some(lookup) = run.take() else { return };
        // Another lookup may have tried while this one waited.
        let Some(field) = refusals.try_field(&lookup) else { return run.refuse(lookup) };
        let mut page_reader = PageReader::new(Arc::clone(source), tasks.clone(), Size::Small, permit);
        source.metrics().listed(List::Selection);
        let mut reading = ListReader::by_field(lookup);
        page_reader.read(&mut reading, |_| {}).await;
        if reading.was_refused() {
            refusals.remember(&field);
        }
        let Some(lookup) = reading.into_lookups().pop() else { return };
        if lookup.has_ended() || lookup.dependents() != run.key() {
            run.answer((lookup, page_reader.stats()));
        } else {
            run.refuse(lookup);
        }
    }

    async fn run_batch(run: BatchRun<Self>) {
        let Self { source, tasks, refusals } = run.batch_job();
        let Some(permit) = source.enter(Size::Page, FIRST_PAGE).await else { return };
        let Some(members) = run.begin() else { return };
        source.metrics().shared(Size::Page, members.len());
        let _timed = refusals.time(run.key());
        let (tickets, mut lookups): (Vec<_>, Vec<_>) = members.into_iter().unzip();
        let mut page_reader = PageReader::new(Arc::clone(source), tasks.clone(), Size::Page, permit);
        let abandon = |reading: &mut ListReader| {
            run.gone(&tickets).into_iter().for_each(|index| reading.cancel(index));
        };
        if let Some(columns) = refusals.try_columns(run.key(), &lookups) {
            let Some(mut table) = ListReader::by_table(lookups) else { return };
            source.metrics().listed(List::Table);
            page_reader.read(&mut table, abandon).await;
            if table.was_refused() {
                refusals.remember(&columns);
            }
            lookups = table.into_lookups();
        }
        // A scan does not repeat lookups that the table has answered, nor those of reviews that have gone.
        let gone = run.gone(&tickets);
        if lookups.iter().enumerate().any(|(place, lookup)| !lookup.has_ended() && !gone.contains(&place)) {
            let Some(mut reading) = ListReader::by_scan(lookups) else { return };
            source.metrics().listed(List::Scan);
            page_reader.read(&mut reading, abandon).await;
            lookups = reading.into_lookups();
        }
        for (ticket, lookup) in tickets.iter().zip(lookups) {
            run.answer(*ticket, (lookup, page_reader.stats()));
        }
    }
}

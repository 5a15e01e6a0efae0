//! Looks for dependents, for all who look for the same ones at the same time.

use std::sync::Arc;

use depguard_core::{Dependents, Lookup, Reading};

use crate::board::{Board, Carrier, Scanning, Selecting};
use crate::budget::Size;
use crate::lanes::Bounds;
use crate::metrics::List;
use crate::pages::{FIRST_PAGE, Pages};
use crate::port::Port;
use crate::refusals::Refusals;
use crate::source::Source;
use crate::tasks::Tasks;

/// About what a list of those who refer to one target brings, in bytes.
const SELECTED: usize = 64 << 10;
/// How often a lookup is carried out anew: once where no field can be selected by, once where there is no namespace.
const MOST_ROUNDS: usize = 4;

/// The lookups under way, by whose dependents they look through.
pub(crate) struct Lookups<P: Port>(Board<Finder<P>>);

struct Finder<P> {
    source: Arc<Source<P>>,
    tasks: Tasks,
    refusals: Arc<Refusals>,
}

impl<P: Port> Lookups<P> {
    pub(crate) fn new(source: Arc<Source<P>>, tasks: Tasks) -> Self {
        let finder = Finder { source, tasks: tasks.clone(), refusals: Arc::default() };
        Self(Board::new(finder, tasks))
    }

    /// Carries out a lookup by lists that begin from now on. `None`: it was lost on the way.
    pub(crate) async fn find(&self, mut lookup: Lookup) -> Option<Lookup> {
        for _ in 0..MOST_ROUNDS {
            let selects = self.0.carrier().refusals.try_by(&lookup).is_some();
            lookup = self.0.ask(lookup.dependents().clone(), lookup, selects).await?;
            if lookup.has_ended() {
                break;
            }
        }
        Some(lookup)
    }
}

impl<P: Port> Carrier for Finder<P> {
    type Key = Dependents;
    type Job = Lookup;
    type Answer = Lookup;

    /// A selector costs an API server some fiftieth of a scan through 10,000 dependents: two dozen at once, as when a
    /// tool deletes side by side, are still cheaper one by one; hundreds are not.
    const BOUNDS: Bounds = Bounds { at_once: 3, crowd: 24 };

    /// Where a scan takes longer than anybody waits, asking one by one is the only chance.
    fn may_crowd(&self, dependents: &Dependents) -> bool {
        self.refusals.has_time_for(dependents)
    }

    async fn select(selecting: Selecting<Self>) {
        let Self { source, tasks, refusals } = selecting.carrier();
        let Some(room) = source.enter(Size::Small, SELECTED).await else { return };
        let Some(lookup) = selecting.take() else { return };
        // Somebody may have tried while this one waited.
        let Some(field) = refusals.try_by(&lookup) else { return selecting.refuse(lookup) };
        let mut pages = Pages::new(Arc::clone(source), tasks.clone(), Size::Small, room);
        source.metrics().listed(List::Selection);
        let mut reading = Reading::selecting(lookup);
        pages.read(&mut reading, |_| {}).await;
        if reading.was_refused() {
            refusals.remember(&field);
        }
        let Some(lookup) = reading.into_lookups().pop() else { return };
        if lookup.has_ended() || lookup.dependents() != selecting.key() {
            selecting.answer(lookup);
        } else {
            selecting.refuse(lookup);
        }
    }

    async fn scan(scanning: Scanning<Self>) {
        let Self { source, tasks, refusals } = scanning.carrier();
        let Some(room) = source.enter(Size::Page, FIRST_PAGE).await else { return };
        let Some(members) = scanning.begin() else { return };
        source.metrics().shared(Size::Page, members.len());
        let _timed = refusals.time(scanning.key());
        let (tickets, mut lookups): (Vec<_>, Vec<_>) = members.into_iter().unzip();
        let mut pages = Pages::new(Arc::clone(source), tasks.clone(), Size::Page, room);
        let abandon = |reading: &mut Reading| {
            scanning.gone(&tickets).into_iter().for_each(|index| reading.abandon(index));
        };
        if let Some(columns) = refusals.try_columns(scanning.key(), &lookups) {
            let Some(mut table) = Reading::tabling(lookups) else { return };
            source.metrics().listed(List::Table);
            pages.read(&mut table, abandon).await;
            if table.was_refused() {
                refusals.remember(&columns);
            }
            lookups = table.into_lookups();
        }
        // What a table has told is not read again, nor for those who have gone.
        let gone = scanning.gone(&tickets);
        if lookups.iter().enumerate().any(|(place, lookup)| !lookup.has_ended() && !gone.contains(&place)) {
            let Some(mut reading) = Reading::scanning(lookups) else { return };
            source.metrics().listed(List::Scan);
            pages.read(&mut reading, abandon).await;
            lookups = reading.into_lookups();
        }
        for (ticket, lookup) in tickets.iter().zip(lookups) {
            scanning.answer(*ticket, lookup);
        }
    }
}

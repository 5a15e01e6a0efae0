//! Batcher for the lookups of the same dependents: decides which lookups share a list (request coalescing). Pure: no
//! clock, no I/O.
//!
//! A lookup may be answered only by a list whose first attempt was sent after the lookup arrived; an older list would
//! miss what was written in between. So lookups may join a list until the moment before it is sent, and never
//! afterwards.
//!
//! There are two ways to answer a lookup. A **selector** asks for one target's dependents alone, and costs little; a
//! **scan** lists all dependents, costs much, and answers all its members in one pass. A few selectors run side by
//! side; if too many wait, one scan answers them all. At most one scan runs and at most one waits: so a thousand
//! lookups at once cost a handful of lists, and a single lookup waits for nobody.
//!
//! A [`Batcher`] is told what happens and answers with [`Action`]s, which are carried out in their order. The batcher
//! never waits itself: whenever a lookup waits in it, something runs that will end.

use std::collections::VecDeque;

/// Thresholds at which lookups are asked for together rather than one by one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Thresholds {
    /// Maximum number of selectors that run side by side.
    pub(crate) at_once: usize,
    /// Number of further waiting selectors from which on one scan costs less than all of them. `usize::MAX`: never.
    pub(crate) batch_threshold: usize,
}

impl Thresholds {
    /// Bounds for lookups that are always asked for together: there is no selector for one alone.
    pub(crate) const TOGETHER: Self = Self { at_once: 0, batch_threshold: 1 };
}

/// Lookups of the same dependents. `W` names one that waits: each name is used once.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Batcher<W> {
    bounds: Thresholds,
    selecting: Vec<W>,
    queued: VecDeque<W>,
    /// True if lookups with a selector go to the scans, since there were too many of them.
    is_batching: bool,
    /// Lookups that will be in the next scan to begin.
    waiting: Vec<W>,
    scan: Scan<W>,
    name: u64,
    next_scan: u64,
}

/// Identity of a scan: tells apart the scans of one batcher, and those of a past batcher from those of its successor.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct ScanId {
    batcher: u64,
    scan: u64,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum Scan<W> {
    None,
    /// Ordered, and not sent yet: all waiting lookups will be in the scan.
    Ordered(ScanId),
    /// Sent: nobody joins the scan any more.
    Running(ScanId, Vec<W>),
}

/// Action that a batcher asks of its executor.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Action<W> {
    /// Ask for the dependents of this lookup alone. The lookup [leaves](Batcher::leave) when it is answered, or is
    /// [refused](Batcher::refuse).
    Select(W),
    /// Cancel this selector: nobody waits for its answer any more.
    GiveUpSelect(W),
    /// Prepare a scan; [begin](Batcher::begin) it the moment before it is sent, and [end](Batcher::end) it whatever its
    /// result is.
    Scan(ScanId),
    /// Cancel this scan: nobody waits for it any more.
    GiveUpScan(ScanId),
}

impl<W: Copy + Eq> Batcher<W> {
    /// Makes an idle batcher; no other batcher has or had this name.
    pub(crate) fn new(bounds: Thresholds, name: u64) -> Self {
        Self {
            bounds,
            name,
            selecting: Vec::new(),
            queued: VecDeque::new(),
            is_batching: false,
            waiting: Vec::new(),
            scan: Scan::None,
            next_scan: 0,
        }
    }

    /// Sets the number of waiting selectors that from now on are answered by one scan.
    pub(crate) fn set_batch_threshold(&mut self, threshold: usize) {
        self.bounds.batch_threshold = threshold;
        self.is_batching &= threshold < usize::MAX;
    }

    /// Takes in a new lookup; `selects` is true if a selector would answer it.
    pub(crate) fn arrive(&mut self, who: W, selects: bool) -> Vec<Action<W>> {
        if selects && !self.is_batching {
            self.queued.push_back(who);
        } else {
            self.waiting.push(who);
        }
        self.proceed(Vec::new())
    }

    /// Takes note that the server refuses this lookup's selector. The lookup waits for a scan.
    pub(crate) fn refuse(&mut self, who: W) -> Vec<Action<W>> {
        if remove(&mut self.selecting, who) {
            self.waiting.push(who);
        }
        self.proceed(Vec::new())
    }

    /// Begins a scan that is about to be sent, and returns its members; `None` if it was given up in the meantime, and
    /// must not be sent.
    pub(crate) fn begin(&mut self, scan: ScanId) -> Option<Vec<W>> {
        if self.scan != Scan::Ordered(scan) {
            return None;
        }
        let members = std::mem::take(&mut self.waiting);
        self.scan = Scan::Running(scan, members.clone());
        Some(members)
    }

    /// Ends a scan. Returns the members that have not left: nobody will answer them.
    pub(crate) fn end(&mut self, scan: ScanId) -> (Vec<W>, Vec<Action<W>>) {
        let members = match &mut self.scan {
            Scan::Running(running, members) if *running == scan => std::mem::take(members),
            Scan::Ordered(ordered) if *ordered == scan => std::mem::take(&mut self.waiting),
            _ => return (Vec::new(), Vec::new()),
        };
        self.scan = Scan::None;
        (members, self.proceed(Vec::new()))
    }

    /// Takes out a lookup that is answered, or waits no longer.
    pub(crate) fn leave(&mut self, who: W) -> Vec<Action<W>> {
        let mut actions = Vec::new();
        self.queued.retain(|queued| *queued != who);
        if remove(&mut self.selecting, who) {
            actions.push(Action::GiveUpSelect(who));
        }
        remove(&mut self.waiting, who);
        let given_up = match &mut self.scan {
            Scan::None => None,
            Scan::Ordered(scan) => self.waiting.is_empty().then_some(*scan),
            Scan::Running(scan, members) => {
                remove(members, who);
                members.is_empty().then_some(*scan)
            }
        };
        if let Some(scan) = given_up {
            self.scan = Scan::None;
            actions.push(Action::GiveUpScan(scan));
        }
        self.proceed(actions)
    }

    /// Returns true if this lookup's selector is under way.
    pub(crate) fn is_selecting(&self, who: W) -> bool {
        self.selecting.contains(&who)
    }

    /// Returns true if nobody waits and nothing runs.
    pub(crate) fn is_idle(&self) -> bool {
        self.selecting.is_empty() && self.queued.is_empty() && self.waiting.is_empty() && self.scan == Scan::None
    }

    /// Adds the actions that may go ahead by now.
    fn proceed(&mut self, mut actions: Vec<Action<W>>) -> Vec<Action<W>> {
        while self.selecting.len() < self.bounds.at_once
            && let Some(who) = self.queued.pop_front()
        {
            self.selecting.push(who);
            actions.push(Action::Select(who));
        }
        if self.queued.len() >= self.bounds.batch_threshold {
            self.waiting.extend(self.queued.drain(..));
            self.is_batching = true;
        }
        if self.scan == Scan::None {
            self.is_batching &= !self.waiting.is_empty();
            if !self.waiting.is_empty() {
                let scan = ScanId { batcher: self.name, scan: self.next_scan };
                self.next_scan = self.next_scan.wrapping_add(1);
                self.scan = Scan::Ordered(scan);
                actions.push(Action::Scan(scan));
            }
        }
        actions
    }
}

fn remove<W: Copy + Eq>(from: &mut Vec<W>, who: W) -> bool {
    let place = from.iter().position(|one| *one == who);
    place.is_some_and(|place| {
        from.remove(place);
        true
    })
}

#[cfg(test)]
mod simulation;

//! Who shares which list: one lane for the lookups of the same dependents. Pure: no clock, no I/O.
//!
//! A lookup may be answered only by a list whose first attempt was sent after it arrived; what was written in between
//! would be missed. So a list that is about to be sent may be joined until the moment before, and never once it was.
//!
//! There are two ways to be answered. A **selector** asks for one target's dependents alone, and costs little; a **scan**
//! lists all dependents, costs much, and answers everybody who is in it in one pass. A few selectors run side by side;
//! where too many wait, one scan answers them all. Of scans at most one runs and at most one waits: so a thousand
//! lookups at once cost a handful of lists, and a single one waits for nobody.
//!
//! A [`Lane`] is told what happens and says what to do, in [`Order`]s that are carried out in their order. It never waits
//! itself: whenever somebody waits in it, something runs that will end.

use std::collections::VecDeque;

/// When lookups are asked for together rather than one by one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Bounds {
    /// The selectors that run side by side.
    pub(crate) at_once: usize,
    /// So many more that wait for a turn are a crowd: one scan costs less than all of them. `usize::MAX`: never.
    pub(crate) crowd: usize,
}

impl Bounds {
    /// Always together: there is no way to do one alone.
    pub(crate) const TOGETHER: Self = Self { at_once: 0, crowd: 1 };
}

/// The lookups of the same dependents. `W` names one that waits: each name is used once.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Lane<W> {
    bounds: Bounds,
    selecting: Vec<W>,
    queued: VecDeque<W>,
    /// Whether those that could select go to the scans, since there were too many of them.
    crowded: bool,
    /// Who will be in the next scan to begin.
    waiting: Vec<W>,
    scan: Scan<W>,
    name: u64,
    next_scan: u64,
}

/// Tells scans apart: those of one lane, and those of a lane that is gone from its successor's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct ScanId {
    lane: u64,
    scan: u64,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum Scan<W> {
    None,
    /// Ordered, and not sent yet: those who wait will be in it.
    Ordered(ScanId),
    /// Sent: nobody joins it any more.
    Running(ScanId, Vec<W>),
}

/// What is to be done.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Order<W> {
    /// Ask for this one's dependents alone. It [leaves](Lane::leave) when it is answered, or is [refused](Lane::refuse).
    Select(W),
    /// Nobody waits for that answer any more.
    GiveUpSelect(W),
    /// Prepare a scan; [begin](Lane::begin) it the moment before it is sent, and [end](Lane::end) it whatever comes of it.
    Scan(ScanId),
    /// Nobody waits for that scan any more.
    GiveUpScan(ScanId),
}

impl<W: Copy + Eq> Lane<W> {
    /// An idle one; no other has or had this name.
    pub(crate) fn new(bounds: Bounds, name: u64) -> Self {
        Self {
            bounds,
            name,
            selecting: Vec::new(),
            queued: VecDeque::new(),
            crowded: false,
            waiting: Vec::new(),
            scan: Scan::None,
            next_scan: 0,
        }
    }

    /// What counts as a crowd from now on.
    pub(crate) fn set_crowd(&mut self, crowd: usize) {
        self.bounds.crowd = crowd;
        self.crowded &= crowd < usize::MAX;
    }

    /// Somebody new; `selects` says whether a selector would answer it.
    pub(crate) fn arrive(&mut self, who: W, selects: bool) -> Vec<Order<W>> {
        if selects && !self.crowded {
            self.queued.push_back(who);
        } else {
            self.waiting.push(who);
        }
        self.proceed(Vec::new())
    }

    /// The server does not take this one's selector.
    pub(crate) fn refuse(&mut self, who: W) -> Vec<Order<W>> {
        if remove(&mut self.selecting, who) {
            self.waiting.push(who);
        }
        self.proceed(Vec::new())
    }

    /// The scan is about to be sent: who is in it. `None` where it was given up in the meantime, and must not be sent.
    pub(crate) fn begin(&mut self, scan: ScanId) -> Option<Vec<W>> {
        if self.scan != Scan::Ordered(scan) {
            return None;
        }
        let members = std::mem::take(&mut self.waiting);
        self.scan = Scan::Running(scan, members.clone());
        Some(members)
    }

    /// The scan is over. Gives those in it who have not left: nobody will answer them.
    pub(crate) fn end(&mut self, scan: ScanId) -> (Vec<W>, Vec<Order<W>>) {
        let members = match &mut self.scan {
            Scan::Running(running, members) if *running == scan => std::mem::take(members),
            Scan::Ordered(ordered) if *ordered == scan => std::mem::take(&mut self.waiting),
            _ => return (Vec::new(), Vec::new()),
        };
        self.scan = Scan::None;
        (members, self.proceed(Vec::new()))
    }

    /// Somebody is answered, or waits no longer.
    pub(crate) fn leave(&mut self, who: W) -> Vec<Order<W>> {
        let mut orders = Vec::new();
        self.queued.retain(|queued| *queued != who);
        if remove(&mut self.selecting, who) {
            orders.push(Order::GiveUpSelect(who));
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
            orders.push(Order::GiveUpScan(scan));
        }
        self.proceed(orders)
    }

    /// Whether this one's selector is under way.
    pub(crate) fn is_selecting(&self, who: W) -> bool {
        self.selecting.contains(&who)
    }

    /// Whether nobody waits and nothing runs.
    pub(crate) fn is_idle(&self) -> bool {
        self.selecting.is_empty() && self.queued.is_empty() && self.waiting.is_empty() && self.scan == Scan::None
    }

    /// Orders whatever may go ahead by now.
    fn proceed(&mut self, mut orders: Vec<Order<W>>) -> Vec<Order<W>> {
        while self.selecting.len() < self.bounds.at_once
            && let Some(who) = self.queued.pop_front()
        {
            self.selecting.push(who);
            orders.push(Order::Select(who));
        }
        if self.queued.len() >= self.bounds.crowd {
            self.waiting.extend(self.queued.drain(..));
            self.crowded = true;
        }
        if self.scan == Scan::None {
            self.crowded &= !self.waiting.is_empty();
            if !self.waiting.is_empty() {
                let scan = ScanId { lane: self.name, scan: self.next_scan };
                self.next_scan = self.next_scan.wrapping_add(1);
                self.scan = Scan::Ordered(scan);
                orders.push(Order::Scan(scan));
            }
        }
        orders
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

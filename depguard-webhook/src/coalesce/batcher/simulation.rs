//! Simulation of every interleaving of a few lookups, in batchers of small bounds.

use std::collections::HashSet;

use super::*;

/// Number of lookups that arrive.
const MAX_LOOKUPS: u8 = 4;
/// Number of pages of a scan.
const MAX_PAGES: u8 = 2;

/// Batcher, and the world that carries out its actions.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct World {
    batcher: Batcher<u8>,
    threshold: usize,
    /// Fates of the lookups, in the order of their arrival.
    lookups: Vec<LookupOutcome>,
    selectors: Vec<u8>,
    scans: Vec<Running>,
    /// Scans that are over; their tasks may not know yet.
    over: Vec<ScanId>,
    /// True if the one task that may be lost was lost.
    lost: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum LookupOutcome {
    Waiting,
    Answered,
    Lost,
    Left,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Running {
    id: ScanId,
    sent: Option<Sent>,
}

/// State of a scan after its first attempt was sent.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Sent {
    /// Number of lookups that had arrived by then.
    arrived: u8,
    members: Vec<u8>,
    pages: u8,
    restarted: bool,
}

#[derive(Debug, Clone, Copy)]
enum Event {
    /// A lookup arrives. With `batches`, one scan may from now on answer many waiting selectors; else never.
    Arrive {
        selects: bool,
        batches: bool,
    },
    Leave(u8),
    /// A selector is answered.
    Selected(u8),
    Refused(u8),
    SelectorLost(u8),
    Begin,
    Page,
    /// Status 410: the list is read again from the beginning.
    Restart,
    /// A lookup that needs no further page is answered before the end.
    Early(u8),
    End,
    ScanLost,
}

impl World {
    fn new(bounds: Thresholds) -> Self {
        let batcher = Batcher::new(bounds, 0);
        Self {
            batcher,
            threshold: bounds.batch_threshold,
            lookups: Vec::new(),
            selectors: Vec::new(),
            scans: Vec::new(),
            over: Vec::new(),
            lost: false,
        }
    }

    /// Returns all events that may happen next.
    fn events(&self) -> Vec<Event> {
        let mut events = Vec::new();
        if self.lookups.len() < usize::from(MAX_LOOKUPS) {
            events.extend([true, false].map(|selects| Event::Arrive { selects, batches: true }));
            events.extend(
                (self.threshold == 1 && self.batcher.bounds.at_once > 0)
                    .then_some(Event::Arrive { selects: true, batches: false }),
            );
        }
        events.extend(self.waiting().map(Event::Leave));
        for who in &self.selectors {
            events.extend([Event::Selected(*who), Event::Refused(*who)]);
            events.extend((!self.lost).then_some(Event::SelectorLost(*who)));
        }
        for scan in &self.scans {
            events.extend((!self.lost).then_some(Event::ScanLost));
            let Some(sent) = &scan.sent else {
                events.push(Event::Begin);
                continue;
            };
            events.push(if sent.pages + 1 < MAX_PAGES { Event::Page } else { Event::End });
            events.extend((sent.pages > 0 && !sent.restarted).then_some(Event::Restart));
            events.extend(self.members(sent).map(Event::Early));
        }
        events
    }

    fn after(&self, event: Event) -> Self {
        let mut world = self.clone();
        let actions = match event {
            Event::Arrive { selects, batches } => {
                world.batcher.set_batch_threshold(if batches { world.threshold } else { usize::MAX });
                let who = u8::try_from(world.lookups.len()).unwrap();
                world.lookups.push(LookupOutcome::Waiting);
                world.batcher.arrive(who, selects)
            }
            Event::Leave(who) => world.settle(who, LookupOutcome::Left),
            Event::Selected(who) => world.settle(who, LookupOutcome::Answered),
            Event::SelectorLost(who) => {
                world.lost = true;
                world.settle(who, LookupOutcome::Lost)
            }
            Event::Refused(who) => {
                world.selectors.retain(|one| *one != who);
                world.batcher.refuse(who)
            }
            Event::Begin => {
                let arrived = u8::try_from(world.lookups.len()).unwrap();
                let scan = world.scans.last_mut().unwrap();
                let members = world.batcher.begin(scan.id).expect("an ordered scan can be begun");
                scan.sent = Some(Sent { arrived, members, pages: 0, restarted: false });
                Vec::new()
            }
            Event::Page => {
                world.sent().pages += 1;
                Vec::new()
            }
            Event::Restart => {
                let members = world.sent().members.clone();
                *world.sent() = Sent { pages: 0, restarted: true, members, arrived: world.sent().arrived };
                Vec::new()
            }
            Event::Early(who) => {
                assert!(who < world.sent().arrived, "{who} is answered from a list that began before it arrived");
                world.settle(who, LookupOutcome::Answered)
            }
            Event::End => {
                let Running { id, sent } = world.scans.pop().unwrap();
                let arrived = sent.unwrap().arrived;
                world.end(id, LookupOutcome::Answered, arrived)
            }
            Event::ScanLost => {
                world.lost = true;
                let id = world.scans.pop().unwrap().id;
                world.end(id, LookupOutcome::Lost, MAX_LOOKUPS)
            }
        };
        world.carry_out(actions);
        if world.batcher.is_idle() {
            // The batcher is gone; the next lookup has another batcher.
            world.batcher = Batcher::new(world.batcher.bounds, world.batcher.name + 1);
        }
        world
    }

    fn settle(&mut self, who: u8, outcome: LookupOutcome) -> Vec<Action<u8>> {
        self.lookups[usize::from(who)] = outcome;
        self.batcher.leave(who)
    }

    fn end(&mut self, id: ScanId, outcome: LookupOutcome, arrived: u8) -> Vec<Action<u8>> {
        self.over.push(id);
        let (members, actions) = self.batcher.end(id);
        assert!(!members.is_empty(), "a scan that nobody waits for was not given up");
        for who in members {
            assert_eq!(self.lookups[usize::from(who)], LookupOutcome::Waiting);
            assert!(who < arrived, "{who} is answered from a list that began before it arrived");
            self.lookups[usize::from(who)] = outcome;
        }
        actions
    }

    fn carry_out(&mut self, actions: Vec<Action<u8>>) {
        for action in actions {
            match action {
                Action::Select(who) => self.selectors.push(who),
                Action::GiveUpSelect(who) => self.selectors.retain(|one| *one != who),
                Action::Scan(id) => self.scans.push(Running { id, sent: None }),
                Action::GiveUpScan(id) => {
                    let place = self.scans.iter().position(|scan| scan.id == id).expect("what runs is given up");
                    let given_up = self.scans.remove(place);
                    if let Some(sent) = given_up.sent {
                        assert_eq!(self.members(&sent).next(), None, "a scan was given up that somebody waits for");
                    }
                    self.over.push(id);
                }
            }
        }
    }

    fn sent(&mut self) -> &mut Sent {
        self.scans.last_mut().unwrap().sent.as_mut().unwrap()
    }

    fn waiting(&self) -> impl Iterator<Item = u8> {
        let outcomes = (0_u8..).zip(&self.lookups);
        outcomes.filter(|(_, outcome)| **outcome == LookupOutcome::Waiting).map(|(who, _)| who)
    }

    /// Returns the members of a scan that still wait for it.
    fn members(&self, sent: &Sent) -> impl Iterator<Item = u8> {
        sent.members.iter().copied().filter(|who| self.lookups[usize::from(*who)] == LookupOutcome::Waiting)
    }

    /// Checks what must hold whatever happened.
    fn check(&self) {
        let batcher = &self.batcher;
        assert!(self.scans.len() <= 1, "two scans at once");
        assert!(self.selectors.len() <= batcher.bounds.at_once, "too many selectors at once");
        assert!(batcher.queued.len() < batcher.bounds.batch_threshold, "a batch waits for selectors");
        assert!(
            batcher.queued.is_empty() || self.selectors.len() == batcher.bounds.at_once,
            "nothing runs, and one waits"
        );
        assert!(batcher.waiting.is_empty() || !self.scans.is_empty(), "no scan runs, and one waits for it");
        let mut served: Vec<u8> = [&self.selectors[..], &batcher.waiting].concat();
        served.extend(&batcher.queued);
        for scan in &self.scans {
            let awaited =
                scan.sent.as_ref().map_or(!batcher.waiting.is_empty(), |sent| self.members(sent).next().is_some());
            assert!(awaited, "a scan that nobody waits for was not given up");
            served.extend(scan.sent.iter().flat_map(|sent| self.members(sent)));
            if let (Some(sent), Scan::Running(_, members)) = (&scan.sent, &batcher.scan) {
                assert!(members.iter().all(|who| sent.members.contains(who)), "somebody joined a list that had begun");
            }
        }
        served.sort_unstable();
        assert_eq!(served, self.waiting().collect::<Vec<_>>(), "each that waits is served once");
        assert_eq!(batcher.is_idle(), served.is_empty());
        assert_eq!(batcher.is_idle(), self.scans.is_empty() && self.selectors.is_empty());
        for id in &self.over {
            let mut late = batcher.clone();
            assert_eq!((late.begin(*id), late.end(*id)), (None, (Vec::new(), Vec::new())));
            assert_eq!(late, *batcher, "what is over has no say");
        }
    }
}

/// Explores everything that can happen from the beginning on. Calls `seen` once for each step.
fn explore(bounds: Thresholds, mut seen: impl FnMut(&World, Event, &World)) -> usize {
    let start = World::new(bounds);
    let (mut known, mut open) = (HashSet::from([start.clone()]), vec![start]);
    while let Some(world) = open.pop() {
        let events = world.events();
        if events.is_empty() {
            let answered = |outcome: &LookupOutcome| *outcome != LookupOutcome::Waiting;
            assert!(world.lookups.len() == usize::from(MAX_LOOKUPS) && world.lookups.iter().all(answered), "{world:?}");
        }
        for event in events {
            let next = world.after(event);
            next.check();
            seen(&world, event, &next);
            if known.insert(next.clone()) {
                open.push(next);
            }
        }
    }
    known.len()
}

#[test]
fn nobody_is_answered_from_a_list_that_began_before_whatever_happens() {
    for (at_once, threshold) in [(0, 1), (1, 1), (1, 2)] {
        let (mut batches, mut late, mut late_restarts) = (0, 0, 0);
        let worlds = explore(Thresholds { at_once, batch_threshold: threshold }, |world, event, next| {
            let running = world.scans.iter().any(|scan| scan.sent.is_some());
            batches += usize::from(!world.batcher.is_batching && next.batcher.is_batching);
            late += usize::from(running && matches!(event, Event::Arrive { .. }));
            late_restarts += usize::from(matches!(event, Event::Restart) && !world.batcher.waiting.is_empty());
        });
        // The exploration must have reached the cases that matter.
        assert!(worlds > 1_000 && batches > 0 && late > 100 && late_restarts > 10, "{worlds} {batches} {late}");
    }
}

fn scan(scan: u64) -> ScanId {
    ScanId { batcher: 0, scan }
}

#[test]
fn a_single_lookup_waits_for_nobody() {
    let bounds = Thresholds { at_once: 2, batch_threshold: 2 };
    assert_eq!(Batcher::new(bounds, 0).arrive(1, true), [Action::Select(1)]);
    assert_eq!(Batcher::new(bounds, 0).arrive(1, false), [Action::Scan(scan(0))]);
}

#[test]
fn a_thousand_at_once_cost_a_handful_of_lists() {
    let mut batcher = Batcher::new(Thresholds { at_once: 4, batch_threshold: 16 }, 0);
    let actions: Vec<_> = (0..1_000).flat_map(|who| batcher.arrive(who, true)).collect();
    let (selects, scans): (Vec<_>, Vec<_>) =
        actions.into_iter().partition(|action| matches!(action, Action::Select(_)));
    assert_eq!(selects.len(), 4);
    assert_eq!(scans, [Action::Scan(scan(0))]);
    assert_eq!(batcher.begin(scan(0)).unwrap().len(), 996);
    // While the scan runs, new lookups go to the next one.
    assert_eq!((1_000..1_100).flat_map(|who| batcher.arrive(who, true)).count(), 0);
    assert_eq!(batcher.end(scan(0)).1, [Action::Scan(scan(1))]);
    assert_eq!(batcher.begin(scan(1)).unwrap().len(), 100);
    for who in 0..4 {
        assert_eq!(batcher.leave(who), [Action::GiveUpSelect(who)]);
    }
    // Nobody came while this scan ran: batching is over.
    assert_eq!(batcher.end(scan(1)).1, []);
    assert_eq!(batcher.arrive(1_100, true), [Action::Select(1_100)]);
}

//! Every interleaving of a few lookups, in every lane of small bounds.

use std::collections::HashSet;

use super::*;

/// The lookups that arrive.
const MOST: u8 = 4;
/// The pages of a scan.
const PAGES: u8 = 2;

/// A lane, and the world that carries out its orders.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct World {
    lane: Lane<u8>,
    crowd: usize,
    /// In the order of their arrival.
    lookups: Vec<Fate>,
    selectors: Vec<u8>,
    scans: Vec<Running>,
    /// Scans that are over; what carried them out may not know yet.
    over: Vec<ScanId>,
    /// Whether the one thing that may be lost was.
    lost: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Fate {
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

/// A scan after its first attempt was sent.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Sent {
    /// How many had arrived by then.
    arrived: u8,
    members: Vec<u8>,
    pages: u8,
    restarted: bool,
}

#[derive(Debug, Clone, Copy)]
enum Event {
    /// Selectors that wait may from now on be a crowd, or never.
    Arrive {
        selects: bool,
        crowds: bool,
    },
    Leave(u8),
    /// A selector is answered, refused, or whatever carried it out is gone.
    Selected(u8),
    Refused(u8),
    SelectorLost(u8),
    Begin,
    Page,
    /// 410: read again from the beginning.
    Restart,
    /// One that needs no further page is answered before the end.
    Early(u8),
    End,
    ScanLost,
}

impl World {
    fn new(bounds: Bounds) -> Self {
        let lane = Lane::new(bounds, 0);
        Self {
            lane,
            crowd: bounds.crowd,
            lookups: Vec::new(),
            selectors: Vec::new(),
            scans: Vec::new(),
            over: Vec::new(),
            lost: false,
        }
    }

    /// All that may happen next.
    fn events(&self) -> Vec<Event> {
        let mut events = Vec::new();
        if self.lookups.len() < usize::from(MOST) {
            events.extend([true, false].map(|selects| Event::Arrive { selects, crowds: true }));
            events.extend(
                (self.crowd == 1 && self.lane.bounds.at_once > 0)
                    .then_some(Event::Arrive { selects: true, crowds: false }),
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
            events.push(if sent.pages + 1 < PAGES { Event::Page } else { Event::End });
            events.extend((sent.pages > 0 && !sent.restarted).then_some(Event::Restart));
            events.extend(self.members(sent).map(Event::Early));
        }
        events
    }

    fn after(&self, event: Event) -> Self {
        let mut world = self.clone();
        let orders = match event {
            Event::Arrive { selects, crowds } => {
                world.lane.set_crowd(if crowds { world.crowd } else { usize::MAX });
                let who = u8::try_from(world.lookups.len()).unwrap();
                world.lookups.push(Fate::Waiting);
                world.lane.arrive(who, selects)
            }
            Event::Leave(who) => world.settle(who, Fate::Left),
            Event::Selected(who) => world.settle(who, Fate::Answered),
            Event::SelectorLost(who) => {
                world.lost = true;
                world.settle(who, Fate::Lost)
            }
            Event::Refused(who) => {
                world.selectors.retain(|one| *one != who);
                world.lane.refuse(who)
            }
            Event::Begin => {
                let arrived = u8::try_from(world.lookups.len()).unwrap();
                let scan = world.scans.last_mut().unwrap();
                let members = world.lane.begin(scan.id).expect("an ordered scan can be begun");
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
                world.settle(who, Fate::Answered)
            }
            Event::End => {
                let Running { id, sent } = world.scans.pop().unwrap();
                let arrived = sent.unwrap().arrived;
                world.end(id, Fate::Answered, arrived)
            }
            Event::ScanLost => {
                world.lost = true;
                let id = world.scans.pop().unwrap().id;
                world.end(id, Fate::Lost, MOST)
            }
        };
        world.carry_out(orders);
        if world.lane.is_idle() {
            // It is gone; whoever comes next has another.
            world.lane = Lane::new(world.lane.bounds, world.lane.name + 1);
        }
        world
    }

    fn settle(&mut self, who: u8, fate: Fate) -> Vec<Order<u8>> {
        self.lookups[usize::from(who)] = fate;
        self.lane.leave(who)
    }

    fn end(&mut self, id: ScanId, fate: Fate, arrived: u8) -> Vec<Order<u8>> {
        self.over.push(id);
        let (members, orders) = self.lane.end(id);
        assert!(!members.is_empty(), "a scan that nobody waits for was not given up");
        for who in members {
            assert_eq!(self.lookups[usize::from(who)], Fate::Waiting);
            assert!(who < arrived, "{who} is answered from a list that began before it arrived");
            self.lookups[usize::from(who)] = fate;
        }
        orders
    }

    fn carry_out(&mut self, orders: Vec<Order<u8>>) {
        for order in orders {
            match order {
                Order::Select(who) => self.selectors.push(who),
                Order::GiveUpSelect(who) => self.selectors.retain(|one| *one != who),
                Order::Scan(id) => self.scans.push(Running { id, sent: None }),
                Order::GiveUpScan(id) => {
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
        let fates = (0_u8..).zip(&self.lookups);
        fates.filter(|(_, fate)| **fate == Fate::Waiting).map(|(who, _)| who)
    }

    /// Those in a scan who still wait for it.
    fn members(&self, sent: &Sent) -> impl Iterator<Item = u8> {
        sent.members.iter().copied().filter(|who| self.lookups[usize::from(*who)] == Fate::Waiting)
    }

    /// What holds whatever happened.
    fn check(&self) {
        let lane = &self.lane;
        assert!(self.scans.len() <= 1, "two scans at once");
        assert!(self.selectors.len() <= lane.bounds.at_once, "too many selectors at once");
        assert!(lane.queued.len() < lane.bounds.crowd, "a crowd waits for selectors");
        assert!(lane.queued.is_empty() || self.selectors.len() == lane.bounds.at_once, "nothing runs, and one waits");
        assert!(lane.waiting.is_empty() || !self.scans.is_empty(), "no scan runs, and one waits for it");
        let mut served: Vec<u8> = [&self.selectors[..], &lane.waiting].concat();
        served.extend(&lane.queued);
        for scan in &self.scans {
            let wanted =
                scan.sent.as_ref().map_or(!lane.waiting.is_empty(), |sent| self.members(sent).next().is_some());
            assert!(wanted, "a scan that nobody waits for was not given up");
            served.extend(scan.sent.iter().flat_map(|sent| self.members(sent)));
            if let (Some(sent), Scan::Running(_, members)) = (&scan.sent, &lane.scan) {
                assert!(members.iter().all(|who| sent.members.contains(who)), "somebody joined a list that had begun");
            }
        }
        served.sort_unstable();
        assert_eq!(served, self.waiting().collect::<Vec<_>>(), "each that waits is served once");
        assert_eq!(lane.is_idle(), served.is_empty());
        assert_eq!(lane.is_idle(), self.scans.is_empty() && self.selectors.is_empty());
        for id in &self.over {
            let mut late = lane.clone();
            assert_eq!((late.begin(*id), late.end(*id)), (None, (Vec::new(), Vec::new())));
            assert_eq!(late, *lane, "what is over has no say");
        }
    }
}

/// Everything that can happen from the beginning on; `seen` is shown each step once.
fn explore(bounds: Bounds, mut seen: impl FnMut(&World, Event, &World)) -> usize {
    let start = World::new(bounds);
    let (mut known, mut open) = (HashSet::from([start.clone()]), vec![start]);
    while let Some(world) = open.pop() {
        let events = world.events();
        if events.is_empty() {
            let answered = |fate: &Fate| *fate != Fate::Waiting;
            assert!(world.lookups.len() == usize::from(MOST) && world.lookups.iter().all(answered), "{world:?}");
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
    for (at_once, crowd) in [(0, 1), (1, 1), (1, 2)] {
        let (mut crowds, mut late, mut late_restarts) = (0, 0, 0);
        let worlds = explore(Bounds { at_once, crowd }, |world, event, next| {
            let running = world.scans.iter().any(|scan| scan.sent.is_some());
            crowds += usize::from(!world.lane.crowded && next.lane.crowded);
            late += usize::from(running && matches!(event, Event::Arrive { .. }));
            late_restarts += usize::from(matches!(event, Event::Restart) && !world.lane.waiting.is_empty());
        });
        // It must have been to where it matters.
        assert!(worlds > 1_000 && crowds > 0 && late > 100 && late_restarts > 10, "{worlds} {crowds} {late}");
    }
}

fn scan(scan: u64) -> ScanId {
    ScanId { lane: 0, scan }
}

#[test]
fn a_single_lookup_waits_for_nobody() {
    let bounds = Bounds { at_once: 2, crowd: 2 };
    assert_eq!(Lane::new(bounds, 0).arrive(1, true), [Order::Select(1)]);
    assert_eq!(Lane::new(bounds, 0).arrive(1, false), [Order::Scan(scan(0))]);
}

#[test]
fn a_thousand_at_once_cost_a_handful_of_lists() {
    let mut lane = Lane::new(Bounds { at_once: 4, crowd: 16 }, 0);
    let orders: Vec<_> = (0..1_000).flat_map(|who| lane.arrive(who, true)).collect();
    let (selects, scans): (Vec<_>, Vec<_>) = orders.into_iter().partition(|order| matches!(order, Order::Select(_)));
    assert_eq!(selects.len(), 4);
    assert_eq!(scans, [Order::Scan(scan(0))]);
    assert_eq!(lane.begin(scan(0)).unwrap().len(), 996);
    // While it runs, whoever comes goes to the next.
    assert_eq!((1_000..1_100).flat_map(|who| lane.arrive(who, true)).count(), 0);
    assert_eq!(lane.end(scan(0)).1, [Order::Scan(scan(1))]);
    assert_eq!(lane.begin(scan(1)).unwrap().len(), 100);
    for who in 0..4 {
        assert_eq!(lane.leave(who), [Order::GiveUpSelect(who)]);
    }
    // Nobody came while that one ran: the crowd is over.
    assert_eq!(lane.end(scan(1)).1, []);
    assert_eq!(lane.arrive(1_100, true), [Order::Select(1_100)]);
}

//! What is to happen, all of it drawn from the seed before anything happens.

use std::collections::BTreeSet;
use std::time::Duration;

use crate::kinds::{NAMESPACES, Pair};
use crate::random::Random;

/// The whole run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Plan {
    /// One after another.
    pub rounds: Vec<Round>,
}

/// Deletions while one thing goes wrong.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Round {
    /// What goes wrong.
    pub fault: Fault,
    /// For how long at the least.
    pub least: Duration,
    /// A number for what the fault has to choose.
    pub dice: u64,
    /// What is deleted, in this order.
    pub targets: Vec<Target>,
}

/// What goes wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Fault {
    /// Nothing, for once, and long after everything else: what is free goes at the first attempt, however many
    /// deletions there are at once.
    Calm,
    /// The API server answers late.
    Latency,
    /// It answers 429.
    TooManyRequests,
    /// It answers 500.
    InternalError,
    /// It cuts connections.
    Cut,
    /// It cuts them in the pages of a list that follow the first.
    CutMidPage,
    /// It answers 410 to a continue token.
    ExpiredContinue,
    /// It says that it doesn't serve the dependents' kinds.
    NotFound,
    /// Its lists are empty, and have no resourceVersion.
    BareList,
    /// Watches break, again and again.
    WatchDropped,
    /// Watches are told 410, again and again.
    WatchExpired,
    /// Watches stay open and say nothing.
    WatchSilent,
    /// The endpoint slice names no endpoint any more: nobody's rules are in force.
    EndpointsRemoved,
    /// The endpoint slice can't be read, and the webhook is started anew.
    EndpointsUnreadable,
    /// By depguard's clock, the API server's certificate has run out.
    ClockJump,
    /// The webhook is killed and started again.
    WebhookKilled,
    /// The controller is killed and started again.
    ControllerKilled,
    /// A second controller runs beside the first.
    TwoControllers,
    /// A rule names another field from now on.
    RulesChanged,
    /// The same, while watches say nothing: the webhook has to find out by itself.
    RulesChangedUnheard,
}

/// An object that is deleted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Target {
    /// Its name.
    pub name: String,
    /// Its kind.
    pub pair: Pair,
    /// Where it is.
    pub namespace: &'static str,
    /// What refers to it.
    pub story: Story,
    /// The names of those who refer to it at some time.
    pub dependents: Vec<String>,
    /// Between the last that happens to its dependents and the deletion.
    pub pause: Duration,
}

/// What refers to a target when it is deleted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Story {
    /// Something does.
    Referenced,
    /// Something does that came just before.
    JustReferenced,
    /// Something does, by the field that a changed rule names.
    ReferencedByOther,
    /// What did went away just before.
    JustFreed,
    /// Nothing, but its namesake in the other namespace is referred to.
    Namesake,
    /// Nothing.
    Free,
}

impl Story {
    /// Whether the target is to stay.
    pub(crate) fn stays(self) -> bool {
        matches!(self, Self::Referenced | Self::JustReferenced | Self::ReferencedByOther)
    }
}

impl Fault {
    /// All that every run goes through.
    pub const USUAL: [Fault; 19] = [
        Fault::Calm,
        Fault::Latency,
        Fault::TooManyRequests,
        Fault::InternalError,
        Fault::Cut,
        Fault::CutMidPage,
        Fault::ExpiredContinue,
        Fault::NotFound,
        Fault::BareList,
        Fault::WatchDropped,
        Fault::WatchExpired,
        Fault::WatchSilent,
        Fault::EndpointsRemoved,
        Fault::EndpointsUnreadable,
        Fault::ClockJump,
        Fault::WebhookKilled,
        Fault::ControllerKilled,
        Fault::TwoControllers,
        Fault::RulesChanged,
    ];

    /// How the summary and the command line call it.
    pub fn name(self) -> &'static str {
        match self {
            Fault::Calm => "calm",
            Fault::Latency => "latency",
            Fault::TooManyRequests => "429",
            Fault::InternalError => "500",
            Fault::Cut => "cut",
            Fault::CutMidPage => "cut-mid-page",
            Fault::ExpiredContinue => "expired-continue",
            Fault::NotFound => "404",
            Fault::BareList => "bare-list",
            Fault::WatchDropped => "watch-dropped",
            Fault::WatchExpired => "watch-410",
            Fault::WatchSilent => "watch-silent",
            Fault::EndpointsRemoved => "endpoints-removed",
            Fault::EndpointsUnreadable => "endpoints-unreadable",
            Fault::ClockJump => "clock-jump",
            Fault::WebhookKilled => "webhook-killed",
            Fault::ControllerKilled => "controller-killed",
            Fault::TwoControllers => "two-controllers",
            Fault::RulesChanged => "rules-changed",
            Fault::RulesChangedUnheard => "rules-changed-unheard",
        }
    }

    /// Whether it hits requests or watches, which can be counted.
    pub fn hits_requests(self) -> bool {
        !matches!(
            self,
            Self::Calm
                | Self::EndpointsRemoved
                | Self::WebhookKilled
                | Self::ControllerKilled
                | Self::TwoControllers
                | Self::RulesChanged
        )
    }

    /// Whether a rule is changed while it lasts.
    pub(crate) fn changes_rules(self) -> bool {
        matches!(self, Self::RulesChanged | Self::RulesChangedUnheard)
    }
}

/// Deletions of a round; fewer where a run is so short that not every fault would have its turn.
const ROUND: usize = 200;
/// From so many deletions on there is time for what takes a minute.
const LONG: usize = 2000;

impl Plan {
    /// So many deletions, under these faults alone if there are any.
    pub fn draw(seed: u64, deletes: usize, only: &[Fault]) -> Self {
        let mut random = Random::new(seed);
        let mut usual = Fault::USUAL.to_vec();
        if deletes >= LONG {
            usual.push(Fault::RulesChangedUnheard);
        }
        let faults = if only.is_empty() { &usual[..] } else { only };
        let size = ROUND.min(deletes.div_ceil(faults.len())).max(1);
        let mut names = BTreeSet::new();
        let mut deck = Vec::new();
        let mut rounds = Vec::new();
        let mut left = deletes;
        while left > 0 {
            if deck.is_empty() {
                deck = faults.to_vec();
                random.shuffle(&mut deck);
            }
            let Some(fault) = deck.pop() else { break };
            let now = size.min(left);
            left -= now;
            rounds.push(Round {
                fault,
                least: random.millis(500, 2500),
                dice: random.next(),
                targets: targets(&mut random, now, fault, &mut names),
            });
        }
        Self { rounds }
    }

    /// How many deletions there are.
    pub fn deletes(&self) -> usize {
        self.rounds.iter().map(|round| round.targets.len()).sum()
    }
}

/// Of twenty, ten are referenced, and three have had something happen to their dependents just before: somewhat more
/// than are asked for, as some of it comes out otherwise when a rule is gone or the machine is slow.
fn targets(random: &mut Random, count: usize, fault: Fault, names: &mut BTreeSet<String>) -> Vec<Target> {
    // Where nothing goes wrong, all ask for the same dependents at once.
    let crowd = fault == Fault::Calm;
    let mut targets: Vec<_> = (0..count)
        .map(|place| {
            let story = match place % 20 {
                0..9 if fault.changes_rules() && place % 2 == 0 => Story::ReferencedByOther,
                0..9 => Story::Referenced,
                9 => Story::JustReferenced,
                10 | 11 => Story::JustFreed,
                12 | 13 => Story::Namesake,
                _ => Story::Free,
            };
            let dependents = match story {
                Story::Free => 0,
                Story::Referenced | Story::ReferencedByOther => random.within(1, 3),
                _ => 1,
            };
            Target {
                name: fresh(random, names),
                pair: if crowd { Pair::Vpc } else { Pair::ALL[random.below(Pair::ALL.len())] },
                namespace: if crowd { NAMESPACES[0] } else { NAMESPACES[random.below(NAMESPACES.len())] },
                story,
                dependents: (0..dependents).map(|_| fresh(random, names)).collect(),
                pause: random.millis(0, 30),
            }
        })
        .collect();
    random.shuffle(&mut targets);
    targets
}

/// A name that was not given before. They are spread over all of a list.
fn fresh(random: &mut Random, names: &mut BTreeSet<String>) -> String {
    loop {
        let name = format!("o{:08x}", random.next() as u32);
        if names.insert(name.clone()) {
            return name;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_gives_the_same_plan_each_time_and_another_seed_another() {
        assert_eq!(Plan::draw(7, 1000, &[]), Plan::draw(7, 1000, &[]));
        assert_ne!(Plan::draw(7, 1000, &[]), Plan::draw(8, 1000, &[]));
    }

    #[test]
    fn of_ten_thousand_deletions_more_than_four_thousand_are_referenced_and_a_thousand_fresh() {
        let plan = Plan::draw(1, 10_000, &[]);
        assert_eq!(plan.deletes(), 10_000);
        let count = |wanted: fn(Story) -> bool| {
            plan.rounds.iter().flat_map(|round| &round.targets).filter(|target| wanted(target.story)).count()
        };
        assert_eq!(count(Story::stays), 5000);
        assert_eq!(count(|story| matches!(story, Story::JustReferenced | Story::JustFreed)), 1500);
        for fault in Fault::USUAL.into_iter().chain([Fault::RulesChangedUnheard]) {
            assert!(plan.rounds.iter().any(|round| round.fault == fault), "{}", fault.name());
        }
    }

    #[test]
    fn a_short_run_goes_through_every_usual_fault_too() {
        let plan = Plan::draw(1, 380, &[]);
        assert_eq!(plan.deletes(), 380);
        let met: BTreeSet<_> = plan.rounds.iter().map(|round| round.fault).collect();
        assert_eq!(met, BTreeSet::from(Fault::USUAL));
    }
}

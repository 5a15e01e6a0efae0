//! Plan of a run, drawn from the seed before anything happens.

use std::collections::BTreeSet;
use std::time::Duration;

use crate::kinds::{NAMESPACES, Pair};
use crate::random::Random;

/// Plan of a whole run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Plan {
    /// Rounds, one after another.
    pub rounds: Vec<Round>,
}

/// Round: deletions while one fault is active.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Round {
    /// Fault of the round.
    pub fault: Fault,
    /// Minimum duration of the fault.
    pub least: Duration,
    /// Seed for the fault's own choices.
    pub dice: u64,
    /// Targets to delete, in this order.
    pub targets: Vec<Target>,
}

/// Fault of a round.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Fault {
    /// No fault, long after all others: a free object goes at the first attempt, however many concurrent deletions
    /// there are.
    Calm,
    /// The API server answers late.
    Latency,
    /// The API server answers 429.
    TooManyRequests,
    /// The API server answers 500.
    InternalError,
    /// The API server cuts connections.
    Cut,
    /// The API server cuts connections in the later pages of a list.
    CutMidPage,
    /// The API server answers 410 to a continue token.
    ExpiredContinue,
    /// The API server says that it doesn't serve the dependents' kinds.
    NotFound,
    /// The API server's lists are empty and have no resourceVersion.
    BareList,
    /// Watches break, again and again.
    WatchDropped,
    /// Watches get a 410, again and again.
    WatchExpired,
    /// Watches stay open and are silent.
    WatchSilent,
    /// The endpoint slice names no endpoint any more, so no rules are in force.
    EndpointsRemoved,
    /// The endpoint slice can't be read, and the webhook is started anew.
    EndpointsUnreadable,
    /// The API server's certificate has expired by depguard's clock.
    ClockJump,
    /// The webhook is killed and started again.
    WebhookKilled,
    /// The controller is killed and started again.
    ControllerKilled,
    /// A second controller runs beside the first.
    TwoControllers,
    /// A rule names another field from now on.
    RulesChanged,
    /// A rule names another field while watches are silent: the webhook has to find out by itself.
    RulesChangedUnheard,
}

/// Object to delete.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Target {
    /// Name of the object.
    pub name: String,
    /// Pair of kinds that the object belongs to.
    pub pair: Pair,
    /// Namespace of the object.
    pub namespace: &'static str,
    /// References to the object.
    pub story: Story,
    /// Names of the dependents that refer to the object at some time.
    pub dependents: Vec<String>,
    /// Pause between the last change of the dependents and the deletion.
    pub pause: Duration,
}

/// References to a target when it is deleted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Story {
    /// A dependent refers to the target.
    Referenced,
    /// A dependent refers to the target since just before.
    JustReferenced,
    /// A dependent refers to the target by the field that a changed rule names.
    ReferencedByOther,
    /// The target's dependent went away just before.
    JustFreed,
    /// Nothing refers to the target, but its namesake in the other namespace has a dependent.
    Namesake,
    /// Nothing refers to the target.
    Free,
}

impl Story {
    /// Returns true if the target must stay.
    pub(crate) fn stays(self) -> bool {
        matches!(self, Self::Referenced | Self::JustReferenced | Self::ReferencedByOther)
    }
}

impl Fault {
    /// Faults of every run.
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

    /// Returns the fault's name in the summary and on the command line.
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

    /// Returns true if the fault hits requests or watches, which can be counted.
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

    /// Returns true if the fault hits open watches. Deletions open none.
    pub(crate) fn hits_watches(self) -> bool {
        matches!(self, Self::WatchDropped | Self::WatchExpired | Self::WatchSilent | Self::RulesChangedUnheard)
    }

    /// Returns true if a rule is changed during the fault.
    pub(crate) fn changes_rules(self) -> bool {
        matches!(self, Self::RulesChanged | Self::RulesChangedUnheard)
    }
}

/// Number of deletions in a round. A short run has fewer, so that every fault has its turn.
const ROUND: usize = 200;
/// Number of deletions from which on a run has time for a fault that takes a minute.
const LONG: usize = 2000;

impl Plan {
    /// Draws a plan with this many deletions, under the faults in `only`, or under the usual ones if `only` is empty.
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

    /// Returns the number of deletions.
    pub fn deletes(&self) -> usize {
        self.rounds.iter().map(|round| round.targets.len()).sum()
    }
}

/// Draws the targets of a round. Of twenty, ten are referenced, and the dependents of three change just before. These
/// are somewhat more than the tests require, because some end differently when a rule is gone or the machine is slow.
fn targets(random: &mut Random, count: usize, fault: Fault, names: &mut BTreeSet<String>) -> Vec<Target> {
    // Without a fault, all deletions need the same dependents at once.
    let share_dependents = fault == Fault::Calm;
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
                pair: if share_dependents { Pair::Vpc } else { Pair::ALL[random.below(Pair::ALL.len())] },
                namespace: if share_dependents { NAMESPACES[0] } else { NAMESPACES[random.below(NAMESPACES.len())] },
                story,
                dependents: (0..dependents).map(|_| fresh(random, names)).collect(),
                pause: random.millis(0, 30),
            }
        })
        .collect();
    random.shuffle(&mut targets);
    targets
}

/// Draws a name that was not drawn before. The names are spread over the whole list.
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
        let count = |selects: fn(Story) -> bool| {
            plan.rounds.iter().flat_map(|round| &round.targets).filter(|target| selects(target.story)).count()
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

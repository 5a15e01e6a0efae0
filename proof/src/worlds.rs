//! Worlds that `cargo test` and the program play.

use crate::generations::Generations;
use crate::guard::Guard;
use crate::owner_worlds;
use crate::properties::{NEVER_DANGLING, NEVER_STUCK, NO_MARK_LEFT};
use crate::world::{Events, Hot, Request, World, apply, create, delete, update};

/// No events besides the requests.
pub(crate) const QUIET: Events = Events {
    touch_target: 0,
    recreate_target: 0,
    touch_dependent: 0,
    remove_dependent: 0,
    lose_answer: 0,
    crash: 0,
    restart_cleaner: 0,
    remove_register: 0,
};

/// Returns the worlds of some thousand states each, in which all properties hold.
pub fn small() -> Vec<World> {
    let pair = || [create(0, 1), delete(0)];
    let mut worlds = vec![
        World::new("a creation and a deletion", pair()),
        World { events: Events { touch_target: 1, ..QUIET }, ..World::new("the same; the target is changed", pair()) },
        World {
            events: Events { recreate_target: 1, ..QUIET },
            ..World::new("the same; the target is created again", pair())
        },
        World { finalizers: true, ..World::new("the same; the target has a finalizer", pair()) },
        World {
            events: Events { lose_answer: 1, ..QUIET },
            is_timeless: true,
            ..World::new("the same; an answer is lost", pair())
        },
        World { events: Events { crash: 1, ..QUIET }, ..World::new("the same; a replica crashes", pair()) },
        World {
            events: Events { restart_cleaner: 1, ..QUIET },
            ..World::new("the same; the cleaner is started again", pair())
        },
        World {
            events: Events { remove_register: 1, ..QUIET },
            ..World::new("the same; the register is deleted", pair())
        },
        World {
            rule_is_new: true,
            ..World::new("the same at two replicas; the rule is new", [create(0, 1), delete(0).at(1)])
        },
        coarse(World {
            rule_is_new: true,
            events: Events { remove_register: 1, ..QUIET },
            ..World::new(
                "the same at two replicas; the rule is new, and the register is deleted",
                [create(0, 1), delete(0).at(1)],
            )
        }),
        World { merges: true, ..World::new("the same, merged", pair()) },
        World { hot: Some(Hot::Shared), ..World::new("the same; the target has a shared mark", pair()) },
        World::new("a creation and a collection delete, which lives longer", [create(0, 1), delete(0).lives(2)]),
        World {
            stored: vec![(0, 0)],
            events: Events { touch_dependent: 1, ..QUIET },
            ..World::new("an update and a deletion; the dependent is changed", [update(0, 1), delete(0)])
        },
        World {
            stored: vec![(0, 0)],
            events: Events { remove_dependent: 1, ..QUIET },
            ..World::new("an update and a deletion; the dependent is deleted", [update(0, 1), delete(0)])
        },
        taken("a creation whose name is taken, and a deletion; the other dependent is deleted"),
        coarse(World::new("two creations and a deletion", [create(0, 1), create(1, 1), delete(0)])),
        coarse(World::new("a creation and two deletions", [create(0, 1), delete(0), delete(0)])),
        coarse(World {
            hot: Some(Hot::Full),
            ..World::new("a creation and a deletion; the target has many intents", pair())
        }),
        coarse(two_targets("a creation with two targets, and their deletions", [create(0, 3), delete(0), delete(1)])),
        another_key(),
        next_generation(),
    ];
    worlds.extend(owner_worlds::small());
    worlds
}

/// Returns the worlds of up to some million states each, in which all properties hold.
pub fn large() -> Vec<World> {
    let all = Events { touch_target: 1, recreate_target: 1, ..QUIET };
    let five = || [create(0, 1), create(1, 2).at(1), create(2, 3), delete(0).at(1), delete(1)];
    let mut worlds = vec![
        World {
            events: Events { remove_dependent: 1, ..all },
            ..World::new("a creation and a deletion; all objects change", [create(0, 1), delete(0)])
        },
        World {
            events: Events { lose_answer: 1, crash: 1, restart_cleaner: 1, ..QUIET },
            ..World::new("a creation and a deletion; everything fails once", [create(0, 1), delete(0).at(1)])
        },
        World {
            events: Events { lose_answer: 2, ..QUIET },
            ..World::new("a creation and a deletion; two answers are lost", [create(0, 1), delete(0)])
        },
        World {
            events: Events { remove_dependent: 1, ..QUIET },
            ..World::new("an apply, a creation of the same name and a deletion", [apply(0, 1), create(0, 0), delete(0)])
        },
        World {
            finalizers: true,
            events: all,
            ..World::new(
                "a creation and a deletion; the target has a finalizer, and changes",
                [create(0, 1), delete(0)],
            )
        },
        World {
            events: Events { remove_register: 1, lose_answer: 1, ..QUIET },
            ..World::new(
                "a creation and a deletion; the register is deleted, and an answer is lost",
                [create(0, 1), delete(0)],
            )
        },
        World {
            hot: Some(Hot::Shared),
            events: Events { remove_register: 1, restart_cleaner: 1, ..QUIET },
            ..World::new(
                "a creation and a deletion; the register of a shared mark is deleted",
                [create(0, 1), delete(0)],
            )
        },
        World {
            rule_is_new: true,
            ..World::new(
                "two creations and a deletion; the rule is new",
                [create(0, 1), create(1, 1).at(1), delete(0).at(1)],
            )
        },
        World {
            rule_is_new: true,
            events: Events { remove_register: 2, ..QUIET },
            ..World::new(
                "a creation and a deletion; the rule is new, and the register is deleted twice",
                [create(0, 1), delete(0).at(1)],
            )
        },
        World::new("two creations and a deletion, step by step", [create(0, 1), create(1, 1), delete(0)]),
        World::new("a creation and two deletions, step by step", [create(0, 1), delete(0), delete(0)]),
        World {
            events: Events { remove_dependent: 1, ..QUIET },
            ..World::new("two creations of one name and a deletion", [create(0, 1), create(0, 1), delete(0)])
        },
        World {
            stored: vec![(0, 0)],
            events: Events { touch_dependent: 1, remove_dependent: 1, touch_target: 1, ..QUIET },
            ..World::new("an update and a deletion; all objects change", [update(0, 1), delete(0)])
        },
        coarse(World {
            stored: vec![(1, 0)],
            events: Events { touch_dependent: 1, ..all },
            ..World::new(
                "a creation, an update and a deletion; all objects change",
                [create(0, 1), update(1, 1), delete(0)],
            )
        }),
        coarse(World {
            events: Events { remove_dependent: 1, ..all },
            ..World::new("a creation and two deletions; all objects change", [create(0, 1), delete(0), delete(0)])
        }),
        World {
            merges: true,
            ..World::new("two creations and a deletion, merged", [create(0, 1), create(1, 1), delete(0)])
        },
        World {
            hot: Some(Hot::Shared),
            ..World::new(
                "two creations and a deletion; the target has a shared mark",
                [create(0, 1), create(1, 1), delete(0)],
            )
        },
        coarse(World {
            hot: Some(Hot::Full),
            ..World::new(
                "three creations and a deletion; the target has many intents",
                [create(0, 1), create(1, 1), create(2, 1), delete(0)],
            )
        }),
        coarse(two_targets(
            "two creations, one with both targets, and two deletions",
            [create(0, 1), create(2, 3).at(1), delete(0), delete(1).at(1)],
        )),
        coarse(World {
            is_timeless: true,
            events: Events { crash: 1, ..QUIET },
            ..two_targets(
                "three creations and two deletions at two replicas, one of which crashes; no time passes",
                five(),
            )
        }),
        coarse(World {
            is_timeless: true,
            merges: true,
            buckets: 1,
            ..two_targets("three creations and two deletions, merged by two replicas; no time passes", five())
        }),
        coarse(two_targets("three creations and two deletions at two replicas", five())),
    ];
    worlds.extend(owner_worlds::large());
    worlds
}

fn taken(name: &'static str) -> World {
    World {
        stored: vec![(0, 0)],
        reads_names: true,
        events: Events { remove_dependent: 1, ..QUIET },
        ..World::new(name, [create(0, 1), delete(0)])
    }
}

fn another_key() -> World {
    World {
        generations: Generations::AnotherKey,
        ..World::new(
            "two creations and two deletions at two replicas with two keys",
            [create(0, 1), create(1, 1).at(1), delete(0), delete(0).at(1)],
        )
    }
}

fn next_generation() -> World {
    World {
        generations: Generations::Change,
        ..World::new("a creation and a deletion at two replicas; the key changes", [create(0, 1), delete(0).at(1)])
    }
}

pub(crate) fn coarse(world: World) -> World {
    World { is_coarse: true, zombies: false, ..world }
}

fn two_targets(name: &'static str, requests: impl IntoIterator<Item = Request>) -> World {
    World { targets: 2, buckets: 2, ..World::new(name, requests) }
}

/// Returns a small world without the guard, and the property that doesn't hold there.
pub fn counterexample(guard: Guard) -> (World, &'static str) {
    let pair = || World::new("a creation and a deletion", [create(0, 1), delete(0)]);
    let change = || World {
        stored: vec![(0, 0)],
        events: Events { touch_dependent: 1, ..QUIET },
        ..World::new("an update and a deletion; the dependent is changed", [update(0, 1), delete(0)])
    };
    let touched = || World {
        events: Events { touch_target: 1, ..QUIET },
        ..World::new("a creation and a deletion; the target is changed", [create(0, 1), delete(0)])
    };
    let crowd = || World {
        hot: Some(Hot::Shared),
        ..World::new("a creation and a deletion; the target has a shared mark", [create(0, 1), delete(0)])
    };
    let world = match guard {
        Guard::WriteByVersion | Guard::TargetReadAfterIntent | Guard::ListAfterFlag | Guard::TakeDown => pair(),
        Guard::TimeAfterRead | Guard::KeptLongerThanRequests | Guard::Reviews => pair(),
        Guard::FlagByEvaluation => World {
            events: Events { lose_answer: 1, ..QUIET },
            is_timeless: true,
            ..World::new("a creation and two deletions; an answer is lost", [create(0, 1), delete(0), delete(0)])
        },
        Guard::IntentByEvaluation => World {
            events: Events { lose_answer: 1, ..QUIET },
            is_timeless: true,
            ..World::new(
                "two creations of one name and a deletion; an answer is lost",
                [create(0, 1), create(0, 1), delete(0)],
            )
        },
        Guard::FlagReadBeforeProof | Guard::ReviewedAgain => touched(),
        Guard::IntentReadBeforeProof | Guard::UpdateNotByUid => change(),
        Guard::JudgedAsWritten => {
            World { merges: true, ..World::new("a creation and a deletion, merged", [create(0, 1), delete(0)]) }
        }
        Guard::StoredByUid => World {
            events: Events { remove_dependent: 1, ..QUIET },
            is_timeless: true,
            ..World::new(
                "two creations of one name and a deletion; a dependent is deleted",
                [create(0, 1), create(0, 1), delete(0)],
            )
        },
        Guard::CleanByVersion => World {
            events: Events { remove_dependent: 1, ..QUIET },
            is_timeless: true,
            ..World::new(
                "two creations and a deletion; a dependent is deleted",
                [create(0, 1), create(1, 1), delete(0)],
            )
        },
        Guard::SharedKeptClosed | Guard::SharedReadAfterReview => crowd(),
        Guard::ClosedWhenNew => World {
            events: Events { remove_register: 1, ..QUIET },
            ..World::new("a creation and a deletion; the register is deleted", [create(0, 1), delete(0)])
        },
        Guard::TerminatingRefuses => World {
            finalizers: true,
            ..World::new("a creation and a deletion; the target has a finalizer", [create(0, 1), delete(0)])
        },
        Guard::OpenedAtOnceOnlyUnused => World {
            rule_is_new: true,
            events: Events { remove_register: 1, ..QUIET },
            ..World::new(
                "a creation and a deletion at two replicas; the rule is new, and the register is deleted",
                [create(0, 1), delete(0).at(1)],
            )
        },
        Guard::TakenNameRefuses => taken("a creation whose name is taken, and a deletion"),
        Guard::WaitTwiceAfterRule => World {
            rule_is_new: true,
            ..World::new("a creation and a deletion at two replicas; the rule is new", [create(0, 1), delete(0).at(1)])
        },
        Guard::EachOwnerCounts
        | Guard::OwnerIsServed
        | Guard::OwnerInReach
        | Guard::OrphaningCounts
        | Guard::TerminatingOrphanRefuses
        | Guard::OwnersReviewed
        | Guard::GoneOwnerCounts
        | Guard::OrphaningReviewedAgain
        | Guard::LetGoPasses => owner_worlds::counterexample(guard),
        Guard::GenerationInPath => another_key(),
        Guard::FormerRegistersGo => next_generation(),
    };
    let property = match guard {
        Guard::TakeDown => NO_MARK_LEFT,
        Guard::LetGoPasses => NEVER_STUCK,
        _ => NEVER_DANGLING,
    };
    (world.without(guard), property)
}

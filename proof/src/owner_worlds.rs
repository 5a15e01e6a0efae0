//! Worlds of dependents that the target owns, and of the garbage collector.

use crate::guard::Guard;
use crate::owners::Owners;
use crate::owners::Propagation::{Background, Foreground, Orphan};
use crate::world::{Events, Hot, Request, World, create, delete, release, update};
use crate::worlds::{QUIET, coarse};

/// The first target as the only owner.
const TARGET: Owners = Owners::TARGET;
/// The first target and another object as owners.
const BOTH: Owners = Owners::TARGET.and(Owners::OTHER);

/// A change of each object.
const CHANGES: Events = Events { touch_target: 1, touch_dependent: 1, ..QUIET };

/// Returns a world in which a dependent is stored that refers to the target and has these owners, by a rule that ignores
/// the dependents that go with their target.
fn owned(name: &'static str, owners: Owners, requests: impl IntoIterator<Item = Request>) -> World {
    World { stored: vec![(0, 1)], owned: vec![(0, owners)], ignores_owned: true, ..World::new(name, requests) }
}

fn held(world: World) -> World {
    World { finalizers: true, ..world }
}

/// Returns the worlds of some thousand states each, in which all properties hold.
pub(crate) fn small() -> Vec<World> {
    vec![
        owned("an owned dependent; an update takes the owner away, and a deletion", TARGET, [update(0, 1), delete(0)]),
        owned("the same, in the foreground", TARGET, [update(0, 1), delete(0).by(Foreground)]),
        owned(
            "an owned dependent; an update adds an owner, and a deletion",
            TARGET,
            [update(0, 1).owned_by(BOTH), delete(0)],
        ),
        World {
            events: CHANGES,
            ..owned(
                "a dependent of two owners; an update takes one away, and a deletion; both objects change",
                BOTH,
                [update(0, 1).owned_by(TARGET), delete(0)],
            )
        },
        owned(
            "an owner of an unserved version; an update mends that, and a deletion",
            Owners::UNSERVED,
            [update(0, 1).owned_by(TARGET), delete(0)],
        ),
        World {
            is_cluster_scoped: true,
            events: CHANGES,
            ..owned(
                "a cluster-scoped dependent of an owner in a namespace, and a deletion; both objects change",
                TARGET,
                [update(0, 0).owned_by(TARGET), delete(0)],
            )
        },
        World {
            events: CHANGES,
            ..owned(
                "an owned dependent refers no more, and a deletion that orphans; both objects change",
                TARGET,
                [update(0, 0).owned_by(TARGET), delete(0).by(Orphan), release(0)],
            )
        },
        World {
            stored: vec![(0, 0)],
            ..owned(
                "an owned dependent begins to refer, and a deletion that orphans",
                TARGET,
                [update(0, 1).owned_by(TARGET), delete(0).by(Orphan), release(0)],
            )
        },
        held(World::new(
            "a creation of an owned dependent, and a deletion",
            [create(0, 1).owned_by(TARGET), delete(0)],
        )),
        held(World::new(
            "a creation of a dependent of two owners, and a deletion",
            [create(0, 1).owned_by(BOTH), delete(0)],
        )),
        held(coarse(World::new(
            "a creation of an owned dependent, an update that takes the owner away, and a deletion",
            [create(0, 1).owned_by(TARGET), update(0, 1), delete(0)],
        ))),
        held(owned(
            "an owned dependent, a deletion, and another that orphans",
            TARGET,
            [delete(0), delete(0).by(Orphan), release(0)],
        )),
        coarse(owned(
            "an owned dependent, another creation, and an override that orphans",
            TARGET,
            [delete(0).by(Orphan).overrides(), release(0), create(1, 1).owned_by(TARGET), release(1)],
        )),
        coarse(owned(
            "a dependent of two owners, another creation, and an override",
            BOTH,
            [delete(0).overrides(), release(0), create(1, 1).owned_by(TARGET)],
        )),
    ]
}

/// Returns the worlds of up to some million states each, in which all properties hold.
pub(crate) fn large() -> Vec<World> {
    let all = Events { touch_target: 1, touch_dependent: 1, recreate_target: 1, ..QUIET };
    vec![
        World {
            events: all,
            ..owned(
                "an owned dependent; an update takes the owner away, and a deletion; all objects change",
                TARGET,
                [update(0, 1), delete(0)],
            )
        },
        World {
            events: Events { lose_answer: 1, crash: 1, restart_cleaner: 1, ..QUIET },
            ..owned(
                "an owned dependent; an update takes the owner away, and a deletion; everything fails once",
                TARGET,
                [update(0, 1), delete(0).at(1)],
            )
        },
        World {
            hot: Some(Hot::Shared),
            ..owned(
                "an owned dependent of a target with a shared mark; an update takes the owner away, and a deletion",
                TARGET,
                [update(0, 1), delete(0)],
            )
        },
        held(coarse(World::new(
            "a creation of an owned dependent, a deletion, and another that orphans",
            [create(0, 1).owned_by(TARGET), delete(0), delete(0).by(Orphan), release(0)],
        ))),
        held(coarse(World {
            ignores_owned: true,
            ..World::new(
                "the same, by a rule that ignores owned dependents",
                [create(0, 1).owned_by(TARGET), delete(0), delete(0).by(Orphan), release(0)],
            )
        })),
        held(coarse(World::new(
            "a creation of an owned dependent, an update that takes the owner away, and two deletions",
            [create(0, 1).owned_by(TARGET), update(0, 1), delete(0), delete(0).by(Orphan), release(0)],
        ))),
        held(coarse(owned(
            "an owned dependent, and deletions in the foreground, that orphans, and with nothing said",
            TARGET,
            [delete(0).by(Foreground), delete(0).by(Orphan), delete(0), release(0)],
        ))),
        held(coarse(owned(
            "an owned dependent; an override that orphans, and a deletion that does not",
            TARGET,
            [update(0, 1), delete(0).by(Orphan).overrides(), delete(0).by(Background), release(0)],
        ))),
        held(coarse(owned(
            "an owner of an unserved version; an override that orphans, and a deletion that does not",
            Owners::UNSERVED,
            [delete(0).by(Orphan).overrides(), delete(0).by(Background), release(0), update(0, 1)],
        ))),
        held(coarse(World {
            stored: vec![(0, 0)],
            ..owned(
                "an owned dependent begins to refer; a deletion that orphans, and one that does not",
                TARGET,
                [update(0, 1).owned_by(TARGET), delete(0).by(Orphan), delete(0).by(Background), release(0)],
            )
        })),
        held(coarse(owned(
            "an owned dependent; an update takes the owner away, and a deletion that an override changes",
            TARGET,
            [update(0, 1), delete(0), delete(0).by(Orphan).overrides(), release(0)],
        ))),
        coarse(World {
            targets: 2,
            buckets: 2,
            stored: vec![(0, 3)],
            ..owned(
                "a dependent of one of its two targets; an update takes the owner away, and two deletions",
                TARGET,
                [update(0, 3), delete(0), delete(1)],
            )
        }),
    ]
}

/// Returns a small world in which the guard is needed.
pub(crate) fn counterexample(guard: Guard) -> World {
    match guard {
        Guard::OwnerIsServed => owned("an owner of an unserved version, and a deletion", Owners::UNSERVED, [delete(0)]),
        Guard::OwnerInReach => World {
            is_cluster_scoped: true,
            ..owned("a cluster-scoped dependent of an owner in a namespace, and a deletion", TARGET, [delete(0)])
        },
        Guard::OrphaningCounts => {
            owned("an owned dependent, and a deletion that orphans", TARGET, [delete(0).by(Orphan), release(0)])
        }
        Guard::TerminatingOrphanRefuses => World::new(
            "a creation of an owned dependent, and a deletion that orphans",
            [create(0, 1).owned_by(TARGET), delete(0).by(Orphan), release(0)],
        ),
        Guard::OwnersReviewed | Guard::GoneOwnerCounts => owned(
            "an owned dependent; an update takes the owner away, and a deletion",
            TARGET,
            [update(0, 1), delete(0)],
        ),
        Guard::OrphaningReviewedAgain => held(owned(
            "an owned dependent, a deletion, and another that orphans",
            TARGET,
            [delete(0), delete(0).by(Orphan), release(0)],
        )),
        Guard::LetGoPasses => owned(
            "an owned dependent, and an override that orphans",
            TARGET,
            [delete(0).by(Orphan).overrides(), release(0)],
        ),
        _ => owned("a dependent of two owners, and a deletion", BOTH, [delete(0)]),
    }
}

//! Nobody waits without end, and each part of the protocol that sees to it is needed.

use depguard_proof::{TurnGuard, play, starved, starving_path, turns};

#[test]
fn nobody_who_asks_again_waits_for_longer_than_the_bound() {
    for world in turns() {
        let (states, broken) = play(world);
        assert_eq!(broken, [""; 0], "{}: {:?}", world.name, starving_path(world));
        assert!(states > 10, "{}: {states} states", world.name);
    }
}

#[test]
fn without_each_guard_somebody_waits_for_longer() {
    for guard in TurnGuard::ALL {
        assert!(starving_path(starved(guard)).is_some_and(|path| !path.is_empty()), "{guard:?}");
    }
}

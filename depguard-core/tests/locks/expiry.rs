//! Tests of when a lock ends.

use depguard_core::locks::{EXPIRY_TOLERANCE, Timestamp};
use serde_json::json;

use crate::world::*;

#[test]
fn a_lock_holds_until_it_ends_and_a_little_longer() {
    for spec in [json!({"expiresAt": "2026-12-01T00:00:00Z"}), json!({"ttl": "1h"})] {
        let mut world = World::with_lock(spec.clone());
        let end = world.now;
        assert_eq!(world.decide(&delete(vm())).label(), "locked", "{spec}");
        world.now = end.after(EXPIRY_TOLERANCE - 1);
        assert_eq!(world.decide(&delete(vm())).label(), "locked", "{spec}");
        world.now = end.after(EXPIRY_TOLERANCE);
        let decision = world.decide(&delete(vm()));
        assert_eq!(
            (decision.label(), decision.locks()),
            ("expired", &["ObjectLock default/a".to_owned()][..]),
            "{spec}"
        );
    }
}

#[test]
fn a_lock_without_an_end_does_not_end() {
    let mut world = World::with_lock(json!({}));
    world.now = Timestamp::from_unix_millis(i64::MAX);
    assert_eq!(world.decide(&delete(vm())).label(), "locked");
}

#[test]
fn a_lock_whose_creation_is_not_known_has_not_ended() {
    let mut world = World::with_lock(json!({"ttl": "1h"}));
    let path = path_of(depguard_core::locks::LockKind::ObjectLock, "a");
    world.objects.get_mut(&path).unwrap()["metadata"].as_object_mut().unwrap().remove("creationTimestamp");
    world.now = Timestamp::from_unix_millis(i64::MAX);
    assert_eq!(world.decide(&delete(vm())).label(), "locked");
}

//! Tests of who may delete an object that is still referenced.

use depguard_core::OverridePolicy;
use depguard_core::decision::AllowReason::*;

use crate::cast::*;

const SKIP: &str = "dependencies.opendefense.cloud/skip-protection";

#[test]
fn an_override_counts_only_for_whom_the_operator_allowed() {
    let world = bound().with(vm("ns", "m1", "a"));
    let skipped = vpc("ns", "a").annotated(SKIP, "true");
    let users = OverridePolicy { users: ["bob".to_owned()].into(), ..OverridePolicy::nobody() };
    let only_bob = world.but(|world| world.overrides = users);
    for (world, user, groups, allowed) in [
        (&world, "root-admin", &["system:masters"][..], true),
        (&world, "kcp-admin", &["system:authenticated", "system:kcp:admin"], true),
        (&world, "alice", &["system:authenticated"], false),
        (&world, "alice", &["masters", "system:masters "], false),
        (&world, "system:masters", &[], false),
        // The control plane acts for tenants, so its groups do not count.
        (&world, "system:apiserver", &["system:authenticated", "system:masters"], false),
        (&world, "system:kube-controller-manager", &["system:masters"], false),
        (&world, "system:serviceaccount:kube-system:namespace-controller", &["system:masters"], false),
        (&world, "", &["system:masters"], false),
        (&only_bob, "bob", &[], true),
        (&only_bob, "bobby", &[], false),
        (&only_bob, "root-admin", &["system:masters"], false),
    ] {
        let outcome = world.review(&asked_by(&skipped, user, groups));
        if allowed {
            outcome.asked(&[]).allowed(Overridden);
            assert_eq!(outcome.decision.diagnostics().audit_annotations()["overridden-by"], user);
        } else {
            outcome.blocked_by(&["VirtualMachine/m1"]);
        }
        // Without the annotation, nobody overrides.
        world.review(&asked_by(&vpc("ns", "a"), user, groups)).blocked_by(&["VirtualMachine/m1"]);
    }
}

#[test]
fn only_the_word_true_overrides() {
    for (value, allowed) in [("true", true), ("True", false), ("1", false), ("", false), ("false", false)] {
        let review = asked_by(&vpc("ns", "a").annotated(SKIP, value), "root", &["system:masters"]);
        let outcome = bound().with(vm("ns", "m1", "a")).review(&review);
        if allowed { outcome.allowed(Overridden) } else { outcome.blocked_by(&["VirtualMachine/m1"]) }
    }
}

//! Deletions at the same time, with their lists counted by the API server.

use std::time::Duration;

use depguard_core::ControlPlane;
use futures::future::join_all;

use crate::scene::{Scene, WAYS};

/// Number of deletions at once, and number of dependents.
const MANY: usize = 100;

#[tokio::test(flavor = "multi_thread")]
async fn deletions_at_once_share_a_handful_of_lists_and_each_is_decided_for_itself() {
    for way in WAYS {
        let scene = Scene::reading(way).await;
        scene.write_rule(".spec.vpcRef.name").await;
        // Every other VPC is referenced.
        scene.fill(MANY, |n| n * 2);
        let webhook = scene.start().await;
        scene.configure(webhook.review_addr()).await;
        let before = (scene.lists_of_vms(), scene.lists_of_bindings());
        // The delay is long enough for all deletions to come before the first lists are answered.
        scene.slow_lists_of_vms(Duration::from_millis(500));
        let vpcs: Vec<_> = (0..MANY).map(|n| format!("vpc-{n}")).collect();
        let messages = join_all(vpcs.iter().map(|vpc| scene.delete_dry(vpc))).await;
        for (n, message) in messages.into_iter().enumerate() {
            let expected = (n % 2 == 0).then(|| format!("still referenced by VirtualMachine/vm-{}", n / 2));
            match (&message, &expected) {
                (Some(message), Some(expected)) => assert!(message.contains(expected), "{message}"),
                _ => assert_eq!(message, expected),
            }
        }
        // A few lookups try the field, which is not selectable; then these and the rest share two or three lists.
        let lists = scene.lists_of_vms() - before.0;
        assert!((2..=8).contains(&lists), "{lists} lists for {MANY} deletions");
        if way.0 == ControlPlane::Kcp {
            let lists = scene.lists_of_bindings() - before.1;
            assert!((1..=MANY as u64 / 2).contains(&lists), "{lists} lists of bindings for {MANY} deletions");
        }
        webhook.stop().await;
    }
}

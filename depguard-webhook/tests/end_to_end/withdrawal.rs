//! A provider that unbinds depguard, with its installed configuration left in its workspace.

use depguard_testbed::{Fault, When};
use depguard_webhook::ReadThrough;

use crate::scene::{Scene, eventually};

/// kcp ends the binding at once: the controller is too late to remove the configuration.
#[tokio::test(flavor = "multi_thread")]
async fn what_a_provider_exports_is_let_go_only_once_its_withdrawal_is_proved() {
    for way in [ReadThrough::FrontProxy, ReadThrough::Export] {
        let scene = Scene::on_shards(way).await;
        scene.write_rule(".spec.vpcRef.name").await;
        scene.create_vm("m1", "a").await;
        let webhook = scene.start().await;
        scene.configure(webhook.review_addr()).await;
        let refused = async || scene.delete_dry("a").await.is_some_and(|why| why.contains("VirtualMachine/m1"));
        eventually("the rule is in force", refused).await;

        // Nobody can tell yet: the provider's APIBindings can't be read, and its id may belong to nobody.
        let [provider, ..] = scene.clusters().await;
        let under = format!("/clusters/{}/", provider.unwrap());
        let faults = scene.testbed().faults();
        let unread = faults.inject(Fault::InternalError, When::always().under(&under).path("/apibindings"));
        let unproved = faults.inject(Fault::NotFound, When::always().under(&under).path("/logicalclusters/"));
        scene.unbind_provider_unseen().await;
        eventually("the withdrawal is looked for", async || {
            assert!(refused().await, "{way:?}");
            faults.hits(unread) > Some(2)
        })
        .await;
        faults.clear(unread);
        eventually("the provider itself is looked for", async || {
            assert!(refused().await, "{way:?}");
            faults.hits(unproved) > Some(2)
        })
        .await;
        faults.clear(unproved);
        eventually("it is let go", async || scene.delete_dry("a").await.is_none()).await;
        // The rule counts from the first moment on, whatever the watches show by then.
        scene.bind_provider().await;
        assert!(refused().await, "{way:?}");
        webhook.stop().await;
    }
}

//! Tests that a stopped testbed leaves nothing behind.

use std::time::Duration;

use serde_json::json;
use tokio::runtime::Handle;

use crate::bed::Bed;
use crate::fixtures::{Network, VPCS, WORKSPACES, vpc};

#[tokio::test]
async fn every_task_has_ended_when_stop_returns() {
    let before = Handle::current().metrics().num_alive_tasks();
    let bed = Bed::kcp().await;
    let network = Network::set_up(&bed).await;
    // There is an open watch, and a teardown that can't end.
    let watch = network.tenant.watch(&format!("{VPCS}?watch=true")).await;
    let mut held = vpc("held");
    held["metadata"]["finalizers"] = json!(["example.com/hold"]);
    network.tenant.create(VPCS, &held).await.ok();
    bed.admin.cluster("root").delete(&format!("{WORKSPACES}/tenant")).await.ok();
    tokio::time::sleep(Duration::from_millis(300)).await;
    assert!(Handle::current().metrics().num_alive_tasks() > before);

    bed.testbed.stop().await;
    drop(watch);
    // The client's own connection tasks notice the end a moment later.
    for _ in 0..3000 {
        if Handle::current().metrics().num_alive_tasks() == before {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("{} tasks are left of {before}", Handle::current().metrics().num_alive_tasks());
}

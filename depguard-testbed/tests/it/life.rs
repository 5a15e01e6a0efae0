//! Tests of a process that dies at a write.

use depguard_testbed::Death;
use serde_json::{Value, json};

use crate::bed::Bed;
use crate::client::{Answer, Client};

const MAPS: &str = "/api/v1/namespaces/default/configmaps";

fn map(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}})
}

async fn create(client: &Client, name: &str) -> Option<Answer> {
    client.try_send("POST", MAPS, None, Some(&map(name))).await.ok()
}

/// Reads as that user; returns `None` if the connection was cut.
async fn reads(client: &Client) -> Option<u16> {
    client.try_send("GET", MAPS, None, None).await.ok().map(|answer| answer.code)
}

#[tokio::test]
async fn a_process_dies_before_or_after_a_write_and_stays_dead_until_revived() {
    let bed = Bed::kubernetes().await;
    let process = bed.admin.as_user("process");
    let life = bed.testbed.faults().follow("process", |write| !write.path.contains("/leases"));
    for (death, first, there) in [(Death::Before, "a", vec!["a0"]), (Death::After, "b", vec!["a0", "b0", "b1"])] {
        life.die_at(life.writes().len() + 1, death);
        // Reads, writes that are not counted, and writes by other users do not count.
        assert_eq!(reads(&process).await, Some(200));
        process.delete("/apis/coordination.k8s.io/v1/namespaces/default/leases/none").await;
        bed.admin.create(MAPS, &map(&format!("else-{first}"))).await.ok();
        assert_eq!(create(&process, &format!("{first}0")).await.map(|answer| answer.code), Some(201));
        assert!(!life.is_dead());
        assert!(create(&process, &format!("{first}1")).await.is_none(), "{death:?}");
        life.died().await;
        assert!(create(&process, &format!("{first}2")).await.is_none(), "dead is dead");
        assert_eq!(reads(&process).await, None);
        let found = bed.admin.get(MAPS).await;
        let found: Vec<&str> = found.names().into_iter().filter(|name| !name.starts_with("else")).collect();
        assert_eq!(found, there, "{death:?}");
        life.revive();
        assert_eq!(reads(&process).await, Some(200));
    }
    let told: Vec<String> = life.writes().into_iter().map(|write| format!("{} {}", write.method, write.path)).collect();
    assert_eq!(told, vec![format!("POST {MAPS}"); 4]);

    life.die_at(life.writes().len(), Death::Before);
    drop(life);
    assert_eq!(create(&process, "c").await.map(|answer| answer.code), Some(201), "nobody follows any more");
    bed.testbed.stop().await;
}

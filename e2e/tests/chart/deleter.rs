//! A client that deletes all the time: objects that may go, and one that may not.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use depguard_e2e::{Api, Outcome, Stop, ensure};
use serde_json::json;
use tokio::task::JoinHandle;

/// Deletes objects until [`Deleter::stop`].
pub(crate) struct Deleter {
    over: Arc<AtomicBool>,
    task: JoinHandle<Outcome<usize>>,
}

impl Deleter {
    /// Starts to delete in a namespace where the ConfigMap `referenced` is used.
    pub(crate) fn start(api: Api, namespace: &str, referenced: &str) -> Deleter {
        let over = Arc::new(AtomicBool::new(false));
        let place = format!("/api/v1/namespaces/{namespace}/configmaps");
        let task = tokio::spawn(delete(api, place, referenced.to_owned(), Arc::clone(&over)));
        Deleter { over, task }
    }

    /// Stops, and returns the number of deleted objects; fails if an object that may go was kept, or if the referenced
    /// one was not refused.
    pub(crate) async fn stop(self) -> Outcome<usize> {
        self.over.store(true, Ordering::Relaxed);
        self.task.await?
    }
}

async fn delete(api: Api, place: String, referenced: String, over: Arc<AtomicBool>) -> Outcome<usize> {
    let mut gone = 0;
    while !over.load(Ordering::Relaxed) {
        let name = format!("free-{gone}");
        api.post(&place, &json!({"metadata": {"name": name}})).await?.ok()?;
        let reply = api.delete(&format!("{place}/{name}")).await?;
        let said = reply.message();
        ensure(reply.status == 200, || format!("after {gone} deletions, what nothing refers to was kept: {said}"))?;
        let reply = api.delete(&format!("{place}/{referenced}")).await?;
        let said = reply.message();
        ensure(reply.status == 403 && said.contains("still referenced by"), || {
            format!("after {gone} deletions, what is used was not refused by who uses it: {} {said}", reply.status)
        })?;
        gone += 1;
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    if gone > 0 { Ok(gone) } else { Err(Stop::failed("nothing was deleted meanwhile")) }
}

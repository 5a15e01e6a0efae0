//! Testbed with a client, and functions that wait for controllers.

use std::future::Future;
use std::time::Duration;

use depguard_testbed::{Options, Testbed};
use serde_json::Value;

use crate::client::Client;

pub(crate) struct Bed {
    pub(crate) testbed: Testbed,
    pub(crate) admin: Client,
}

impl Bed {
    pub(crate) async fn kcp() -> Self {
        Self::start(Options::default()).await
    }

    pub(crate) async fn kubernetes() -> Self {
        Self::start(Options::kubernetes()).await
    }

    pub(crate) async fn start(options: Options) -> Self {
        let testbed = Testbed::start(options).await.unwrap();
        let admin = Client::new(testbed.url(), testbed.ca_pem(), "admin");
        Self { testbed, admin }
    }
}

/// Asks again until there is an answer, for at most a minute.
pub(crate) async fn eventually<T, F: Future<Output = Option<T>>>(what: &str, mut ask: impl FnMut() -> F) -> T {
    for _ in 0..3000 {
        if let Some(answer) = ask().await {
            return answer;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    panic!("never happened: {what}");
}

/// Waits until the object is gone.
pub(crate) async fn gone(client: &Client, path: &str) {
    eventually(&format!("{path} is gone"), || async {
        let code = client.get(path).await.code;
        matches!(code, 403 | 404).then_some(())
    })
    .await;
}

/// Waits until the object meets the condition, and returns it.
pub(crate) async fn becomes(client: &Client, path: &str, condition: impl Fn(&Value) -> bool) -> Value {
    eventually(&format!("{path} meets the condition"), || async {
        let answer = client.get(path).await;
        (answer.code == 200 && condition(&answer.body)).then_some(answer.body)
    })
    .await
}

/// Returns the condition of that type, if the object has one.
pub(crate) fn condition<'a>(object: &'a Value, kind: &str) -> Option<&'a Value> {
    object["status"]["conditions"].as_array()?.iter().find(|condition| condition["type"] == kind)
}

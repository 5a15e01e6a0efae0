//! Port whose requests wait until a test answers them.

use std::sync::{Arc, Mutex};

use bytes::Bytes;
use depguard_core::Query;
use depguard_webhook::{ApiReader, Fetched};
use serde_json::Value;
use tokio::sync::oneshot;

/// Port with the waiting requests. Clones share them.
#[derive(Clone, Default)]
pub(crate) struct Hand(Arc<Mutex<Held>>);

#[derive(Default)]
struct Held {
    requests: Vec<Request>,
    dropped: usize,
}

struct Request {
    path: String,
    reply: Option<oneshot::Sender<Reply>>,
}

/// Reply to a request.
#[derive(Clone)]
pub(crate) enum Reply {
    Json(u16, Value),
    TooLarge,
    Failed(&'static str),
    Panic,
}

impl Hand {
    /// Returns the paths of the waiting requests, without their common prefix.
    pub(crate) fn open(&self) -> Vec<String> {
        let held = self.0.lock().unwrap();
        held.requests
            .iter()
            .filter(|request| request.reply.as_ref().is_some_and(|reply| !reply.is_closed()))
            .map(|request| request.path.replace("/apis/compute.example.com/v1/namespaces/default", ""))
            .collect()
    }

    /// Returns the number of requests so far.
    pub(crate) fn asked(&self) -> usize {
        self.0.lock().unwrap().requests.len()
    }

    /// Returns the number of requests that were given up.
    pub(crate) fn dropped(&self) -> usize {
        self.0.lock().unwrap().dropped
    }

    /// Answers the request with this index, in the order of arrival.
    pub(crate) fn reply(&self, index: usize, reply: Reply) {
        let waiting = self.0.lock().unwrap().requests[index].reply.take();
        let _ = waiting.expect("it is answered once").send(reply);
    }

    /// Gives all waiting requests the same answer.
    pub(crate) fn reply_all(&self, reply: &Reply) {
        for request in &mut self.0.lock().unwrap().requests {
            if let Some(waiting) = request.reply.take() {
                let _ = waiting.send(reply.clone());
            }
        }
    }
}

/// Guard that counts requests which are dropped before they are answered.
struct Waiting<'h>(&'h Hand, bool);

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        if !self.1 {
            self.0.0.lock().unwrap().dropped += 1;
        }
    }
}

impl ApiReader for Hand {
    async fn get(&self, query: &Query) -> Fetched {
        let (sender, receiver) = oneshot::channel();
        self.0.lock().unwrap().requests.push(Request { path: query.path.clone(), reply: Some(sender) });
        let mut waiting = Waiting(self, false);
        let reply = receiver.await.expect("a test answers or ends");
        waiting.1 = true;
        drop(waiting);
        match reply {
            Reply::Json(status, body) => Fetched::Response { status, body: Bytes::from(body.to_string()) },
            Reply::TooLarge => Fetched::TooLarge,
            Reply::Failed(why) => Fetched::Failed(why.to_owned()),
            Reply::Panic => panic!("a port that breaks"),
        }
    }
}

//! A port whose requests wait until a test answers them.

use std::sync::{Arc, Mutex};

use bytes::Bytes;
use depguard_core::Query;
use depguard_webhook::{Fetched, Port};
use serde_json::Value;
use tokio::sync::oneshot;

/// Holds the requests. Clones hold the same.
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

/// What a request is answered.
#[derive(Clone)]
pub(crate) enum Reply {
    Json(u16, Value),
    TooLarge,
    Failed(&'static str),
    Panic,
}

impl Hand {
    /// The requests that wait, without what they have in common.
    pub(crate) fn open(&self) -> Vec<String> {
        let held = self.0.lock().unwrap();
        held.requests
            .iter()
            .filter(|request| request.reply.as_ref().is_some_and(|reply| !reply.is_closed()))
            .map(|request| request.path.replace("/apis/compute.example.com/v1/namespaces/default", ""))
            .collect()
    }

    /// How many requests there were.
    pub(crate) fn asked(&self) -> usize {
        self.0.lock().unwrap().requests.len()
    }

    /// How many were given up.
    pub(crate) fn dropped(&self) -> usize {
        self.0.lock().unwrap().dropped
    }

    /// Answers the request that came as the `index`th.
    pub(crate) fn reply(&self, index: usize, reply: Reply) {
        let waiting = self.0.lock().unwrap().requests[index].reply.take();
        let _ = waiting.expect("it is answered once").send(reply);
    }

    /// Answers all that wait alike.
    pub(crate) fn reply_all(&self, reply: &Reply) {
        for request in &mut self.0.lock().unwrap().requests {
            if let Some(waiting) = request.reply.take() {
                let _ = waiting.send(reply.clone());
            }
        }
    }
}

/// Counts what is dropped before it is answered.
struct Waiting<'h>(&'h Hand, bool);

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        if !self.1 {
            self.0.0.lock().unwrap().dropped += 1;
        }
    }
}

impl Port for Hand {
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

//! Requests of an evaluation: those to send, and those without an answer so far.

use std::collections::BTreeMap;

use crate::model::names::LogicalCluster;
use crate::protocol::request::{Accept, Ask, Query, QueryId, Send, Verb};

/// The requests to send and the open requests, each for a purpose `T`.
#[derive(Debug)]
pub(super) struct RequestQueue<T> {
    cluster: Option<LogicalCluster>,
    ready: Vec<(T, Message)>,
    open: BTreeMap<QueryId, T>,
    next_id: usize,
}

#[derive(Debug)]
enum Message {
    Get(String),
    Send(Verb, String, Vec<u8>),
}

impl<T> RequestQueue<T> {
    pub(super) fn new(cluster: Option<LogicalCluster>) -> Self {
        Self { cluster, ready: Vec::new(), open: BTreeMap::new(), next_id: 0 }
    }

    pub(super) fn cluster(&self) -> Option<&LogicalCluster> {
        self.cluster.as_ref()
    }

    pub(super) fn get(&mut self, purpose: T, path: String) {
        self.ready.push((purpose, Message::Get(path)));
    }

    pub(super) fn send(&mut self, purpose: T, verb: Verb, path: String, body: Vec<u8>) {
        self.ready.push((purpose, Message::Send(verb, path, body)));
    }

    pub(super) fn hand_out(&mut self) -> Vec<Ask> {
        let mut asks = Vec::new();
        for (purpose, message) in std::mem::take(&mut self.ready) {
            let (id, cluster) = (QueryId(self.next_id), self.cluster.clone());
            self.next_id += 1;
            self.open.insert(id, purpose);
            asks.push(match message {
                Message::Get(path) => Ask::Get(Query { id, cluster, export: None, path, accept: Accept::Json }),
                Message::Send(verb, path, body) => Ask::Send(Send { id, cluster, verb, path, body }),
            });
        }
        asks
    }

    /// Withdraws the requests for these purposes that were not sent yet.
    pub(super) fn withdraw(&mut self, of: impl Fn(&T) -> bool) {
        self.ready.retain(|(purpose, _)| !of(purpose));
    }

    /// Returns the purpose of an open request. `None` if there is no such request, or if it was already answered.
    pub(super) fn take(&mut self, id: QueryId) -> Option<T> {
        self.open.remove(&id)
    }

    /// Returns true if all requests are answered.
    pub(super) fn is_clear(&self) -> bool {
        self.ready.is_empty() && self.open.is_empty()
    }

    /// Returns the purposes of all requests without an answer.
    pub(super) fn unanswered(&self) -> impl Iterator<Item = &T> {
        self.ready.iter().map(|(purpose, _)| purpose).chain(self.open.values())
    }
}

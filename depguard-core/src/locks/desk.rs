//! What an evaluation has sent, and is still to be answered.

use std::collections::BTreeMap;

use crate::names::LogicalCluster;
use crate::query::{Accept, Query, QueryId};

/// Something to be sent to an API server.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(
    clippy::exhaustive_enums,
    reason = "depguard's other crates decide by each case: none shall pass them by unseen"
)]
pub enum Ask {
    /// A GET. It may be shared by all who asked for it before it was sent.
    Get(Query),
    /// Something with a body, which is nobody else's.
    Send(Send),
}

/// A POST, a PUT or a PATCH of JSON.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "made by depguard's other crates too, which say each field")]
pub struct Send {
    /// To be handed back with the answer.
    pub id: QueryId,
    /// The logical cluster to send it to; `None` in home kubernetes.
    pub cluster: Option<LogicalCluster>,
    /// How.
    pub verb: Verb,
    /// The path, encoded.
    pub path: String,
    /// The body, as JSON.
    pub body: Vec<u8>,
}

/// How something is sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(
    clippy::exhaustive_enums,
    reason = "depguard's other crates decide by each case: none shall pass them by unseen"
)]
pub enum Verb {
    /// `POST`.
    Create,
    /// `PUT`.
    Replace,
    /// `PATCH`, as a JSON merge patch.
    Merge,
}

/// What was asked and is to be asked, each for a purpose `T`.
#[derive(Debug)]
pub(super) struct Desk<T> {
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

impl<T> Desk<T> {
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

    /// Takes back what is still to be handed out for these purposes.
    pub(super) fn withdraw(&mut self, of: impl Fn(&T) -> bool) {
        self.ready.retain(|(purpose, _)| !of(purpose));
    }

    /// What it was asked for. `None`: it was not asked, or was answered already.
    pub(super) fn take(&mut self, id: QueryId) -> Option<T> {
        self.open.remove(&id)
    }

    /// Whether all that was to be asked is answered.
    pub(super) fn is_clear(&self) -> bool {
        self.ready.is_empty() && self.open.is_empty()
    }

    /// What was to be asked and is not answered.
    pub(super) fn unanswered(&self) -> impl Iterator<Item = &T> {
        self.ready.iter().map(|(purpose, _)| purpose).chain(self.open.values())
    }
}

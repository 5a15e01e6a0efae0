//! Queries of a proof: those to send, and those without an answer so far.

use std::collections::{BTreeMap, VecDeque};

use crate::protocol::request::{Query, QueryId};

/// Reads of a proof. `R` is the purpose of a read.
#[derive(Debug)]
pub(super) struct Reads<R> {
    due: VecDeque<R>,
    open: BTreeMap<QueryId, R>,
    next_id: usize,
}

impl<R> Reads<R> {
    pub(super) fn new() -> Self {
        Self { due: VecDeque::new(), open: BTreeMap::new(), next_id: 0 }
    }

    pub(super) fn push(&mut self, read: R) {
        self.due.push_back(read);
    }

    /// Returns the queries that are due, built by `query`. A read for which `query` returns `None` is dropped.
    pub(super) fn hand_out(&mut self, query: impl Fn(QueryId, &R) -> Option<Query>) -> Vec<Query> {
        let mut queries = Vec::new();
        while let Some(read) = self.due.pop_front() {
            let id = QueryId(self.next_id);
            if let Some(query) = query(id, &read) {
                self.next_id += 1;
                self.open.insert(id, read);
                queries.push(query);
            }
        }
        queries
    }

    /// Removes and returns the read to which an answer belongs.
    pub(super) fn take(&mut self, id: QueryId) -> Option<R> {
        self.open.remove(&id)
    }
}

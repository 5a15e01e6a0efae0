//! Queries of an evaluation or a proof: those to send, and those without an answer so far.

use std::collections::{BTreeMap, VecDeque};

use crate::protocol::request::{Query, QueryId};

/// Queries to send and open queries, each by its purpose `P`.
#[derive(Debug)]
pub(crate) struct QueryQueue<P> {
    due: VecDeque<P>,
    open: BTreeMap<QueryId, P>,
    next_id: usize,
}

impl<P> QueryQueue<P> {
    pub(crate) fn new() -> Self {
        Self { due: VecDeque::new(), open: BTreeMap::new(), next_id: 0 }
    }

    /// Hands out no id up to this one, which another query has.
    pub(crate) fn begin_after(&mut self, id: QueryId) {
        self.next_id = id.0 + 1;
    }

    pub(crate) fn push(&mut self, purpose: P) {
        self.due.push_back(purpose);
    }

    /// Returns the queries that are due, built by `query`. A purpose for which `query` returns `None` is dropped.
    pub(crate) fn hand_out(&mut self, query: impl Fn(QueryId, &P) -> Option<Query>) -> Vec<Query> {
        let mut queries = Vec::new();
        while let Some(purpose) = self.due.pop_front() {
            let id = QueryId(self.next_id);
            if let Some(query) = query(id, &purpose) {
                self.next_id += 1;
                self.open.insert(id, purpose);
                queries.push(query);
            }
        }
        queries
    }

    /// Removes and returns the purpose of the query to which an answer belongs.
    pub(crate) fn take(&mut self, id: QueryId) -> Option<P> {
        self.open.remove(&id)
    }

    /// Returns true if no query is due or open.
    pub(crate) fn is_empty(&self) -> bool {
        self.due.is_empty() && self.open.is_empty()
    }

    /// Gives up all queries. A late answer to one of them belongs to none.
    pub(crate) fn clear(&mut self) {
        self.due.clear();
        self.open.clear();
    }
}

//! What webhooks had written into the audit log.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Mutex, PoisonError};

/// How many are remembered.
const MOST: usize = 1024;

/// A request that a webhook has noted something about.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Audit {
    /// The requester's name.
    pub user: String,
    /// `CREATE`, `UPDATE` or `DELETE`.
    pub operation: String,
    /// API group.
    pub group: String,
    /// Lower case plural, with a subresource as `pods/eviction`.
    pub resource: String,
    /// Empty for a cluster-scoped object.
    pub namespace: String,
    /// The object's name; empty in a collection delete.
    pub name: String,
    /// What was noted, each under `<webhook's name>/<key>`.
    pub annotations: BTreeMap<String, String>,
}

/// The last ones, oldest first.
#[derive(Debug, Default)]
pub(crate) struct Audits(Mutex<VecDeque<Audit>>);

impl Audits {
    pub(crate) fn note(&self, audit: Audit) {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if all.len() == MOST {
            all.pop_front();
        }
        all.push_back(audit);
    }

    pub(crate) fn all(&self) -> Vec<Audit> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).iter().cloned().collect()
    }
}

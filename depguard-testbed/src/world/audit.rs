//! Entries that webhooks wrote into the audit log.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Mutex, PoisonError};

/// Maximum of entries that are kept.
const MAX_ENTRIES: usize = 1024;

/// Audit entry of a request that a webhook annotated.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Audit {
    /// Name of the requester.
    pub user: String,
    /// Operation of the request: `CREATE`, `UPDATE` or `DELETE`.
    pub operation: String,
    /// API group of the object.
    pub group: String,
    /// Plural of the resource in lower case, with a subresource as in `pods/eviction`.
    pub resource: String,
    /// Namespace; empty for a cluster-scoped object.
    pub namespace: String,
    /// Name of the object; empty in a collection delete.
    pub name: String,
    /// Annotations, each under `<webhook's name>/<key>`.
    pub annotations: BTreeMap<String, String>,
}

/// Last entries, oldest first.
#[derive(Debug, Default)]
pub(crate) struct Audits(Mutex<VecDeque<Audit>>);

impl Audits {
    pub(crate) fn note(&self, audit: Audit) {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if all.len() == MAX_ENTRIES {
            all.pop_front();
        }
        all.push_back(audit);
    }

    pub(crate) fn all(&self) -> Vec<Audit> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).iter().cloned().collect()
    }
}

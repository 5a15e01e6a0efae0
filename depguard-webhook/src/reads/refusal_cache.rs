//! Memory of requests that API servers refuse, or can't answer in time.
//!
//! The webhook tries whether a server can select by a field: one that can't answers 400, and the lookup becomes a scan.
//! It tries likewise whether a kind's tables show the needed fields, and whether a scan ends before a deletion stops
//! waiting. The memory keeps a refusal for a while, so that the next lookup doesn't try again, and then forgets it,
//! since a schema may gain `selectableFields`. Forgetting costs one request. A server that loses the ability costs one,
//! too: no decision rests on this memory.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use depguard_core::lookup::{Dependents, Lookup};
use depguard_core::model::Namespace;
use depguard_core::{ExportName, GroupVersionResource, LogicalCluster};
use tokio::time::Instant;

/// Time for which a refusal is remembered.
const FRESH: Duration = Duration::from_secs(300);
/// Duration from which a scan counts as too slow: lookups that come while it runs wait for the next one, which may end
/// too late for them. An API server waits 10 s.
const SLOW: Duration = Duration::from_secs(4);
/// Maximum number of refusals that are remembered; beyond it, the oldest are forgotten.
const MAX_REMEMBERED: usize = 4096;

/// Recent refusals.
#[derive(Debug, Default)]
pub(crate) struct RefusalCache(Mutex<HashMap<RefusableRequest, Instant>>);

/// Request about a kind, as one logical cluster serves it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct RefusableRequest {
    cluster: Option<LogicalCluster>,
    export: Option<(LogicalCluster, ExportName)>,
    gvr: GroupVersionResource,
    by: By,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum By {
    /// Selecting by a field.
    Field(String),
    /// Printing these fields.
    Columns(BTreeSet<String>),
    /// Listing a whole namespace, or everything, in time for those who wait.
    Time(Option<Namespace>),
}

/// Scan under way. A scan that takes too long is remembered, however it ends.
#[derive(Debug)]
pub(crate) struct ScanTimer<'r> {
    refusals: &'r RefusalCache,
    dependents: &'r Dependents,
    since: Instant,
}

impl RefusalCache {
    /// Returns the request to select by the lookup's field; `None` if the lookup has no such field, or a refusal is
    /// remembered.
    pub(crate) fn try_field(&self, lookup: &Lookup) -> Option<RefusableRequest> {
        let by = By::Field(lookup.field()?.to_owned());
        Some(RefusableRequest::new(lookup.dependents(), by)).filter(|asked| self.is_untried(asked))
    }

    /// Returns the request to print the columns of all these lookups; `None` if they don't all have columns, or a
    /// refusal is remembered.
    pub(crate) fn try_columns(&self, dependents: &Dependents, lookups: &[Lookup]) -> Option<RefusableRequest> {
        let columns: Option<Vec<_>> = lookups.iter().map(Lookup::columns).collect();
        let by = By::Columns(columns?.into_iter().flatten().collect());
        Some(RefusableRequest::new(dependents, by)).filter(|asked| self.is_untried(asked))
    }

    /// Returns true unless a recent scan of these dependents was too slow.
    pub(crate) fn has_time_for(&self, dependents: &Dependents) -> bool {
        self.is_untried(&RefusableRequest::new(dependents, By::Time(dependents.namespace.clone())))
    }

    /// Begins to time a scan of these dependents; the scan ends when the result is dropped.
    pub(crate) fn time<'r>(&'r self, dependents: &'r Dependents) -> ScanTimer<'r> {
        ScanTimer { refusals: self, dependents, since: Instant::now() }
    }

    fn is_untried(&self, asked: &RefusableRequest) -> bool {
        let known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        known.get(asked).is_none_or(|at| at.elapsed() >= FRESH)
    }

    /// Remembers that the server refused the request.
    pub(crate) fn remember(&self, asked: &RefusableRequest) {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if known.len() >= MAX_REMEMBERED && !known.contains_key(asked) {
            known.retain(|_, at| at.elapsed() < FRESH);
            let oldest = known.iter().min_by_key(|(_, at)| **at).map(|(asked, _)| asked.clone());
            if let Some(oldest) = oldest.filter(|_| known.len() >= MAX_REMEMBERED) {
                known.remove(&oldest);
            }
        }
        known.insert(asked.clone(), Instant::now());
    }
}

impl Drop for ScanTimer<'_> {
    fn drop(&mut self) {
        if self.since.elapsed() >= SLOW {
            self.refusals
                .remember(&RefusableRequest::new(self.dependents, By::Time(self.dependents.namespace.clone())));
        }
    }
}

impl RefusableRequest {
    fn new(dependents: &Dependents, by: By) -> Self {
        let Dependents { cluster, export, gvr, .. } = dependents.clone();
        Self { cluster, export, gvr, by }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use depguard_core::Group;
    use depguard_core::model::{Resource, Version};

    fn field(name: &str) -> RefusableRequest {
        let gvr = GroupVersionResource {
            group: Group::parse("compute.example.com").unwrap(),
            version: Version::parse("v1").unwrap(),
            resource: Resource::parse("virtualmachines").unwrap(),
        };
        RefusableRequest { cluster: None, export: None, gvr, by: By::Field(name.to_owned()) }
    }

    #[tokio::test(start_paused = true)]
    async fn a_refusal_is_remembered_for_five_minutes() {
        let refusals = RefusalCache::default();
        assert!(refusals.is_untried(&field("spec.a")));
        refusals.remember(&field("spec.a"));
        assert!(!refusals.is_untried(&field("spec.a")) && refusals.is_untried(&field("spec.b")));
        let elsewhere = RefusableRequest { cluster: Some(LogicalCluster::parse("2x3").unwrap()), ..field("spec.a") };
        assert!(refusals.is_untried(&elsewhere));
        tokio::time::advance(Duration::from_secs(299)).await;
        assert!(!refusals.is_untried(&field("spec.a")));
        tokio::time::advance(Duration::from_secs(1)).await;
        assert!(refusals.is_untried(&field("spec.a")));
    }

    #[tokio::test(start_paused = true)]
    async fn of_too_many_the_oldest_are_forgotten() {
        let refusals = RefusalCache::default();
        for n in 0..MAX_REMEMBERED + 10 {
            refusals.remember(&field(&format!("spec.f{n}")));
            tokio::time::advance(Duration::from_millis(1)).await;
        }
        assert_eq!(refusals.0.lock().unwrap().len(), MAX_REMEMBERED);
        assert!(refusals.is_untried(&field("spec.f9")) && !refusals.is_untried(&field("spec.f10")));
    }
}

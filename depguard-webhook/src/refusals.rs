//! What API servers are known not to select by, not to print, and not to list in time.
//!
//! Whether a field can be selected by is learned by trying: a server that can't says 400, and the lookup becomes a scan.
//! Likewise whether a kind's tables show the fields that matter, and whether a scan takes longer than a deletion waits.
//! That is remembered a while, so that the next one doesn't try; and forgotten after it, since a schema may gain
//! `selectableFields`. Forgetting costs one request, and so does a server that could and can't any more: nothing is
//! decided by this memory.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use depguard_core::{Dependents, ExportName, GroupVersionResource, LogicalCluster, Lookup, Namespace};
use tokio::time::Instant;

/// How long a refusal is remembered.
const FRESH: Duration = Duration::from_secs(300);
/// A scan that takes longer may be too late for those who come while it runs: they wait for the next. An API server
/// waits 10 s.
const SLOW: Duration = Duration::from_secs(4);
/// How many are remembered; of more, the oldest are forgotten.
const MOST: usize = 4096;

/// What was refused lately.
#[derive(Debug, Default)]
pub(crate) struct Refusals(Mutex<HashMap<Asked, Instant>>);

/// What was asked of a kind, as one logical cluster serves it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Asked {
    cluster: Option<LogicalCluster>,
    export: Option<(LogicalCluster, ExportName)>,
    gvr: GroupVersionResource,
    by: By,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum By {
    /// To select by a field.
    Field(String),
    /// To print these fields.
    Columns(BTreeSet<String>),
    /// To list all in a namespace, or all, before those who wait for it must have an answer.
    Time(Option<Namespace>),
}

/// A scan under way. One that takes too long is remembered, however it ends.
#[derive(Debug)]
pub(crate) struct Timed<'r> {
    refusals: &'r Refusals,
    dependents: &'r Dependents,
    since: Instant,
}

impl Refusals {
    /// The field by which to look, where it is worth a try.
    pub(crate) fn try_by(&self, lookup: &Lookup) -> Option<Asked> {
        let by = By::Field(lookup.field()?.to_owned());
        Some(Asked::new(lookup.dependents(), by)).filter(|asked| self.has_not(asked))
    }

    /// The columns by which to look for all of these, where that is worth a try.
    pub(crate) fn try_columns(&self, dependents: &Dependents, lookups: &[Lookup]) -> Option<Asked> {
        let columns: Option<Vec<_>> = lookups.iter().map(Lookup::columns).collect();
        let by = By::Columns(columns?.into_iter().flatten().collect());
        Some(Asked::new(dependents, by)).filter(|asked| self.has_not(asked))
    }

    /// Whether all of these can be read while a deletion waits.
    pub(crate) fn has_time_for(&self, dependents: &Dependents) -> bool {
        self.has_not(&Asked::new(dependents, By::Time(dependents.namespace.clone())))
    }

    /// A scan of these begins; it ends when this is dropped.
    pub(crate) fn time<'r>(&'r self, dependents: &'r Dependents) -> Timed<'r> {
        Timed { refusals: self, dependents, since: Instant::now() }
    }

    fn has_not(&self, asked: &Asked) -> bool {
        let known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        known.get(asked).is_none_or(|at| at.elapsed() >= FRESH)
    }

    /// Remembers that the server doesn't do what was asked.
    pub(crate) fn remember(&self, asked: &Asked) {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if known.len() >= MOST && !known.contains_key(asked) {
            known.retain(|_, at| at.elapsed() < FRESH);
            let oldest = known.iter().min_by_key(|(_, at)| **at).map(|(asked, _)| asked.clone());
            if let Some(oldest) = oldest.filter(|_| known.len() >= MOST) {
                known.remove(&oldest);
            }
        }
        known.insert(asked.clone(), Instant::now());
    }
}

impl Drop for Timed<'_> {
    fn drop(&mut self) {
        if self.since.elapsed() >= SLOW {
            self.refusals.remember(&Asked::new(self.dependents, By::Time(self.dependents.namespace.clone())));
        }
    }
}

impl Asked {
    fn new(dependents: &Dependents, by: By) -> Self {
        let Dependents { cluster, export, gvr, .. } = dependents.clone();
        Self { cluster, export, gvr, by }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use depguard_core::{Group, Resource, Version};

    fn field(name: &str) -> Asked {
        let gvr = GroupVersionResource {
            group: Group::parse("compute.example.com").unwrap(),
            version: Version::parse("v1").unwrap(),
            resource: Resource::parse("virtualmachines").unwrap(),
        };
        Asked { cluster: None, export: None, gvr, by: By::Field(name.to_owned()) }
    }

    #[tokio::test(start_paused = true)]
    async fn a_refusal_is_remembered_for_five_minutes() {
        let refusals = Refusals::default();
        assert!(refusals.has_not(&field("spec.a")));
        refusals.remember(&field("spec.a"));
        assert!(!refusals.has_not(&field("spec.a")) && refusals.has_not(&field("spec.b")));
        let elsewhere = Asked { cluster: Some(LogicalCluster::parse("2x3").unwrap()), ..field("spec.a") };
        assert!(refusals.has_not(&elsewhere));
        tokio::time::advance(Duration::from_secs(299)).await;
        assert!(!refusals.has_not(&field("spec.a")));
        tokio::time::advance(Duration::from_secs(1)).await;
        assert!(refusals.has_not(&field("spec.a")));
    }

    #[tokio::test(start_paused = true)]
    async fn of_too_many_the_oldest_are_forgotten() {
        let refusals = Refusals::default();
        for n in 0..MOST + 10 {
            refusals.remember(&field(&format!("spec.f{n}")));
            tokio::time::advance(Duration::from_millis(1)).await;
        }
        assert_eq!(refusals.0.lock().unwrap().len(), MOST);
        assert!(refusals.has_not(&field("spec.f9")) && !refusals.has_not(&field("spec.f10")));
    }
}

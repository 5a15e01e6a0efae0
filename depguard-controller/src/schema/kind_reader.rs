//! Reader of kinds, at the API server that serves them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use depguard_core::GroupVersionResource;
use depguard_kcp::Endpoint;
use futures::{StreamExt, stream};
use tokio::time::Instant;

use crate::model::install_place::InstallPlace;
use crate::schema::kind_facts::{KindFacts, KindState};

/// Kind, with the place where it can be read.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct KindKey {
    pub(crate) place: InstallPlace,
    /// Name of its APIResourceSchema; `None` for a kind of the cluster itself.
    pub(crate) schema: Option<String>,
    pub(crate) gvr: GroupVersionResource,
    /// True if its fields matter, as those of dependents do. A published schema is large.
    pub(crate) with_schema: bool,
}

/// Results of reading kinds.
pub(crate) type Kinds = BTreeMap<KindKey, KindState>;

/// Maximum number of kinds that are read at once: a published schema can take some megabytes.
const MAX_CONCURRENT_READS: usize = 2;
/// Time limit for reading kinds in one round. The next round reads the rest.
const PATIENCE: Duration = Duration::from_secs(20);

/// Time for which an earlier result is believed while reads of the kind fail.
const BELIEVED: Duration = Duration::from_secs(60);
/// Pause after a failed read of a kind whose earlier result is still believed.
const RETRY: Duration = Duration::from_secs(10);

/// Results of reading kinds, kept for a while.
pub(crate) struct KindCache {
    known: BTreeMap<KindKey, Known>,
    fresh: Duration,
}

struct Known {
    seen: KindState,
    /// Time at which `seen` was read.
    at: Instant,
    /// Reads that failed since then.
    failing: Option<Failing>,
}

#[derive(Clone, Copy)]
struct Failing {
    /// Time of the first failed read.
    since: Instant,
    /// Time of the last failed read.
    last: Instant,
}

impl KindCache {
    /// Makes an empty cache. A kind is read again each time that `fresh` has passed.
    pub(crate) fn new(fresh: Duration) -> Self {
        Self { known: BTreeMap::new(), fresh }
    }

    /// Reads the kinds that are due, each where it is served, and forgets the kinds that are not needed any more. While
    /// reads of a kind fail, its earlier result stays for a minute.
    pub(crate) async fn refresh(&mut self, mut needed: BTreeMap<KindKey, Result<Endpoint, String>>) -> Kinds {
        let now = Instant::now();
        self.known.retain(|key, _| needed.contains_key(key));
        needed.retain(|key, _| self.known.get(key).is_none_or(|known| known.is_due(self.fresh, now)));
        let mut left: BTreeSet<_> = needed.keys().cloned().collect();
        let mut due: Vec<_> = needed.into_iter().collect();
        // If the time does not suffice for all kinds, the next round begins with the others.
        due.sort_by_key(|(key, _)| self.known.get(key).map(Known::tried));
        let reads = stream::iter(due).map(|(key, endpoint)| async move {
            let seen = match (endpoint, &key.schema) {
                (Err(why), _) => KindState::Unknown(why),
                (Ok(endpoint), schema) => read_kind(&endpoint, &key.gvr, schema.as_deref(), key.with_schema).await,
            };
            (key, seen)
        });
        let mut reads = Box::pin(reads.buffer_unordered(MAX_CONCURRENT_READS).take_until(tokio::time::sleep(PATIENCE)));
        while let Some((key, seen)) = reads.next().await {
            left.remove(&key);
            self.note(key, seen, Instant::now());
        }
        left.retain(|key| self.known.contains_key(key));
        for key in left {
            self.note(key, KindState::Unknown("reading it took too long".to_owned()), Instant::now());
        }
        self.known.iter().map(|(key, known)| (key.clone(), known.seen.clone())).collect()
    }

    /// Returns the time at which a failed read is to be tried again while the earlier result is believed.
    pub(crate) fn next_retry(&self) -> Option<Instant> {
        self.known.values().filter_map(|known| Some(known.failing?.last + RETRY)).min()
    }

    /// Stores a result. A failure replaces an earlier result once that is not believed any more.
    fn note(&mut self, key: KindKey, seen: KindState, now: Instant) {
        let has_failed = matches!(seen, KindState::Unknown(_));
        match self.known.get_mut(&key) {
            Some(before) if has_failed && before.is_believed(now) => {
                let since = before.failing.map_or(now, |failing| failing.since);
                before.failing = Some(Failing { since, last: now });
            }
            _ => drop(self.known.insert(key, Known { seen, at: now, failing: None })),
        }
    }
}

impl Known {
    fn is_due(&self, fresh: Duration, now: Instant) -> bool {
        let pause = if self.failing.is_some() { RETRY } else { fresh };
        now.saturating_duration_since(self.tried()) >= pause
    }

    fn is_believed(&self, now: Instant) -> bool {
        !matches!(self.seen, KindState::Unknown(_))
            && self.failing.is_none_or(|failing| now.saturating_duration_since(failing.since) < BELIEVED)
    }

    /// Returns the time of the last read.
    fn tried(&self) -> Instant {
        self.failing.map_or(self.at, |failing| failing.last)
    }
}

/// Reads a kind: from the APIResourceSchema of this name, or else from the API server that serves the kind. Without
/// `with_schema` the fields are left out; core kinds have many.
pub async fn read_kind(
    endpoint: &Endpoint,
    gvr: &GroupVersionResource,
    api_resource_schema: Option<&str>,
    with_schema: bool,
) -> KindState {
    let seen = match api_resource_schema {
        Some(name) => see_schema(endpoint, name, gvr).await,
        None => see_kind(endpoint, gvr, with_schema).await,
    };
    match seen {
        KindState::Facts(facts) if !with_schema => {
            KindState::Facts(Arc::new(KindFacts { schema: None, ..Arc::unwrap_or_clone(facts) }))
        }
        seen => seen,
    }
}

async fn see_schema(endpoint: &Endpoint, name: &str, gvr: &GroupVersionResource) -> KindState {
    // The author of an APIExport chooses this name.
    if !is_name(name) {
        return KindState::Unknown("its APIExport names no APIResourceSchema".to_owned());
    }
    let path = format!("/apis/apis.kcp.io/v1alpha1/apiresourceschemas/{name}");
    match endpoint.get_json(&path).await {
        Ok(object) => KindState::from_definition(&object, gvr.version.as_str()),
        Err(error) if error.is_not_found() => KindState::NotServed,
        Err(error) => KindState::Unknown(error.to_string()),
    }
}

/// Reads a kind of the cluster itself: from its CustomResourceDefinition, or else from what the API server publishes.
async fn see_kind(endpoint: &Endpoint, gvr: &GroupVersionResource, with_schema: bool) -> KindState {
    if !gvr.group.is_core() {
        let path = format!("/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{}", gvr.group_resource());
        match endpoint.get_json(&path).await {
            Ok(object) => return KindState::from_definition(&object, gvr.version.as_str()),
            // The kind is not custom, or there is no right to see its definition.
            Err(error) if matches!(error.status(), Some(403 | 404)) => {}
            Err(error) => return KindState::Unknown(error.to_string()),
        }
    }
    let group_version = if gvr.group.is_core() {
        format!("api/{}", gvr.version)
    } else {
        format!("apis/{}/{}", gvr.group, gvr.version)
    };
    let list = match endpoint.get_json(&format!("/{group_version}")).await {
        Ok(list) => list,
        Err(error) if error.is_not_found() => return KindState::NotServed,
        Err(error) => return KindState::Unknown(error.to_string()),
    };
    let Some(facts) = KindFacts::from_discovery(&list, gvr) else { return KindState::NotServed };
    if !with_schema {
        return KindState::Facts(Arc::new(facts));
    }
    // Without a published schema the paths are not checked, and the rule's status says so.
    match endpoint.get_json(&format!("/openapi/v3/{group_version}")).await {
        Ok(document) => KindState::Facts(Arc::new(facts.with_published(&document, gvr))),
        Err(_) => KindState::Facts(Arc::new(facts)),
    }
}

fn is_name(name: &str) -> bool {
    let part = |part: &str| {
        !part.is_empty() && part.bytes().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == b'-')
    };
    name.len() <= 253 && name.split('.').all(part)
}

#[cfg(test)]
mod tests {
    use depguard_core::Group;
    use depguard_core::model::{Resource, Version};

    use super::*;

    #[test]
    fn a_result_is_believed_for_a_minute_while_reads_fail() {
        let (version, resource) = (Version::parse("v1").unwrap(), Resource::parse("pods").unwrap());
        let gvr = GroupVersionResource { group: Group::CORE, version, resource };
        let key = KindKey { place: None, schema: None, gvr, with_schema: false };
        let begun = Instant::now();
        let after = |seconds| begun + Duration::from_secs(seconds);
        let failure = || KindState::Unknown("500".to_owned());
        let mut kinds = KindCache::new(Duration::from_secs(100));
        let is_due = |kinds: &KindCache, seconds| kinds.known[&key].is_due(kinds.fresh, after(seconds));
        kinds.note(key.clone(), KindState::NotServed, begun);
        assert!(!is_due(&kinds, 99) && is_due(&kinds, 100));
        assert_eq!(kinds.next_retry(), None);

        kinds.note(key.clone(), failure(), after(100));
        assert_eq!(kinds.known[&key].seen, KindState::NotServed);
        assert!(!is_due(&kinds, 109) && is_due(&kinds, 110));
        assert_eq!(kinds.next_retry(), Some(after(110)));
        kinds.note(key.clone(), failure(), after(159));
        assert_eq!(kinds.known[&key].seen, KindState::NotServed);

        kinds.note(key.clone(), failure(), after(160));
        assert_eq!(kinds.known[&key].seen, failure(), "it is too old to be believed");
        assert_eq!(kinds.next_retry(), None);
        assert!(!is_due(&kinds, 259) && is_due(&kinds, 260));
        kinds.note(key.clone(), KindState::NotServed, after(260));
        kinds.note(key.clone(), failure(), after(360));
        assert_eq!(kinds.known[&key].seen, KindState::NotServed, "a success begins a new minute");
    }

    #[test]
    fn only_a_name_goes_into_a_path() {
        assert!(is_name("v1.vpcs.network.example.com"));
        for bad in ["", "..", "a/b", "a?b", "a..b", "A", "a%2fb", &"a".repeat(254)] {
            assert!(!is_name(bad), "{bad}");
        }
    }
}

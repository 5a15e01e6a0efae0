//! Reader of kinds, at the API server that serves them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use depguard_core::GroupVersionResource;
use depguard_core::schema::{KindFacts, KindState};
use depguard_kcp::{Endpoint, long_freshness};
use serde_json::Value;
use tokio::time::Instant;

use crate::model::install_place::InstallPlace;
use crate::schema::answers::{Answers, Holds};

/// Kind, with the place where it can be read.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
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
/// Results of reading kinds, kept for a while.
pub(crate) struct KindCache {
    answers: Answers<KindKey, KindState>,
    fresh: Duration,
    /// Kinds of which one is not served, as somebody's list showed.
    unserved: BTreeSet<KindKey>,
}

impl KindCache {
    /// Makes an empty cache. A kind is read again each time that `fresh` has passed, and only after 20 to 30 minutes if it
    /// was read from an APIResourceSchema: kcp lets nobody change a schema's spec.
    pub(crate) fn new(fresh: Duration) -> Self {
        Self { answers: Answers::default(), fresh, unserved: BTreeSet::new() }
    }

    /// Reads the kinds that are due, each where it is served, and forgets the kinds that are not needed any more. While
    /// reads of a kind fail, its earlier result stays for a minute. `unserved` has kinds of which one is not served, as a list
    /// of its objects showed: a kind that joins or leaves them is due at once.
    pub(crate) async fn refresh(
        &mut self,
        needed: &BTreeMap<KindKey, Result<Endpoint, String>>,
        unserved: BTreeSet<KindKey>,
    ) -> Kinds {
        let fresh = self.fresh;
        self.answers.doubt(|key| unserved.contains(key) != self.unserved.contains(key));
        self.unserved = unserved;
        let holds = |key: &KindKey, _: &_, seen: &KindState| holds(key, seen, fresh);
        let ask = async |key: KindKey, endpoint: Result<Endpoint, String>| match read_kind(
            &endpoint?,
            &key.gvr,
            key.schema.as_deref(),
            key.with_schema,
        )
        .await
        {
            KindState::Unknown(why) => Err(why),
            seen => Ok(seen),
        };
        self.answers.refresh(needed, MAX_CONCURRENT_READS, holds, ask).await;
        let seen = self.answers.iter().map(|(key, seen)| {
            let seen = seen.map_or_else(|why| KindState::Unknown(why.to_owned()), KindState::clone);
            (key.clone(), seen)
        });
        seen.collect()
    }

    /// Returns the time at which a failed read is to be tried again.
    pub(crate) fn next_retry(&self) -> Option<Instant> {
        self.answers.next_due(self.fresh)
    }
}

fn holds(key: &KindKey, seen: &KindState, fresh: Duration) -> Holds {
    let is_fixed = key.schema.is_some() && matches!(seen, KindState::Facts(_));
    Holds::always(if is_fixed { long_freshness(key) } else { fresh })
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
    if with_schema { seen } else { seen.without_schema() }
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
    let mut is_seen = true;
    if !gvr.group.is_core() {
        let path = format!("/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{}", gvr.group_resource());
        match endpoint.get_json(&path).await {
            Ok(object) => return KindState::from_definition(&object, gvr.version.as_str()),
            // The kind is not custom, or there is no right to see its definition.
            Err(error) if matches!(error.status(), Some(403 | 404)) => is_seen = error.is_not_found(),
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
        Err(error) if error.is_not_found() => return unserved(endpoint, gvr.group.as_str()).await,
        Err(error) => return KindState::Unknown(error.to_string()),
    };
    let Some(facts) = KindFacts::from_discovery(&list, gvr) else { return KindState::NotServed };
    let facts = if is_seen { facts } else { facts.with_unseen_definition() };
    if !with_schema {
        return KindState::Facts(Arc::new(facts));
    }
    // Without a published schema the paths are not checked, and the rule's status says so.
    match endpoint.get_json(&format!("/openapi/v3/{group_version}")).await {
        Ok(document) => KindState::Facts(Arc::new(facts.with_published(&document, gvr))),
        Err(_) => KindState::Facts(Arc::new(facts)),
    }
}

/// Tells a kind that is not installed from one that is misspelt or served in other versions, by the groups that the API
/// server serves.
async fn unserved(endpoint: &Endpoint, group: &str) -> KindState {
    let Ok(list) = endpoint.get_json("/apis").await else { return KindState::NotServed };
    let Some(groups) = list.get("groups").and_then(Value::as_array) else { return KindState::NotServed };
    let mut names = groups.iter().filter_map(|group| group.get("name")?.as_str());
    if group.is_empty() || names.any(|served| is_within_a_slip(served, group)) {
        return KindState::NotServed;
    }
    KindState::NotInstalled
}

/// Returns true if two names are the same but for one letter, or for two letters that changed places.
fn is_within_a_slip(one: &str, other: &str) -> bool {
    strsim::osa_distance(one, other) <= 1
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
    use serde_json::json;

    use super::*;

    #[test]
    fn only_a_schema_that_was_found_is_kept_for_long() {
        let (version, resource) = (Version::parse("v1").unwrap(), Resource::parse("vpcs").unwrap());
        let gvr = GroupVersionResource { group: Group::parse("network.example.com").unwrap(), version, resource };
        let key = KindKey { place: None, schema: Some("v1.vpcs".to_owned()), gvr, with_schema: true };
        let minute = Duration::from_secs(60);
        let of = |seen: &KindState| holds(&key, seen, minute).last;
        let definition = json!({"spec": {"group": "network.example.com", "scope": "Cluster", "names": {"kind": "VPC"},
            "versions": [{"name": "v1", "served": true, "schema": {}}]}});
        let facts = Arc::new(KindFacts::from_definition(&definition, "v1").unwrap());
        assert_eq!(of(&KindState::Facts(facts.clone())), long_freshness(&key));
        assert_eq!(of(&KindState::NotServed), minute);
        // What a cluster serves itself, its owner may change.
        let own = KindKey { schema: None, ..key.clone() };
        assert_eq!(holds(&own, &KindState::Facts(facts), minute).last, minute);
    }

    #[test]
    fn a_name_that_differs_by_a_slip_is_probably_meant() {
        let written = "network.example.com";
        for near in
            [written, "networks.example.com", "network.exmple.com", "netwerk.example.com", "network.exampel.com"]
        {
            assert!(is_within_a_slip(near, written) && is_within_a_slip(written, near), "{near}");
        }
        for far in ["", "nutwerk.example.com", "network.example.org", "compute.example.com", "owrketn.example.com"] {
            assert!(!is_within_a_slip(far, written) && !is_within_a_slip(written, far), "{far}");
        }
    }

    #[test]
    fn only_a_name_goes_into_a_path() {
        assert!(is_name("v1.vpcs.network.example.com"));
        for bad in ["", "..", "a/b", "a?b", "a..b", "A", "a%2fb", &"a".repeat(254)] {
            assert!(!is_name(bad), "{bad}");
        }
    }
}

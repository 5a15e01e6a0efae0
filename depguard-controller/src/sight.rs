//! Reads what kinds are, at the API server that serves them.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use depguard_core::GroupVersionResource;
use depguard_kcp::Endpoint;
use futures::{StreamExt, stream};
use tokio::time::Instant;

use crate::checks::{KindKey, Kinds};
use crate::kinds::{KindFacts, Seen};

/// Kinds that are read at once: a published schema can take some megabytes.
const AT_ONCE: usize = 2;
/// How long that may take in one round. What is left is read in the next.
const PATIENCE: Duration = Duration::from_secs(20);

/// What was read of kinds, for a while.
pub(crate) struct Sight {
    kinds: Kinds,
    since: Instant,
    fresh: Duration,
}

impl Sight {
    /// Has read nothing yet, and will read all again each time that so long has passed.
    pub(crate) fn new(fresh: Duration) -> Self {
        Self { kinds: Kinds::new(), since: Instant::now(), fresh }
    }

    /// Reads the kinds that are not known yet, each where it is served, and forgets those that nobody asks for.
    pub(crate) async fn see(&mut self, mut wanted: BTreeMap<KindKey, Result<Endpoint, String>>) -> Kinds {
        self.kinds.retain(|key, _| wanted.contains_key(key));
        if self.since.elapsed() >= self.fresh {
            self.since = Instant::now();
        } else {
            wanted.retain(|key, _| !self.kinds.contains_key(key));
        }
        let seen = stream::iter(wanted).map(|(key, endpoint)| async move {
            let seen = match (endpoint, &key.schema) {
                (Err(why), _) => Seen::Unknown(why),
                (Ok(endpoint), schema) => look(&endpoint, &key.gvr, schema.as_deref(), key.with_schema).await,
            };
            (key, seen)
        });
        let mut seen = Box::pin(seen.buffer_unordered(AT_ONCE).take_until(tokio::time::sleep(PATIENCE)));
        while let Some((key, seen)) = seen.next().await {
            // What was seen a while ago is better than nothing.
            if !matches!(seen, Seen::Unknown(_)) || !self.kinds.contains_key(&key) {
                self.kinds.insert(key, seen);
            }
        }
        self.kinds.clone()
    }
}

/// Reads what a kind is: from the APIResourceSchema of that name, or else from the API server that serves it. Without
/// `with_schema` its fields are not read, which of core kinds are much.
pub async fn look(
    endpoint: &Endpoint,
    gvr: &GroupVersionResource,
    api_resource_schema: Option<&str>,
    with_schema: bool,
) -> Seen {
    let seen = match api_resource_schema {
        Some(name) => see_schema(endpoint, name, gvr).await,
        None => see_kind(endpoint, gvr, with_schema).await,
    };
    match seen {
        Seen::Facts(facts) if !with_schema => of(Some(KindFacts { schema: None, ..Arc::unwrap_or_clone(facts) })),
        seen => seen,
    }
}

async fn see_schema(endpoint: &Endpoint, name: &str, gvr: &GroupVersionResource) -> Seen {
    // Whoever writes an APIExport writes this name.
    if !is_name(name) {
        return Seen::Unknown("its APIExport names no APIResourceSchema".to_owned());
    }
    let path = format!("/apis/apis.kcp.io/v1alpha1/apiresourceschemas/{name}");
    match endpoint.get_json(&path).await {
        Ok(object) => of(KindFacts::of_definition(&object, gvr.version.as_str())),
        Err(error) if error.is_not_found() => Seen::NotServed,
        Err(error) => Seen::Unknown(error.to_string()),
    }
}

/// A kind of the cluster itself: by its CustomResourceDefinition, else by what the API server publishes.
async fn see_kind(endpoint: &Endpoint, gvr: &GroupVersionResource, with_schema: bool) -> Seen {
    if !gvr.group.is_core() {
        let path = format!("/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{}", gvr.group_resource());
        match endpoint.get_json(&path).await {
            Ok(object) => return of(KindFacts::of_definition(&object, gvr.version.as_str())),
            // A kind that is not custom, or no right to see whether it is.
            Err(error) if matches!(error.status(), Some(403 | 404)) => {}
            Err(error) => return Seen::Unknown(error.to_string()),
        }
    }
    let group_version = if gvr.group.is_core() {
        format!("api/{}", gvr.version)
    } else {
        format!("apis/{}/{}", gvr.group, gvr.version)
    };
    let list = match endpoint.get_json(&format!("/{group_version}")).await {
        Ok(list) => list,
        Err(error) if error.is_not_found() => return Seen::NotServed,
        Err(error) => return Seen::Unknown(error.to_string()),
    };
    let Some(facts) = KindFacts::of_discovery(&list, gvr) else { return Seen::NotServed };
    if !with_schema {
        return of(Some(facts));
    }
    // Without it the paths are not checked, and the rule says so.
    match endpoint.get_json(&format!("/openapi/v3/{group_version}")).await {
        Ok(document) => of(Some(facts.with_published(&document, gvr))),
        Err(_) => of(Some(facts)),
    }
}

fn of(facts: Option<KindFacts>) -> Seen {
    match facts {
        Some(facts) => Seen::Facts(Arc::new(facts)),
        None => Seen::Unknown("its definition can't be read".to_owned()),
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
    use super::*;

    #[test]
    fn only_a_name_goes_into_a_path() {
        assert!(is_name("v1.vpcs.network.example.com"));
        for bad in ["", "..", "a/b", "a?b", "a..b", "A", "a%2fb", &"a".repeat(254)] {
            assert!(!is_name(bad), "{bad}");
        }
    }
}

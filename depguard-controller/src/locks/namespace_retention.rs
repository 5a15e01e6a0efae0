//! Namespaces that stay under review for a while after their last lock, so that the next lock there holds from its
//! creation on. A controller that starts anew forgets these namespaces.

use std::collections::BTreeMap;
use std::time::Duration;

use tokio::time::Instant;

use crate::locks::plan::Plan;
use crate::locks::webhooks::{ReviewedResources, Within};
use crate::model::install_place::InstallPlace;

/// Time that a namespace stays under review after its last lock.
const STAY: Duration = Duration::from_secs(600);

/// Maximum number of parts that are remembered, each for one resource in one namespace.
const MAX_REMEMBERED: usize = 1_000;

/// Parts of configurations that locks in named namespaces asked for lately, each with the time at which a plan last
/// held the part.
#[derive(Debug, Default)]
pub(super) struct NamespaceRetention(BTreeMap<(InstallPlace, Within), (ReviewedResources, Instant)>);

impl NamespaceRetention {
    /// Adds to a plan the namespaces whose last lock went less than ten minutes ago. Returns the time until the first
    /// of them leaves; `None` if there is none.
    pub(super) fn keep_in(&mut self, plan: &mut Plan, now: Instant) -> Option<Duration> {
        for (place, guarded) in &plan.places {
            for (within, part) in guarded.by_namespace() {
                let key = (place.clone(), within);
                if self.0.len() < MAX_REMEMBERED || self.0.contains_key(&key) {
                    self.0.insert(key, (part, now));
                }
            }
        }
        self.0.retain(|_, (_, last)| now.saturating_duration_since(*last) < STAY);
        let mut leaves = None::<Duration>;
        for ((place, _), (part, last)) in self.0.iter().filter(|(_, (_, last))| *last != now) {
            plan.places.entry(place.clone()).or_default().add(part);
            let left = STAY.saturating_sub(now.saturating_duration_since(*last));
            leaves = Some(leaves.map_or(left, |leaves| leaves.min(left)));
        }
        leaves
    }
}

#[cfg(test)]
mod tests {
    use depguard_core::ControlPlane;
    use depguard_core::locks::{Lock, LockKind};
    use serde_json::{Value, json};

    use super::*;

    fn plan(locks: &[(&str, &str)]) -> Plan {
        let mut plan = Plan::default();
        for (namespace, resource) in locks {
            let targets = json!({"targets": [{"resource": resource, "name": "a"}]});
            let object = json!({"metadata": {"name": "a", "namespace": namespace}, "spec": targets});
            let lock = Lock::parse(LockKind::ObjectLock, &object).unwrap();
            let guarded = plan.places.entry(None).or_default();
            lock.targets().iter().for_each(|target| guarded.insert(ControlPlane::Kubernetes, &lock, target));
        }
        plan
    }

    fn configured(plan: &Plan) -> Option<Value> {
        plan.places.get(&None).map(|guarded| guarded.configuration(&json!({}), Some("own")))
    }

    #[test]
    fn a_namespace_stays_for_ten_minutes_after_its_last_lock() {
        let begun = Instant::now();
        let after = |minutes: u64| begun + Duration::from_secs(60 * minutes);
        let mut namespace_retention = NamespaceRetention::default();
        let mut looked_at = |locks: &[(&str, &str)], minutes| {
            let mut plan = plan(locks);
            let leaves = namespace_retention.keep_in(&mut plan, after(minutes));
            (configured(&plan), leaves)
        };
        let events = |namespaces: &[&str]| {
            let locks: Vec<_> = namespaces.iter().map(|namespace| (*namespace, "events")).collect();
            configured(&plan(&locks))
        };
        let minutes = |minutes: u64| Some(Duration::from_secs(60 * minutes));
        assert_eq!(looked_at(&[("a", "events"), ("b", "events")], 0), (events(&["a", "b"]), None));
        assert_eq!(looked_at(&[("a", "events")], 4), (events(&["a", "b"]), minutes(6)));
        assert_eq!(looked_at(&[], 9), (events(&["a", "b"]), minutes(1)), "the last one is remembered, too");
        assert_eq!(looked_at(&[], 10), (events(&["a"]), minutes(4)));
        assert_eq!(looked_at(&[("b", "events")], 12), (events(&["a", "b"]), minutes(2)), "locked anew");
        assert_eq!(looked_at(&[], 15), (events(&["b"]), minutes(7)));
        assert_eq!(looked_at(&[], 22), (None, None));
    }

    #[test]
    fn what_is_reviewed_in_all_namespaces_leaves_with_its_last_lock() {
        let mut namespace_retention = NamespaceRetention::default();
        let begun = Instant::now();
        namespace_retention.keep_in(&mut plan(&[("a", "secrets")]), begun);
        let mut empty = Plan::default();
        assert_eq!(namespace_retention.keep_in(&mut empty, begun + Duration::from_secs(60)), None);
        assert_eq!(empty, Plan::default());
    }

    #[test]
    fn nothing_that_stays_widens_a_selector_to_all_namespaces() {
        let names = |from: usize, to: usize| (from..to).map(|number| format!("n{number}")).collect::<Vec<_>>();
        let of = |names: &[String]| {
            let locks: Vec<_> = names.iter().map(|name| (name.as_str(), "events")).collect();
            plan(&locks)
        };
        let mut namespace_retention = NamespaceRetention::default();
        let begun = Instant::now();
        namespace_retention.keep_in(&mut of(&names(0, 300)), begun);
        let mut later = of(&names(300, 600));
        namespace_retention.keep_in(&mut later, begun + Duration::from_secs(60));
        let configuration = configured(&later).unwrap();
        let selected = configuration["webhooks"][0]["namespaceSelector"]["matchExpressions"][1]["values"].clone();
        assert_eq!(selected.as_array().map(Vec::len), Some(500));
    }
}

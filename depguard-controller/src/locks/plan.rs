//! What is to be installed for locks, and where: pure.

use std::collections::{BTreeMap, BTreeSet};

use depguard_core::locks::{Lock, LockKind, LockTarget, Moment};
use depguard_core::{GroupResource, Home, LogicalCluster, Namespace};
use serde_json::Value;

use super::VitalKind;
use super::kinds::Kinds;
use super::webhooks::Guarded;
use crate::plan::Place;

/// For how long what an ended lock asks for stays installed: the webhook's clock may be behind.
const CLOCKS: u64 = 60_000;

/// A lock, wherever it is.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct LockKey {
    pub(super) cluster: Option<LogicalCluster>,
    pub(super) kind: LockKind,
    /// Behind its namespace and a slash, where it has one.
    pub(super) name: String,
}

/// A lock as it was seen.
#[derive(Debug)]
pub(super) struct Seen<'v> {
    pub(super) key: LockKey,
    pub(super) object: &'v Value,
    pub(super) origin: &'v str,
    pub(super) lock: Lock,
}

/// Everything that a plan is made from.
#[derive(Debug)]
pub(super) struct World<'v> {
    pub(super) home: Home,
    pub(super) now: Moment,
    /// depguard's own namespace, in home kubernetes: nothing there is locked.
    pub(super) own_namespace: Option<&'v str>,
    /// The vital kinds that may be locked.
    pub(super) vital: &'v BTreeSet<VitalKind>,
    pub(super) locks: Vec<Seen<'v>>,
    pub(super) kinds: &'v Kinds,
}

/// What is to be done.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Plan {
    /// What is to be reviewed, by where it is told to the API server.
    pub(super) places: BTreeMap<Place, Guarded>,
    /// It can't be told of each kind where that is: what is installed may be more than what `places` says.
    pub(super) is_partial: bool,
}

impl World<'_> {
    /// What a lock is about, as far as it can lock it: the kinds, and what of each.
    pub(super) fn targets<'s>(&'s self, seen: &'s Seen<'_>) -> impl Iterator<Item = &'s LockTarget> {
        targets(seen, self.own_namespace)
    }

    /// A kcp does not say of a Scale in which logical cluster it is, so a review of one could only be refused, and with it
    /// every consumer's scaling. The same holds for other subresources.
    pub(super) fn is_out_of_reach(&self, target: &LockTarget) -> bool {
        self.home == Home::Kcp && target.subresource_without_cluster().is_some()
    }

    /// What a lock names that is vital, and is not to be locked.
    pub(super) fn withheld(&self, target: &LockTarget) -> Option<VitalKind> {
        VitalKind::of(target).filter(|kind| !self.vital.contains(kind))
    }

    /// Whether a lock still counts for what is installed.
    pub(super) fn counts(&self, lock: &Lock) -> bool {
        lock.expires().is_none_or(|expires| self.now < expires.after(CLOCKS))
    }

    /// Where API servers look up who reviews a kind that a lock names.
    pub(super) fn place(&self, key: &LockKey, kind: &GroupResource) -> Result<Place, &str> {
        match &key.cluster {
            Some(cluster) if self.home == Home::Kcp => self.kinds.place(cluster, kind).map(Some),
            _ => Ok(None),
        }
    }
}

/// The kinds that are named, each with where its lock is: what must be known of the API servers.
pub(super) fn named(
    locks: &[Seen<'_>],
    own_namespace: Option<&str>,
) -> BTreeSet<(Option<LogicalCluster>, GroupResource)> {
    let of = |seen: &Seen<'_>| {
        let kinds = targets(seen, own_namespace).map(|target| (seen.key.cluster.clone(), target.kind.clone()));
        kinds.collect::<Vec<_>>()
    };
    locks.iter().flat_map(of).collect()
}

/// What of a lock is not in depguard's own namespace.
fn targets<'s>(seen: &'s Seen<'_>, own_namespace: Option<&str>) -> impl Iterator<Item = &'s LockTarget> {
    let is_own = move |target: &LockTarget| {
        own_namespace.is_some() && target.namespace.as_ref().map(Namespace::as_str) == own_namespace
    };
    seen.lock.targets().iter().filter(move |target| !is_own(target))
}

/// Plans.
pub(super) fn plan(world: &World<'_>) -> Plan {
    let mut plan = Plan::default();
    for seen in world.locks.iter().filter(|seen| world.counts(&seen.lock)) {
        let within_reach = world.targets(seen).filter(|target| !world.is_out_of_reach(target));
        for target in within_reach.filter(|target| world.withheld(target).is_none()) {
            match world.place(&seen.key, &target.kind) {
                Ok(place) => plan.places.entry(place).or_default().insert(world.home, &seen.lock, target),
                Err(_) => plan.is_partial = true,
            }
        }
    }
    plan
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::locks::status::{self, Found};
    use crate::testing::{cluster, kind};

    fn seen<'v>(cluster: Option<&str>, object: &'v Value) -> Seen<'v> {
        let lock = Lock::parse(LockKind::ObjectLock, object).unwrap();
        let cluster = cluster.map(crate::testing::cluster);
        let key = LockKey { cluster, kind: LockKind::ObjectLock, name: format!("default/{}", lock.name()) };
        Seen { key, object, origin: "", lock }
    }

    fn lock(namespace: &str, resource: &str, more: &Value) -> Value {
        let mut spec = json!({"targets": [{"group": "example.com", "resource": resource, "name": "a"}]});
        let fields = spec.as_object_mut().unwrap();
        fields.extend(more.as_object().unwrap().clone());
        json!({"metadata": {"name": "l", "namespace": namespace}, "spec": spec})
    }

    fn planned<'v>(home: Home, kinds: &'v Kinds, locks: Vec<Seen<'v>>) -> Plan {
        let now = Moment::parse("2026-01-01T00:01:00Z").unwrap();
        let (own_namespace, vital) = ((home == Home::Kubernetes).then_some("own"), &BTreeSet::new());
        plan(&World { home, now, own_namespace, vital, locks, kinds })
    }

    #[test]
    fn what_is_vital_is_not_reviewed_unless_it_is_listed() {
        let (kinds, now) = (Kinds::default(), Moment::parse("2026-01-01T00:01:00Z").unwrap());
        let object = lock("default", "as/status", &json!({}));
        for listed in [false, true] {
            let vital: BTreeSet<_> = listed.then(|| "as/status.example.com".parse().unwrap()).into_iter().collect();
            let locks = vec![seen(None, &object)];
            let world = World { home: Home::Kubernetes, now, own_namespace: None, vital: &vital, locks, kinds: &kinds };
            assert_eq!(plan(&world).places.contains_key(&None), listed);
            let status = status::status(&world, &world.locks[0], &Found::default(), "2026-01-01T00:01:00Z");
            let withheld = "as/status.example.com is not locked: a cluster's own controllers can't do without it";
            assert_eq!(status.to_string().contains(withheld), !listed, "{status}");
        }
    }

    #[test]
    fn what_has_ended_a_while_ago_and_what_is_depguards_own_asks_for_nothing() {
        let kinds = Kinds::default();
        for (object, counts) in [
            (lock("default", "as", &json!({})), true),
            (lock("own", "as", &json!({})), false),
            (lock("default", "as", &json!({"expiresAt": "2026-01-01T00:00:01Z"})), true),
            (lock("default", "as", &json!({"expiresAt": "2025-12-31T23:59:59Z"})), false),
        ] {
            let plan = planned(Home::Kubernetes, &kinds, vec![seen(None, &object)]);
            assert_eq!(plan.places.contains_key(&None), counts, "{object}");
        }
    }

    #[test]
    fn a_bound_kind_is_told_of_where_its_export_is_and_a_local_one_where_the_lock_is() {
        let kinds = Kinds::of("c1", &[("bs.example.com", "e1")]);
        let [local, bound, scale] = ["as", "bs", "bs/scale"].map(|resource| lock("default", resource, &json!({})));
        let all = [&local, &bound, &scale].map(|object| seen(Some("c1"), object)).into();
        let plan = planned(Home::Kcp, &kinds, all);
        let places: Vec<_> = plan.places.keys().cloned().collect();
        assert_eq!(places, [Some(cluster("c1")), Some(cluster("e1"))]);
        let told = plan.places[&Some(cluster("e1"))].configuration(&json!({}), None);
        assert_eq!(told["webhooks"][0]["rules"].as_array().unwrap().len(), 1, "{told}");
        assert!(!plan.is_partial);
        // It is not known what another workspace has bound: then nothing is taken away.
        let plan = planned(Home::Kcp, &kinds, vec![seen(Some("c2"), &local)]);
        assert!(plan.is_partial && plan.places.is_empty());
        assert_eq!(kinds.serves(&Some(cluster("c2")), &kind("as.example.com"), None), Err("it has not been asked yet"));
    }
}

//! Plan of the configurations for locks, and of their places: pure.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

use depguard_core::locks::{Lock, LockKind, LockTarget, Timestamp};
use depguard_core::model::{GroupResource, Namespace};
use depguard_core::{ControlPlane, LogicalCluster};
use depguard_kcp::ObjectText;

use crate::locks::lock_kinds::{Kinds, NamedKinds};
use crate::locks::status::PROGRAMMED;
use crate::locks::webhooks::ReviewedResources;
use crate::model::condition::was_true;
use crate::model::install_place::InstallPlace;
use crate::model::vital_kind::VitalKind;

/// Milliseconds for which the request of an ended lock stays installed: the webhook's clock may be behind.
const CLOCKS: u64 = 60_000;

/// Identity of a lock, wherever the lock is.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct LockKey {
    pub(super) cluster: Option<LogicalCluster>,
    pub(super) kind: LockKind,
    /// Name of the lock, behind its namespace and a slash if the lock has a namespace.
    pub(super) name: String,
}

/// Lock as the reflector shows it.
#[derive(Debug)]
pub(super) struct LockSnapshot<'v> {
    pub(super) key: LockKey,
    pub(super) text: Cow<'v, ObjectText>,
    pub(super) origin: &'v str,
    pub(super) lock: Lock,
    /// True if the stored status says that the lock, in its present generation, is programmed.
    pub(super) is_programmed: bool,
}

impl<'v> LockSnapshot<'v> {
    pub(super) fn read(key: LockKey, text: Cow<'v, ObjectText>, origin: &'v str) -> Self {
        let object = text.read();
        let lock = Lock::read(key.kind, &object);
        Self { is_programmed: was_true(&object, PROGRAMMED), key, text, origin, lock }
    }
}

/// Facts from which a plan is made.
#[derive(Debug)]
pub(super) struct PlanInput<'v> {
    pub(super) control_plane: ControlPlane,
    pub(super) now: Timestamp,
    /// depguard's own namespace, in plain Kubernetes: nothing in it is locked.
    pub(super) own_namespace: Option<&'v str>,
    /// Vital kinds that may be locked.
    pub(super) vital: &'v BTreeSet<VitalKind>,
    pub(super) locks: Vec<LockSnapshot<'v>>,
    pub(super) kinds: &'v Kinds,
}

/// Configurations to install.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Plan {
    /// Resources to review, by the place in which their configuration is installed.
    pub(super) places: BTreeMap<InstallPlace, ReviewedResources>,
    /// True if the place of some kind is unknown: an installed configuration may cover more than `places` says.
    pub(super) is_partial: bool,
}

impl PlanInput<'_> {
    /// Returns the targets that a lock can lock: all but those in depguard's own namespace.
    pub(super) fn targets<'s>(&'s self, seen: &'s LockSnapshot<'_>) -> impl Iterator<Item = &'s LockTarget> {
        targets(seen, self.own_namespace)
    }

    /// Returns true if a kcp can't review the target. A kcp does not say in which logical cluster a Scale is, so the
    /// webhook could only refuse the review, and with it every consumer's scaling. The same holds for other
    /// subresources.
    pub(super) fn is_out_of_reach(&self, target: &LockTarget) -> bool {
        self.control_plane == ControlPlane::Kcp && target.subresource_without_cluster().is_some()
    }

    /// Returns the vital kind of a lock's target that no operator has listed: such a target is not locked.
    pub(super) fn withheld(&self, target: &LockTarget) -> Option<VitalKind> {
        VitalKind::from_target(target).filter(|kind| !self.vital.contains(kind))
    }

    /// Returns true if a lock still counts for the installed configurations.
    pub(super) fn counts(&self, lock: &Lock) -> bool {
        lock.expires().is_none_or(|expires| self.now < expires.after(CLOCKS))
    }

    /// Returns the place in which API servers look up the webhooks of a kind that a lock names.
    pub(super) fn place(&self, key: &LockKey, kind: &GroupResource) -> Result<InstallPlace, &str> {
        match &key.cluster {
            Some(cluster) if self.control_plane == ControlPlane::Kcp => self.kinds.place(cluster, kind).map(Some),
            _ => Ok(None),
        }
    }
}

/// Returns the kinds that locks name: the API servers are asked about these.
pub(super) fn named(locks: &[LockSnapshot<'_>], own_namespace: Option<&str>) -> NamedKinds {
    let mut named = NamedKinds::new();
    for seen in locks {
        for target in targets(seen, own_namespace) {
            let kind = (target.kind.clone(), target.subresource.as_deref().map(str::to_owned));
            let key = (seen.key.cluster.clone(), target.kind.group.clone());
            named.entry(key).or_default().insert(kind);
        }
    }
    named
}

/// Returns the targets of a lock that are not in depguard's own namespace.
fn targets<'s>(seen: &'s LockSnapshot<'_>, own_namespace: Option<&str>) -> impl Iterator<Item = &'s LockTarget> {
    let is_own = move |target: &LockTarget| {
        own_namespace.is_some() && target.namespace.as_ref().map(Namespace::as_str) == own_namespace
    };
    seen.lock.targets().iter().filter(move |target| !is_own(target))
}

/// Makes the plan.
pub(super) fn plan(input: &PlanInput<'_>) -> Plan {
    let mut plan = Plan::default();
    for seen in input.locks.iter().filter(|seen| input.counts(&seen.lock)) {
        let within_reach = input.targets(seen).filter(|target| !input.is_out_of_reach(target));
        for target in within_reach.filter(|target| input.withheld(target).is_none()) {
            match input.place(&seen.key, &target.kind) {
                Ok(place) => plan.places.entry(place).or_default().insert(input.control_plane, &seen.lock, target),
                Err(_) => plan.is_partial = true,
            }
        }
    }
    plan
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::locks::status::{self, RoundOutcomes};
    use crate::testing::{cluster, kind};

    fn seen(cluster: Option<&str>, object: &Value) -> LockSnapshot<'static> {
        let cluster = cluster.map(crate::testing::cluster);
        let key = LockKey { cluster, kind: LockKind::ObjectLock, name: "default/l".to_owned() };
        LockSnapshot::read(key, Cow::Owned(ObjectText::new(object)), "")
    }

    fn lock(namespace: &str, resource: &str, more: &Value) -> Value {
        let mut spec = json!({"targets": [{"group": "example.com", "resource": resource, "name": "a"}]});
        let fields = spec.as_object_mut().unwrap();
        fields.extend(more.as_object().unwrap().clone());
        json!({"metadata": {"name": "l", "namespace": namespace}, "spec": spec})
    }

    fn planned<'v>(control_plane: ControlPlane, kinds: &'v Kinds, locks: Vec<LockSnapshot<'v>>) -> Plan {
        let now = Timestamp::parse("2026-01-01T00:01:00Z").unwrap();
        let (own_namespace, vital) = ((control_plane == ControlPlane::Kubernetes).then_some("own"), &BTreeSet::new());
        plan(&PlanInput { control_plane, now, own_namespace, vital, locks, kinds })
    }

    #[test]
    fn what_is_vital_is_not_reviewed_unless_it_is_listed() {
        let (kinds, now) = (Kinds::default(), Timestamp::parse("2026-01-01T00:01:00Z").unwrap());
        let object = lock("default", "as/status", &json!({}));
        for listed in [false, true] {
            let vital: BTreeSet<_> = listed.then(|| "as/status.example.com".parse().unwrap()).into_iter().collect();
            let locks = vec![seen(None, &object)];
            let input = PlanInput {
                control_plane: ControlPlane::Kubernetes,
                now,
                own_namespace: None,
                vital: &vital,
                locks,
                kinds: &kinds,
            };
            assert_eq!(plan(&input).places.contains_key(&None), listed);
            let found = RoundOutcomes::default();
            let status = status::status(&input, &input.locks[0], &object, &found, "2026-01-01T00:01:00Z");
            let withheld = "as/status.example.com is not locked: the cluster's own controllers write it";
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
            let plan = planned(ControlPlane::Kubernetes, &kinds, vec![seen(None, &object)]);
            assert_eq!(plan.places.contains_key(&None), counts, "{object}");
        }
    }

    #[test]
    fn a_bound_kind_is_told_of_where_its_export_is_and_a_local_one_where_the_lock_is() {
        let kinds = Kinds::new("c1", &[("as.example.com", None), ("bs.example.com", Some("e1"))]);
        let [local, bound, scale] = ["as", "bs", "bs/scale"].map(|resource| lock("default", resource, &json!({})));
        let all = [&local, &bound, &scale].map(|object| seen(Some("c1"), object)).into();
        let plan = planned(ControlPlane::Kcp, &kinds, all);
        let places: Vec<_> = plan.places.keys().cloned().collect();
        assert_eq!(places, [Some(cluster("c1")), Some(cluster("e1"))]);
        let told = plan.places[&Some(cluster("e1"))].configuration(&json!({}), None);
        assert_eq!(told["webhooks"][0]["rules"].as_array().unwrap().len(), 1, "{told}");
        assert!(!plan.is_partial);
        // The bindings of workspace c2 are unknown: the plan is partial, and nothing is taken away.
        let plan = planned(ControlPlane::Kcp, &kinds, vec![seen(Some("c2"), &local)]);
        assert!(plan.is_partial && plan.places.is_empty());
        assert_eq!(
            kinds.serves(&Some(cluster("c2")), &kind("as.example.com"), None),
            Err("the API server has not been asked yet")
        );
    }

    /// Covers a tenant who names a kind whose API server is away, in a plain cluster: all ask the same API server.
    #[test]
    fn each_group_is_asked_about_by_itself() {
        let of_core =
            json!({"targets": [{"resource": "configmaps", "name": "a"}, {"resource": "secrets", "name": "a"}]});
        let objects =
            [lock("a", "as", &json!({})), json!({"metadata": {"name": "l", "namespace": "b"}, "spec": of_core})];
        let named = named(&objects.each_ref().map(|object| seen(None, object)), None);
        let groups: Vec<_> = named.iter().map(|((_, group), kinds)| (group.to_string(), kinds.len())).collect();
        assert_eq!(groups, [(String::new(), 2), ("example.com".to_owned(), 1)]);
    }
}

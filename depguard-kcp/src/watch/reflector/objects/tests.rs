use depguard_core::ControlPlane;
use depguard_core::api::OnMissing;
use depguard_core::rule::PartialRule;
use proptest::prelude::*;
use serde_json::json;

use super::*;

fn key(cluster: &str, name: &str) -> ObjectKey {
    (Some(LogicalCluster::parse(cluster).unwrap()), name.to_owned())
}

fn mk_rule(cluster: &str, name: &str, targets: &[&str]) -> Arc<Value> {
    let dependency = |resource: &&str| {
        json!({
            "apiExportRef": {"path": "root:network", "name": "network.example.com"},
            "group": "network.example.com", "version": "v1", "resource": resource, "onDelete": "Warn",
            "fieldRef": {"path": ".spec.vpcRef.name", "pattern": "x".repeat(500)},
        })
    };
    Arc::new(json!({
        "apiVersion": "dependencies.opendefense.cloud/v1alpha1", "kind": "DependencyRule",
        "metadata": {"name": name, "uid": name, "generation": 7, "annotations": {"kcp.io/cluster": cluster}},
        "spec": {
            "failurePolicy": "Ignore",
            "dependent": {
                "apiExportName": "compute.example.com", "group": "compute.example.com", "version": "v1", "kind": "VM",
                "resource": "vms", "selector": {"matchLabels": {"a": "b"}},
            },
            "dependencies": targets.iter().map(dependency).collect::<Vec<_>>(),
        },
        "status": {"conditions": [{"message": "m".repeat(4000)}]},
    }))
}

fn shortened_ones(objects: &Objects) -> Vec<&str> {
    objects.iter().filter(|(_, object)| object.shortened).map(|((_, name), _)| name.as_str()).collect()
}

#[test]
fn a_workspace_with_more_objects_than_allowed_is_shortened_and_no_other_is() {
    let mut objects = Objects::new(Allowance { objects: 3, memory: 1 << 20 });
    objects.insert(key("a", "honest"), mk_rule("a", "honest", &["vpcs"]));
    for name in ["1", "2", "3"] {
        objects.insert(key("b", name), mk_rule("b", name, &["vpcs"]));
        objects.insert(key("b", name), mk_rule("b", name, &["vpcs", "subnets"]));
    }
    assert_eq!(shortened_ones(&objects), [""; 0], "written again it counts once");
    objects.insert(key("b", "4"), mk_rule("b", "4", &["vpcs"]));
    assert_eq!(shortened_ones(&objects), ["1", "2", "3", "4"]);
    objects.remove(&key("b", "1"));
    assert_eq!(shortened_ones(&objects), ["2", "3", "4"], "until they are listed anew");
}

#[test]
fn what_is_left_of_a_rule_names_the_same_kinds() {
    let mut whole = Value::clone(&mk_rule("b", "1", &["vpcs", "subnets", "vpcs"]));
    whole["spec"]["dependencies"][1]["onMissing"] = json!("Warn");
    let whole = Arc::new(whole);
    let mut objects = Objects::new(Allowance { objects: 0, memory: 1 << 20 });
    objects.insert(key("b", "1"), Arc::clone(&whole));
    let (_, short) = objects.iter().next().unwrap();
    assert!(weigh(&short.text.read()) < weigh(&whole));
    let (before, after) = (
        PartialRule::read(ControlPlane::Kcp, &whole).unwrap(),
        PartialRule::read(ControlPlane::Kcp, &short.text.read()).unwrap(),
    );
    assert_eq!(
        (&after.key, &after.dependent, after.failure_policy, after.on_missing),
        (&before.key, &before.dependent, before.failure_policy, OnMissing::Warn)
    );
    assert_eq!(after.dependent_export, before.dependent_export);
    assert_eq!((&after.targets[..], &after.on_delete[..]), (&before.targets[..2], &before.on_delete[..2]));
    assert_eq!(short.text.read()["metadata"]["generation"], 7);
}

#[test]
fn what_is_left_of_a_lock_holds_as_before() {
    use depguard_core::locks::{Lock, LockKind};
    let lock = Arc::new(json!({
        "metadata": {"name": "l", "namespace": "a", "labels": {"a": "b"}},
        "spec": {
            "targets": [{"resource": "configmaps", "name": "c"}], "operations": ["Delete"], "reason": "r".repeat(300),
            "holder": {"users": ["alice"]}, "duringTeardown": "Hold",
        },
        "status": {"conditions": [{"type": "Accepted"}, {"type": "Programmed"}]},
    }));
    let mut objects = Objects::new(Allowance { objects: 0, memory: 1 << 20 });
    objects.insert((None, "a/l".to_owned()), Arc::clone(&lock));
    let (_, short) = objects.iter().next().unwrap();
    let mut without_reason = (*lock).clone();
    without_reason["spec"].as_object_mut().unwrap().remove("reason");
    assert_eq!(Lock::read(LockKind::ObjectLock, &short.text.read()), Lock::read(LockKind::ObjectLock, &without_reason));
    assert_eq!(short.text.read()["status"], lock["status"]);
}

#[test]
fn what_is_not_even_held_shortened_is_remembered_by_what_it_is_about() {
    let allowance = Allowance { objects: 10, memory: 64 << 10 };
    let mut objects = Objects::new(allowance);
    let stored = |objects: &Objects| {
        let further: usize = objects.further().map(|about| weigh(about)).sum();
        further + objects.iter().map(|(_, object)| weigh(&object.text.read())).sum::<usize>()
    };
    for number in 0..500 {
        let name = format!("r{number}");
        objects.insert(key("b", &name), mk_rule("b", &name, &["vpcs", ["subnets", "routers"][number / 499]]));
    }
    assert!(stored(&objects) < allowance.memory * 2 && objects.iter().count() > 5);
    assert_eq!(objects.overflown().count(), 0);
    let named = |objects: &Objects, target: &str| {
        objects.further().any(|about| {
            let partial = PartialRule::read(ControlPlane::Kcp, about).unwrap();
            partial.targets.iter().any(|(_, kind)| kind.resource.as_str() == target)
                && partial.key.cluster == key("b", "").0
        })
    };
    assert!(named(&objects, "subnets") && named(&objects, "routers"));

    // Only a tenant that names more kinds than any real cluster has is not recorded completely.
    for number in 0..500 {
        let name = format!("s{number}");
        objects.insert(key("b", &name), mk_rule("b", &name, &[&format!("kind{number}")]));
    }
    assert!(stored(&objects) < allowance.memory * 2);
    assert_eq!(objects.overflown().collect::<Vec<_>>(), [&Tenant::Workspace(LogicalCluster::parse("b").unwrap())]);
}

#[test]
fn in_a_plain_cluster_each_namespace_has_an_allowance() {
    let mut objects = Objects::new(Allowance { objects: 2, memory: 1 << 20 });
    for name in ["a", "b/1", "b/2", "b/3", "b-c/1", "c"] {
        objects.insert((None, name.to_owned()), mk_rule("", name, &[]));
    }
    assert_eq!(shortened_ones(&objects), ["b/1", "b/2", "b/3"]);
    objects.insert((None, "d".to_owned()), mk_rule("", "d", &[]));
    assert_eq!(shortened_ones(&objects), ["a", "b/1", "b/2", "b/3", "c", "d"]);
}

#[derive(Debug, Clone)]
enum Event {
    Insert(usize, usize, usize),
    Remove(usize, usize),
}

fn an_event() -> impl Strategy<Value = Event> {
    let (cluster, name) = (0..3usize, 0..6usize);
    prop_oneof![
        (cluster.clone(), name.clone(), 0..5usize).prop_map(|(c, n, size)| Event::Insert(c, n, size)),
        (cluster, name).prop_map(|(c, n)| Event::Remove(c, n)),
    ]
}

proptest! {
    /// Applies events in any order: a tenant that never exceeded the allowance is stored in full, and the totals are
    /// right.
    #[test]
    fn the_sums_are_those_of_what_is_there(events in prop::collection::vec(an_event(), 0..80)) {
        let allowance = Allowance { objects: 4, memory: 50 << 10 };
        let mut objects = Objects::new(allowance);
        let mut naive: BTreeMap<ObjectKey, Arc<Value>> = BTreeMap::new();
        let mut over = std::collections::BTreeSet::new();
        for event in events {
            match event {
                Event::Insert(cluster, name, size) => {
                    let key = key(["a", "b", "c"][cluster], &name.to_string());
                    let rule = mk_rule(["a", "b", "c"][cluster], &name.to_string(), &vec!["vpcs"; size * 3]);
                    // A tenant that writes its only object anew starts within its allowance again.
                    naive.remove(&key);
                    if !naive.keys().any(|(of, _)| *of == key.0) {
                        over.remove(&key.0);
                    }
                    naive.insert(key.clone(), Arc::clone(&rule));
                    objects.insert(key.clone(), rule);
                    let theirs = naive.iter().filter(|((of, _), _)| *of == key.0);
                    let theirs: Vec<_> = theirs.map(|(_, value)| weigh(value) - weigh(&value["status"])).collect();
                    if theirs.len() > allowance.objects || theirs.iter().sum::<usize>() > allowance.memory {
                        over.insert(key.0);
                    }
                }
                Event::Remove(cluster, name) => {
                    let key = key(["a", "b", "c"][cluster], &name.to_string());
                    prop_assert_eq!(objects.remove(&key), naive.remove(&key).is_some());
                    if !naive.keys().any(|(of, _)| *of == key.0) {
                        over.remove(&key.0);
                    }
                }
            }
            prop_assert_eq!(objects.iter().map(|(key, _)| key).collect::<Vec<_>>(), naive.keys().collect::<Vec<_>>());
            for (key, object) in objects.iter() {
                prop_assert_eq!(object.shortened, over.contains(&key.0));
                prop_assert!(object.shortened || object.text.read() == *naive[key]);
            }
            for (tenant, holding) in &objects.tenants {
                let theirs: Vec<_> = objects.iter().filter(|(key, _)| Tenant::from_key(key) == *tenant).map(|(_, object)| object).collect();
                prop_assert_eq!(holding.objects, theirs.len());
                prop_assert_eq!(holding.bytes, theirs.iter().map(|object| weigh(&object.text.read())).sum::<usize>());
            }
        }
    }
}

use std::collections::BTreeSet;

use depguard_core::ControlPlane;
use depguard_core::owners::{Order, entry_of_group};
use depguard_kcp::{Metadata, OwnerReference};

use super::*;
use crate::rules::written_rule::WrittenRule;

/// Returns a GlobalOwner of ConfigMaps of these names, one entry each, and the GroupOwners of its first entries.
fn observed(names: &[&str], groups: usize, objects: Vec<Arc<Object>>) -> OwnerSnapshot {
    let child = |name: &&str| json!({"apiVersion": "v1", "resource": "configmaps", "names": [name]});
    let owner = json!({
        "metadata": {"name": "o", "uid": "owner", "finalizers": [FINALIZER]},
        "spec": {"selector": {}, "childResources": names.iter().map(child).collect::<Vec<_>>()},
    });
    let owner = GlobalOwner::read(&owner).unwrap();
    let groups = (0..groups).map(|number| {
        let entry = Entry { number, ..config_maps() };
        let mut group = group_owner(&owner, &group_name("o", "owner", &entry), number, &entry);
        group["metadata"]["uid"] = json!(format!("group-{number}"));
        GroupOwner::read(&group).unwrap()
    });
    let listing = Listing::Objects { kind: "ConfigMap".to_owned(), objects, consistent: false };
    OwnerSnapshot {
        groups: groups.collect(),
        roles: Vec::new(),
        listings: BTreeMap::from([(config_maps().resource, listing)]),
        others: Vec::new(),
        rules: Vec::new(),
        unordered: None,
        precreated_roles: true,
        guard: Guard::InForce,
        now: "2026-01-01T00:00:00Z".to_owned(),
        owner,
    }
}

fn config_maps() -> Entry {
    entry_of_group(&json!({"selector": {}, "childResource": {"apiVersion": "v1", "resource": "configmaps"}})).unwrap()
}

/// Returns a ConfigMap that these groups own.
fn object(name: &str, groups: &[usize]) -> Arc<Object> {
    let reference = |group: &usize| OwnerReference { uid: format!("group-{group}"), ..OwnerReference::default() };
    Arc::new(Object::from_metadata(Metadata {
        name: name.to_owned(),
        uid: name.to_owned(),
        owner_references: groups.iter().map(reference).collect(),
        ..Metadata::default()
    }))
}

/// Objects, each with the UID of a group.
type Moves = BTreeSet<(String, String)>;

/// Returns which objects groups adopt, and which objects groups release.
fn moves(observed: &OwnerSnapshot) -> (Moves, Moves) {
    let (mut adopted, mut released) = (Moves::new(), Moves::new());
    for write in next(observed, &Memory::default(), Instant::now()).writes {
        match write {
            Write::Adopt { object, group_uid, .. } => _ = adopted.insert((object.uid().to_owned(), group_uid)),
            Write::Release { object, group_uid, .. } => _ = released.insert((object.uid().to_owned(), group_uid)),
            _ => {}
        }
    }
    (adopted, released)
}

/// Returns the condition of this type.
fn condition(next: &Next, type_: &str) -> Value {
    let mut conditions = next.status.as_ref().unwrap()["conditions"].as_array().unwrap().iter();
    conditions.find(|condition| condition["type"] == type_).unwrap().clone()
}

fn pairs(of: &[(&str, &str)]) -> Moves {
    of.iter().map(|(object, group)| ((*object).to_owned(), (*group).to_owned())).collect()
}

#[test]
fn an_object_that_changes_its_group_is_somebodys_all_the_while() {
    // Two entries are swapped.
    let swapped = |a: &[usize], b: &[usize]| observed(&["b", "a"], 2, vec![object("a", a), object("b", b)]);
    assert_eq!(moves(&swapped(&[0], &[1])), (pairs(&[("a", "group-1"), ("b", "group-0")]), pairs(&[])));
    assert_eq!(moves(&swapped(&[0, 1], &[1])), (pairs(&[("b", "group-0")]), pairs(&[("a", "group-0")])));
    assert_eq!(moves(&swapped(&[1], &[0])), (pairs(&[]), pairs(&[])));
    // The first of two entries is dropped, and its number passes to the other one.
    let dropped = |b: &[usize]| observed(&["b"], 2, vec![object("a", &[0]), object("b", b)]);
    assert_eq!(moves(&dropped(&[1])), (pairs(&[("b", "group-0")]), pairs(&[("a", "group-0")])));
    assert_eq!(moves(&dropped(&[0, 1])), (pairs(&[]), pairs(&[("a", "group-0"), ("b", "group-1")])));
    // Another entry is put before it, and the new number has no GroupOwner yet.
    assert_eq!(moves(&observed(&["b", "a"], 1, vec![object("a", &[0])])), (pairs(&[]), pairs(&[])));
}

#[test]
fn a_group_that_is_listed_no_more_is_released_though_its_resource_cannot_be_watched() {
    let resource = config_maps().resource;
    let lists = |listing| {
        let mut observed = observed(&[], 1, Vec::new());
        observed.listings.insert(resource.clone(), listing);
        next(&observed, &Memory::default(), Instant::now()).lists
    };
    assert_eq!(lists(Listing::Unwatched("too many".to_owned())), BTreeSet::from([resource.clone()]));
    assert_eq!(lists(Listing::Unreadable("403".to_owned())), BTreeSet::new());
}

#[test]
fn an_object_that_another_owner_keeps_is_named_in_the_condition() {
    let message = |owners: &[usize]| {
        let next = next(&observed(&["a"], 1, vec![object("a", owners)]), &Memory::default(), Instant::now());
        condition(&next, "Adopted")["message"].as_str().unwrap().to_owned()
    };
    assert_eq!(message(&[0]), "all selected objects are owned");
    // Owned also by a group of another owner.
    assert!(message(&[0, 7]).ends_with("stay when this one is deleted: ConfigMap a"), "{}", message(&[0, 7]));
}

#[test]
fn a_rule_that_cannot_be_used_is_left_out_of_the_order_and_named() {
    let kind = |resource: &str| json!({"group": "example.com", "version": "v1", "kind": "A", "resource": resource});
    let read = |name: &str, dependencies: Value| {
        let spec = json!({"dependent": kind("as"), "dependencies": dependencies});
        WrittenRule::read(ControlPlane::Kubernetes, &json!({"metadata": {"name": name}, "spec": spec}))
    };
    let usable = json!([{"group": "", "version": "v1", "resource": "configmaps", "fieldRef": {"path": ".spec.a"}}]);
    let mut observed = observed(&["a"], 1, Vec::new());
    observed.owner.order = Order::ByRules;
    observed.rules = vec![read("good", usable)];
    assert_eq!(observed.usable_rules().count(), 1);
    let ordered = |observed: &OwnerSnapshot| {
        let condition = condition(&next(observed, &Memory::default(), Instant::now()), "Ordered");
        (condition["reason"].clone(), condition["message"].clone())
    };
    assert_eq!(ordered(&observed), (json!("Ordered"), json!("the rules result in 1 waves")));
    observed.rules.push(read("bad", json!("nothing")));
    assert_eq!(observed.usable_rules().count(), 1);
    let message = "the order ignores these invalid rules: bad";
    assert_eq!(ordered(&observed), (json!("InvalidRules"), json!(message)));
}

use depguard_core::Group;
use depguard_core::model::{Resource, Version};
use depguard_kcp::OwnerReference;

use super::*;

fn resource() -> GroupVersionResource {
    GroupVersionResource {
        group: Group::parse("apps").unwrap(),
        version: Version::parse("v1").unwrap(),
        resource: Resource::parse("deployments").unwrap(),
    }
}

fn object(owners: &[&str]) -> Arc<Object> {
    let owners = owners.iter().map(|uid| OwnerReference { uid: (*uid).to_owned(), ..OwnerReference::default() });
    Arc::new(Object::from_metadata(Metadata {
        name: "a:b c".to_owned(),
        namespace: Some("ns".to_owned()),
        uid: "u".to_owned(),
        resource_version: "7".to_owned(),
        owner_references: owners.collect(),
        ..Metadata::default()
    }))
}

fn operations(write: &Write) -> (String, Vec<Value>) {
    let Request::Patch { path, body } = write.request() else { panic!("no patch") };
    (path, body.as_array().unwrap().clone())
}

#[test]
fn an_object_is_adopted_and_released_only_in_the_state_that_was_seen() {
    let adopt = |owners: &[&str]| Write::Adopt {
        resource: resource(),
        object: object(owners),
        group: "g".to_owned(),
        group_uid: "mine".to_owned(),
    };
    let release = Write::Release {
        resource: resource(),
        object: object(&["x", "mine", "y", "mine"]),
        group: "g".to_owned(),
        group_uid: "mine".to_owned(),
    };
    for write in [adopt(&[]), adopt(&["x"]), release.clone()] {
        let (path, operations) = operations(&write);
        assert_eq!(path, "/apis/apps/v1/namespaces/ns/deployments/a:b%20c");
        assert_eq!(operations[0], json!({"op": "test", "path": "/metadata/uid", "value": "u"}));
        assert_eq!(operations[1], json!({"op": "test", "path": "/metadata/resourceVersion", "value": "7"}));
    }
    assert_eq!(operations(&adopt(&[])).1[2]["path"], "/metadata/ownerReferences");
    assert_eq!(operations(&adopt(&["x"])).1[2]["path"], "/metadata/ownerReferences/-");
    // The last reference comes first, so that no removal moves another one.
    let removed: Vec<_> = operations(&release).1.into_iter().filter(|operation| operation["op"] == "remove").collect();
    let paths: Vec<_> = removed.iter().map(|operation| operation["path"].as_str().unwrap()).collect();
    assert_eq!(paths, ["/metadata/ownerReferences/3", "/metadata/ownerReferences/1"]);
}

#[test]
fn nothing_is_deleted_but_what_was_seen() {
    let Request::Delete { body, .. } = (Write::DeleteObject { resource: resource(), object: object(&[]) }).request()
    else {
        panic!("no deletion")
    };
    assert_eq!(body["preconditions"], json!({"uid": "u", "resourceVersion": "7"}));
    assert_eq!(body["propagationPolicy"], "Background");
    let group = Write::DeleteGroup { name: "g".to_owned(), uid: "v".to_owned(), orphan: true };
    let Request::Delete { path, body } = group.request() else { panic!("no deletion") };
    assert_eq!(path, "/apis/globalowner.metacontroller.io/v1alpha1/groupowners/g");
    assert_eq!((&body["preconditions"]["uid"], &body["propagationPolicy"]), (&json!("v"), &json!("Orphan")));
}

#[test]
fn other_finalizers_stay() {
    let of = |known: &[&str]| Finalizers {
        name: "o".to_owned(),
        uid: "u".to_owned(),
        resource_version: "7".to_owned(),
        known: known.iter().map(|finalizer| (*finalizer).to_owned()).collect(),
    };
    let unchanged = json!({"op": "test", "path": "/metadata/resourceVersion", "value": "7"});
    for (known, path, value) in
        [(&[][..], "/metadata/finalizers", json!([FINALIZER])), (&["x"], "/metadata/finalizers/-", json!(FINALIZER))]
    {
        let (_, added) = operations(&Write::Finalize(of(known)));
        assert_eq!(added[1..], [unchanged.clone(), json!({"op": "add", "path": path, "value": value})]);
    }
    let owner = json!({"metadata": {"name": "o", "uid": "u", "resourceVersion": "7", "finalizers": ["x"]}});
    assert_eq!(Finalizers::new(&GlobalOwner::read(&owner).unwrap()), of(&["x"]));
    let (_, removed) = operations(&Write::Unfinalize(of(&["x", FINALIZER, "y"])));
    assert_eq!(removed[1]["op"], "test");
    assert_eq!(removed.last().unwrap()["value"], json!(["x", "y"]));
}

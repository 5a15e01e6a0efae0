//! Naive garbage collector: tells which objects it deletes with their owner.

use serde_json::Value;

use crate::world::{Kind, Object, PROPAGATION, World};

/// Returns true if the deletion of this object orphans what it owns.
pub(crate) fn orphans(target: &Object) -> bool {
    let metadata = &target.json["metadata"];
    match metadata["annotations"][PROPAGATION].as_str() {
        Some(requested) => requested == "Orphan",
        None => is_orphaning(target),
    }
}

/// Returns true if an earlier deletion of this object asked to orphan.
fn is_orphaning(target: &Object) -> bool {
    target.json["metadata"]["finalizers"].as_array().is_some_and(|all| all.iter().any(|name| name == "orphan"))
}

/// Returns true if the garbage collector finds `owner`, and no other object, by each ownerReference of `object`.
pub(crate) fn collects(world: &World, owner: &Object, object: &Object) -> bool {
    let (own, of_owner) = (&object.json["metadata"], &owner.json["metadata"]);
    let finds = |reference: &Value| {
        let served = world.kinds.iter().filter(|kind| kind.group == owner.kind.group && kind.kind == owner.kind.kind);
        let named = served.flat_map(|kind| kind.versions.iter().map(move |version| (kind, version)));
        let is_named = named
            .into_iter()
            .any(|(kind, version)| kind.resource == owner.kind.resource && *reference == owner.as_owner(version));
        // The review comes in a version that is served, whatever discovery says.
        is_named || *reference == owner.as_owner(owner.kind.versions[0])
    };
    let is_near = of_owner["namespace"].is_null() || of_owner["namespace"] == own["namespace"];
    let references = own["ownerReferences"].as_array();
    is_near && references.is_some_and(|references| !references.is_empty() && references.iter().all(finds))
}

/// Returns true if the object goes with this owner, which is being deleted.
pub(crate) fn goes_with(world: &World, owner: &Object, object: &Object) -> bool {
    !is_orphaning(owner) && collects(world, owner, object) && name_one_version(object)
}

/// Returns the one owner of `object`, as far as the ownerReference tells. Nobody knows any more where it was.
pub(crate) fn gone(kind: Kind, object: &Object) -> Object {
    let metadata = &object.json["metadata"];
    let owner = &metadata["ownerReferences"][0];
    let gone = Object::new(kind, "", owner["name"].as_str().unwrap()).set("/metadata/uid", owner["uid"].clone());
    gone.set("/metadata/namespace", metadata["namespace"].clone())
}

/// Returns true if the object names its owners in one version. A check of references reads no more.
fn name_one_version(object: &Object) -> bool {
    let mut owners = object.json["metadata"]["ownerReferences"].as_array().unwrap().iter();
    let first = owners.next();
    owners.all(|owner| owner["apiVersion"] == first.unwrap()["apiVersion"])
}

/// Returns the owner with which the object of the old state may have gone, if the new state names others.
pub(crate) fn lost<'o>(old: Option<&'o Object>, object: &Object) -> Option<&'o Value> {
    let owners = |object: &'o Object| object.json["metadata"]["ownerReferences"].as_array();
    let old = owners(old?)?;
    let owner = old.first().filter(|_| object.json["metadata"]["ownerReferences"].as_array() != Some(old))?;
    old.iter().all(|other| other["uid"] == owner["uid"]).then_some(owner)
}

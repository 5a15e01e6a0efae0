//! Ownership: the dependents that the garbage collector deletes with their target.
//!
//! The collector deletes an object that has lost all of its owners. It looks up each owner by the API version, the kind
//! and the name that the ownerReference gives, in the namespace of the object; so an ownerReference of which it finds no
//! served kind, or a second owner, keeps the object. A deletion that orphans takes the ownerReferences away instead.

use std::collections::BTreeMap;

use serde::Deserialize;

/// An entry of an object's `metadata.ownerReferences`.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Deserialize)]
#[serde(rename_all = "camelCase", default)]
#[expect(clippy::exhaustive_structs, reason = "the fields by which the garbage collector finds an owner")]
pub struct OwnerReference {
    /// The owner's group and version: `v1` in the core group, `apps/v1` in another.
    pub api_version: String,
    /// The owner's kind.
    pub kind: String,
    /// The owner's name.
    pub name: String,
    /// The owner's UID.
    pub uid: String,
}

/// The target of a reference, as the possible owner of the object that refers to it.
#[derive(Debug, Clone, Copy)]
#[expect(clippy::exhaustive_structs, reason = "the inputs of one decision: a new one must not compile unnoticed")]
pub struct Owner<'a> {
    /// The target's API group; empty for the core group.
    pub group: &'a str,
    /// The kind by which each version that was looked at serves the target; `None`: that version doesn't serve it.
    pub kinds: &'a BTreeMap<String, Option<String>>,
    /// The target's namespace; `None` if it is cluster-scoped.
    pub namespace: Option<&'a str>,
    /// The target's name.
    pub name: &'a str,
    /// The target's UID, if it is known.
    pub uid: Option<&'a str>,
    /// True if the deletion of the target orphans its dependents.
    pub orphans: bool,
}

/// Answer to the question if the garbage collector deletes a dependent with its target.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(
    clippy::exhaustive_enums,
    reason = "depguard's other crates handle each variant, so that a new one must not compile unnoticed"
)]
pub enum Collected {
    /// The collector deletes the dependent once the target is gone, or before.
    Yes,
    /// The dependent may stay.
    No,
    /// Yes if this version of the target's group, which wasn't looked at, serves the target by this kind; otherwise
    /// [`Self::No`].
    IfServed {
        /// The version.
        version: String,
        /// The kind.
        kind: String,
    },
}

impl Owner<'_> {
    /// Returns true if the ownerReferences take the dependent in `namespace` along when the target goes: there is at
    /// least one, and each of them means the target. A dependent without a namespace is cluster-scoped.
    pub fn collects(&self, namespace: Option<&str>, references: &[OwnerReference]) -> Collected {
        let Self { group, kinds, namespace: own_namespace, name, uid, orphans } = *self;
        // The collector never deletes a cluster-scoped object of a namespaced owner.
        let is_reachable = own_namespace.is_none_or(|own| namespace == Some(own));
        let Some(uid) = uid.filter(|uid| !uid.is_empty() && is_reachable && !orphans && !references.is_empty()) else {
            return Collected::No;
        };
        let mut unknown = None;
        for reference in references {
            let version = reference.version_in(group);
            let Some(version) = version.filter(|_| reference.name == name && reference.uid == uid) else {
                return Collected::No;
            };
            match kinds.get(version) {
                Some(Some(kind)) if *kind == reference.kind => {}
                Some(_) => return Collected::No,
                // One version more is looked at, not any number: the dependent's author chooses them.
                None if unknown.is_some_and(|unknown| unknown != (version, &reference.kind)) => return Collected::No,
                None => unknown = Some((version, &reference.kind)),
            }
        }
        unknown.map_or(Collected::Yes, |(version, kind)| Collected::IfServed {
            version: version.to_owned(),
            kind: kind.clone(),
        })
    }
}

impl OwnerReference {
    /// Returns the version if the owner is of this group.
    pub(crate) fn version_in(&self, group: &str) -> Option<&str> {
        let (own, version) = self.api_version.split_once('/').unwrap_or(("", &self.api_version));
        (own == group).then_some(version)
    }
}

/// Returns the owner with which an object may have gone, if the object's ownerReferences change from `old` to `new`.
pub fn lost_owner<'a>(old: &'a [OwnerReference], new: &[OwnerReference]) -> Option<&'a OwnerReference> {
    let owner = old.first().filter(|_| old != new)?;
    old.iter().all(|other| other.uid == owner.uid).then_some(owner)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reference(api_version: &str, kind: &str, name: &str, uid: &str) -> OwnerReference {
        let [api_version, kind, name, uid] = [api_version, kind, name, uid].map(str::to_owned);
        OwnerReference { api_version, kind, name, uid }
    }

    fn vpc(api_version: &str) -> OwnerReference {
        reference(api_version, "Vpc", "a", "u")
    }

    fn collected(change: impl FnOnce(&mut Owner<'_>), namespace: Option<&str>, all: &[OwnerReference]) -> Collected {
        let kinds = [("v1", Some("Vpc")), ("v0", None)];
        let kinds = kinds.map(|(version, kind)| (version.to_owned(), kind.map(str::to_owned))).into();
        let mut owner =
            Owner { group: "g", kinds: &kinds, namespace: Some("n"), name: "a", uid: Some("u"), orphans: false };
        change(&mut owner);
        owner.collects(namespace, all)
    }

    #[test]
    fn only_an_object_of_one_owner_goes_with_it() {
        let of = |all: &[OwnerReference]| collected(|_| {}, Some("n"), all);
        assert_eq!(of(&[vpc("g/v1")]), Collected::Yes);
        assert_eq!(of(&[vpc("g/v1"), vpc("g/v1")]), Collected::Yes);
        assert_eq!(of(&[]), Collected::No);
        for other in [
            reference("g/v1", "Vpc", "a", "other"),
            reference("g/v1", "Vpc", "other", "u"),
            reference("g/v1", "Other", "a", "u"),
            reference("other/v1", "Vpc", "a", "u"),
            reference("v1", "Vpc", "a", "u"),
            reference("g/v0", "Vpc", "a", "u"),
            OwnerReference::default(),
        ] {
            assert_eq!(of(&[vpc("g/v1"), other.clone()]), Collected::No, "{other:?}");
            assert_eq!(of(std::slice::from_ref(&other)), Collected::No, "{other:?}");
        }
    }

    #[test]
    fn one_further_version_must_be_served() {
        let of = |all: &[OwnerReference]| collected(|_| {}, Some("n"), all);
        let served = Collected::IfServed { version: "v2".into(), kind: "Vpc".into() };
        assert_eq!(of(&[vpc("g/v2")]), served);
        assert_eq!(of(&[vpc("g/v2"), vpc("g/v1"), vpc("g/v2")]), served);
        assert_eq!(of(&[vpc("g/v2"), vpc("g/v3")]), Collected::No);
        assert_eq!(of(&[vpc("g/v2"), vpc("g/v0")]), Collected::No);
        let core = |owner: &mut Owner<'_>| owner.group = "";
        assert_eq!(collected(core, Some("n"), &[vpc("v1")]), Collected::Yes);
        assert_eq!(collected(core, Some("n"), &[vpc("g/v1")]), Collected::No);
    }

    #[test]
    fn an_owner_takes_objects_of_its_namespace_along() {
        let all = [vpc("g/v1")];
        assert_eq!(collected(|_| {}, None, &all), Collected::No);
        assert_eq!(collected(|_| {}, Some("m"), &all), Collected::No);
        for namespace in [None, Some("m")] {
            assert_eq!(collected(|owner| owner.namespace = None, namespace, &all), Collected::Yes);
        }
    }

    #[test]
    fn a_deletion_that_orphans_takes_nothing_along() {
        let all = [vpc("g/v1")];
        assert_eq!(collected(|owner| owner.orphans = true, Some("n"), &all), Collected::No);
        assert_eq!(collected(|owner| owner.uid = None, Some("n"), &all), Collected::No);
        let nameless = [reference("g/v1", "Vpc", "a", "")];
        assert_eq!(collected(|owner| owner.uid = Some(""), Some("n"), &nameless), Collected::No);
    }
}

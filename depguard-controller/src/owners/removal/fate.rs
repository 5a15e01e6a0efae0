//! What becomes of one object when its group is removed or released.

use depguard_kcp::OwnerReference;

use super::homes::{Home, Homes};
use super::parts::Part;
use crate::owners::api::{GROUP, GROUP_OWNERS};
use crate::owners::observed::{GroupOwner, Object};
use crate::owners::spec::Entry;

/// What is done about an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fate<'o> {
    /// It is not the group's.
    Elsewhere,
    /// It refers to the group, and another one takes it away.
    Later,
    /// It is deleted.
    Delete,
    /// The reference to the owner with this UID is taken off it, and it stays.
    Release(&'o str),
    /// Nothing: it is being deleted, and held by its finalizers.
    Going,
    /// Nothing: it refers to a GroupOwner of this name that is there no more, and so the garbage collector sees to it.
    Collected,
}

/// What becomes of an object where groups are removed. `siblings` are all groups of the GlobalOwner.
///
/// Who owns it besides keeps it, as the garbage collector would have it; where that owner is gone, the collector takes
/// it. It stays, too, where it is marked to stay out, or where no entry selects it any more.
pub(super) fn on_removal<'o>(
    object: &'o Object,
    part: &Part<'_>,
    entry: &Entry,
    homes: &Homes<'_>,
    siblings: &[GroupOwner],
) -> Fate<'o> {
    let owners = &object.metadata.owner_references;
    let reference = part.own_group().and_then(|group| Some((group, reference(object, group)?)));
    let goes = |fate| if object.is_deleting() { Fate::Going } else { fate };
    if !siblings.iter().any(|group| object.is_owned_by(&group.uid)) {
        return reference.map_or(Fate::Elsewhere, |_| goes(Fate::Collected));
    }
    let is_siblings =
        |owner: &OwnerReference| siblings.iter().any(|group| owner.uid == group.uid || is_named(owner, &group.name));
    let stays = object.opted_out || !owners.iter().all(is_siblings);
    let home = if stays { Home::None } else { homes.home(entry, &object.metadata) };
    match (home, reference) {
        (Home::Entry(home), _) if std::ptr::eq(home, entry) => goes(Fate::Delete),
        (_, None) => Fate::Elsewhere,
        (Home::Entry(_), Some(_)) => Fate::Later,
        (Home::Done, Some(_)) => goes(Fate::Delete),
        (Home::None, Some((group, reference))) if reference.uid == group.uid => goes(Fate::Release(&reference.uid)),
        (Home::None, Some(_)) => goes(Fate::Collected),
    }
}

/// What becomes of an object where its group is released.
pub(super) fn on_release<'o>(object: &'o Object, group: &GroupOwner) -> Fate<'o> {
    reference(object, group).map_or(Fate::Elsewhere, |reference| Fate::Release(&reference.uid))
}

/// The object's reference to the group, or else to one of its name.
fn reference<'o>(object: &'o Object, group: &GroupOwner) -> Option<&'o OwnerReference> {
    let owners = &object.metadata.owner_references;
    let own = owners.iter().find(|owner| owner.uid == group.uid);
    own.or_else(|| owners.iter().find(|owner| is_named(owner, &group.name)))
}

/// Whether an owner is a GroupOwner of this name.
pub(super) fn is_named(owner: &OwnerReference, group: &str) -> bool {
    let is_ours = owner.api_version.split_once('/').is_some_and(|(api_group, _)| api_group == GROUP);
    is_ours && owner.kind == GROUP_OWNERS.kind && owner.name == group
}

//! Disposition of one object when its group is removed or released.

use depguard_core::owners::Entry;
use depguard_kcp::OwnerReference;

use crate::owners::api::{GROUP, GROUP_OWNERS};
use crate::owners::removal::group_of::{GroupIndex, Membership};
use crate::owners::removal::waves::Part;
use crate::owners::snapshot::{GroupOwner, Object};

/// Disposition of an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Disposition {
    /// The object does not go with this group.
    Elsewhere,
    /// The object refers to this group, and another group takes it away.
    Later,
    /// The object is deleted.
    Delete,
    /// The reference to the group is taken off the object, and the object stays.
    Release,
    /// Nothing to do: the object is being deleted, and finalizers hold it.
    Terminating,
}

/// Returns the disposition of an object when groups are removed. `siblings` are all groups of the GlobalOwner.
///
/// Only the UID of a group makes an object the group's: anybody may write any other reference. Another owner keeps the
/// object, as the garbage collector would; once that owner is gone, the collector takes the object. The object also
/// stays if it is marked to stay out, or if no entry selects it any more.
pub(super) fn on_removal(
    object: &Object,
    part: &Part<'_>,
    entry: &Entry,
    groups: &GroupIndex<'_>,
    siblings: &[GroupOwner],
) -> Disposition {
    let goes = |fate| if object.is_deleting() { Disposition::Terminating } else { fate };
    if !siblings.iter().any(|group| object.is_owned_by(&group.uid)) {
        return Disposition::Elsewhere;
    }
    let is_of_group = part.group.is_some_and(|group| object.is_owned_by(&group.uid));
    let stays = object.opted_out || is_anothers(object, siblings);
    let membership = if stays { Membership::None } else { groups.membership(entry, &object.metadata) };
    match membership {
        Membership::Entry(own) if std::ptr::eq(own, entry) => goes(Disposition::Delete),
        _ if !is_of_group => Disposition::Elsewhere,
        Membership::Entry(_) => Disposition::Later,
        Membership::Done => goes(Disposition::Delete),
        Membership::None => goes(Disposition::Release),
    }
}

/// Returns the disposition of an object when its group is released.
pub(super) fn on_release(object: &Object, group: &GroupOwner) -> Disposition {
    if object.is_owned_by(&group.uid) { Disposition::Release } else { Disposition::Elsewhere }
}

/// Returns true if somebody beside these groups owns an object. A reference with a group's name and another UID points
/// to nothing: there is only one GroupOwner of a name.
pub(crate) fn is_anothers(object: &Object, siblings: &[GroupOwner]) -> bool {
    let is_siblings =
        |owner: &OwnerReference| siblings.iter().any(|group| owner.uid == group.uid || is_named(owner, &group.name));
    !object.metadata.owner_references.iter().all(is_siblings)
}

/// Returns true if an owner is a GroupOwner of this name.
pub(super) fn is_named(owner: &OwnerReference, group: &str) -> bool {
    let is_ours = owner.api_version.split_once('/').is_some_and(|(api_group, _)| api_group == GROUP);
    is_ours && owner.kind == GROUP_OWNERS.kind && owner.name == group
}

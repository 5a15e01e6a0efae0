//! What becomes of one object when its group is removed or released.

use depguard_kcp::OwnerReference;

use super::homes::{Home, Homes};
use super::parts::Part;
use crate::owners::api::{GROUP, GROUP_OWNERS};
use crate::owners::observed::{GroupOwner, Object};
use crate::owners::spec::Entry;

/// What is done about an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fate {
    /// It is not the group's.
    Elsewhere,
    /// It refers to the group, and another one takes it away.
    Later,
    /// It is deleted.
    Delete,
    /// The reference to the group is taken off it, and it stays.
    Release,
    /// Nothing: it is being deleted, and held by its finalizers.
    Going,
}

/// What becomes of an object where groups are removed. `siblings` are all groups of the GlobalOwner.
///
/// Only the UID of one of them makes an object theirs: anybody may write any other reference. Who owns it besides keeps it,
/// as the garbage collector would have it; where that owner is gone, the collector takes it. It stays, too, where it is
/// marked to stay out, or where no entry selects it any more.
pub(super) fn on_removal(
    object: &Object,
    part: &Part<'_>,
    entry: &Entry,
    homes: &Homes<'_>,
    siblings: &[GroupOwner],
) -> Fate {
    let goes = |fate| if object.is_deleting() { Fate::Going } else { fate };
    if !siblings.iter().any(|group| object.is_owned_by(&group.uid)) {
        return Fate::Elsewhere;
    }
    let is_of_group = part.group.is_some_and(|group| object.is_owned_by(&group.uid));
    let stays = object.opted_out || is_anothers(object, siblings);
    let home = if stays { Home::None } else { homes.home(entry, &object.metadata) };
    match home {
        Home::Entry(home) if std::ptr::eq(home, entry) => goes(Fate::Delete),
        _ if !is_of_group => Fate::Elsewhere,
        Home::Entry(_) => Fate::Later,
        Home::Done => goes(Fate::Delete),
        Home::None => goes(Fate::Release),
    }
}

/// What becomes of an object where its group is released.
pub(super) fn on_release(object: &Object, group: &GroupOwner) -> Fate {
    if object.is_owned_by(&group.uid) { Fate::Release } else { Fate::Elsewhere }
}

/// Whether anybody but these groups owns an object. A reference that has the name of one and another UID points to nothing:
/// there is one GroupOwner of a name.
pub(crate) fn is_anothers(object: &Object, siblings: &[GroupOwner]) -> bool {
    let is_siblings =
        |owner: &OwnerReference| siblings.iter().any(|group| owner.uid == group.uid || is_named(owner, &group.name));
    !object.metadata.owner_references.iter().all(is_siblings)
}

/// Whether an owner is a GroupOwner of this name.
pub(super) fn is_named(owner: &OwnerReference, group: &str) -> bool {
    let is_ours = owner.api_version.split_once('/').is_some_and(|(api_group, _)| api_group == GROUP);
    is_ours && owner.kind == GROUP_OWNERS.kind && owner.name == group
}

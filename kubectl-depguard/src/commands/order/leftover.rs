//! Objects that a deletion leaves, and the reasons.

use std::collections::BTreeMap;

use super::print::line;
use crate::cluster::kinds::resource_name;
use crate::engine::reference_scan::ObjectIdentity;
use crate::io::output::one_line;

/// Reason why an object is left.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum LeftoverReason {
    /// The API server or a webhook refused the deletion, with this message.
    Refused(String),
    /// The deletion was granted, but the object was not gone in time, or before the interruption.
    Terminating(Vec<String>),
    /// Another object that is left holds this one.
    Blocked,
    /// The command ended before it asked for the deletion.
    NotAttempted,
    /// A lock that was made meanwhile protects the object.
    Locked,
    /// The object no longer depends on an object to delete, or is no longer selected.
    NoLongerMeant,
}

impl LeftoverReason {
    /// Returns the end of a sentence that begins with the object.
    fn text(&self) -> String {
        match self {
            Self::Refused(message) => format!("was refused: {}", one_line(message)),
            Self::Terminating(finalizers) if finalizers.is_empty() => "is being deleted, but not gone yet".to_owned(),
            Self::Terminating(finalizers) => {
                format!("is being deleted, and waits for its finalizers: {}", finalizers.join(", "))
            }
            Self::Blocked => "is blocked by objects that are left".to_owned(),
            Self::NotAttempted => "was not tried".to_owned(),
            Self::Locked => "was locked meanwhile".to_owned(),
            Self::NoLongerMeant => "no longer depends on an object to delete, or is no longer selected".to_owned(),
        }
    }
}

/// Reports the objects that are left: one line for each that was refused or is still going, and one line for all of a
/// kind that were not reached. A line for each of these would hide the important lines.
pub(super) fn lines<'o>(left: impl Iterator<Item = (&'o ObjectIdentity, &'o LeftoverReason)>) -> Vec<String> {
    let (mut lines, mut grouped) = (Vec::new(), BTreeMap::<(String, bool), Vec<&ObjectIdentity>>::new());
    for (object, why) in left {
        let kind = || resource_name(&object.resource, &object.group);
        match why {
            LeftoverReason::Blocked => grouped.entry((kind(), true)).or_default().push(object),
            LeftoverReason::NotAttempted => grouped.entry((kind(), false)).or_default().push(object),
            LeftoverReason::Refused(_)
            | LeftoverReason::Terminating(_)
            | LeftoverReason::Locked
            | LeftoverReason::NoLongerMeant => lines.push(format!("{} {}", line(object), why.text())),
        }
    }
    for ((kind, is_behind), objects) in grouped {
        let (what, is, was) = match objects.as_slice() {
            [only] => (line(only), "is", "was"),
            many => (format!("{} {kind}", many.len()), "are", "were"),
        };
        let text =
            if is_behind { format!("{is} blocked by objects that are left") } else { format!("{was} not tried") };
        lines.push(format!("{what} {text}"));
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn those_that_were_not_reached_are_one_line_a_kind() {
        let object = |resource: &str, name: &str| ObjectIdentity {
            group: "n.example.com".to_owned(),
            version: "v1".to_owned(),
            resource: resource.to_owned(),
            kind: "K".to_owned(),
            namespace: None,
            name: name.to_owned(),
        };
        let objects = ["a", "b", "c"].map(|name| object("vms", name));
        let (alone, refused) = (object("vpcs", "d"), LeftoverReason::Refused("no".to_owned()));
        let left = [
            (&objects[0], &refused),
            (&objects[1], &LeftoverReason::NotAttempted),
            (&objects[2], &LeftoverReason::NotAttempted),
        ];
        let left =
            left.into_iter().chain([(&alone, &LeftoverReason::NotAttempted), (&alone, &LeftoverReason::Blocked)]);
        assert_eq!(
            lines(left),
            [
                "vms.n.example.com/a was refused: no",
                "2 vms.n.example.com were not tried",
                "vpcs.n.example.com/d was not tried",
                "vpcs.n.example.com/d is blocked by objects that are left",
            ]
        );
    }
}

//! GlobalOwners and GroupOwners: their specs, and their deletion, since their objects must be deleted in order.
//!
//! The garbage collector deletes all objects of an owner at once. It does so if the owner is deleted in the
//! foreground, before the owner is gone, and if a GroupOwner is deleted that still owns objects. A GlobalOwner must
//! therefore be deleted in the background, so that the controller deletes its objects in order. A GroupOwner is
//! deleted last.
//!
//! With `--cascade=orphan` the objects stay. An API server shows this only by a finalizer, which the garbage
//! collector may remove before anybody has seen it. The webhook therefore notes it on the GlobalOwner before the
//! deletion goes on. If the object changed meanwhile, an API server sends the review again; when the deletion is
//! committed, the note holds the requested cascade.

mod spec;

use std::fmt;

use serde::Deserialize;

use serde_json::json;

use crate::evaluation::decision::Causes;
use crate::model::percent_encoding::percent_encode;
use crate::protocol::admission_review::{Operation, Review, ReviewError, unreadable_review};
use crate::protocol::cascade::Cascade;
use crate::protocol::cause::Cause;
use crate::protocol::deletion_target::stored_name;
use crate::protocol::problem::Unresolved;
use crate::protocol::request::{QueryId, Send, Verb};
use crate::protocol::response::Answer;
use crate::protocol::response_error::{failure, response, unanswered};
use crate::scan::text::Text;
use crate::scan::text::same;

pub use spec::{DeletionPolicy, Entry, Order, SpecError, entries, entry_of_group};
#[cfg(feature = "schemars")]
pub use spec::{global_owner_schema, group_owner_schema};

/// The API group of both kinds.
pub const GROUP: &str = "globalowner.metacontroller.io";
/// The API version of both kinds.
pub const VERSION: &str = "v1alpha1";
/// The resource of GlobalOwners.
pub const GLOBAL_OWNERS: &str = "globalowners";
/// The resource of GroupOwners.
pub const GROUP_OWNERS: &str = "groupowners";
/// The phase of a GroupOwner whose objects are gone.
pub const EMPTY: &str = "Empty";
/// The phase of a GroupOwner whose objects were released.
pub const RELEASED: &str = "Released";

/// The annotation on a GlobalOwner whose deletion was requested; it says what happens to the objects of the owner.
pub const CASCADE_ANNOTATION: &str = "dependencies.opendefense.cloud/cascade";
/// The value of the annotation if the objects are to stay.
pub const ORPHAN: &str = "Orphan";

/// A review that is being decided: [`send`](Self::send) the request, if there is one, pass on its
/// [`answer`](Self::answer), and [`decide`](Self::decide).
#[derive(Debug)]
pub struct OwnerEvaluation {
    decision: OwnerDecision,
    note: Option<Note>,
}

/// The note to write on a GlobalOwner before its deletion goes on.
#[derive(Debug)]
struct Note {
    name: String,
    uid: String,
    /// True if the objects are to stay; otherwise the note is removed.
    stays: bool,
    written: Result<(), Unresolved>,
}

/// The decision on a review at the path of owners.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(
    clippy::exhaustive_enums,
    reason = "depguard's other crates handle each variant, so that a new one must not compile unnoticed"
)]
pub enum OwnerDecision {
    /// The request is not a deletion.
    NotADeletion,
    /// The object is neither a GlobalOwner nor a GroupOwner.
    NoOwner,
    /// A GlobalOwner that goes once its objects are deleted or released.
    InOrder,
    /// A GlobalOwner that goes and leaves its objects; a note on the GlobalOwner says so.
    LetsGo,
    /// A GroupOwner that no longer owns objects.
    OwnsNothing,
    /// A GlobalOwner of this name that is deleted in the foreground.
    Foreground(String),
    /// A GroupOwner of this name that may still own objects.
    StillOwns(String),
    /// A GlobalOwner of this name on which the note could not be written, with the reason.
    Unnoted(String, Unresolved),
    /// The review can't be read, for this reason.
    Unreadable(&'static str),
    /// The caller's URL is for a logical cluster, which has no owners.
    Elsewhere,
}

#[derive(Deserialize)]
struct Envelope<'a> {
    #[serde(borrow)]
    request: Request<'a>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Request<'a> {
    #[serde(borrow)]
    old_object: Option<Owner<'a>>,
}

#[derive(Deserialize)]
struct Owner<'a> {
    #[serde(borrow)]
    metadata: Metadata<'a>,
    #[serde(borrow)]
    status: Option<Status<'a>>,
}

#[derive(Deserialize)]
struct Metadata<'a> {
    #[serde(borrow)]
    annotations: Option<Annotations<'a>>,
}

#[derive(Deserialize)]
struct Annotations<'a> {
    #[serde(borrow, rename = "dependencies.opendefense.cloud/cascade")]
    cascade: Option<Text<'a>>,
}

#[derive(Deserialize)]
struct Status<'a> {
    #[serde(borrow)]
    phase: Option<Text<'a>>,
}

impl OwnerEvaluation {
    /// Begins to decide by the bytes from which `review` was parsed.
    pub fn begin(review: &Review<'_>, bytes: &[u8]) -> Result<Self, ReviewError> {
        let settled = |decision| Ok(Self { decision, note: None });
        if review.operation() != Operation::Delete || review.sub_resource().is_some() {
            return settled(OwnerDecision::NotADeletion);
        }
        let is_global = match (review.group(), review.resource()) {
            (GROUP, GLOBAL_OWNERS) => true,
            (GROUP, GROUP_OWNERS) => false,
            _ => return settled(OwnerDecision::NoOwner),
        };
        let Request { old_object } = serde_json::from_slice::<Envelope<'_>>(bytes)?.request;
        let (Some(owner), Some(object)) = (old_object, review.old_object()) else {
            return settled(OwnerDecision::Unreadable("the review has no oldObject"));
        };
        let name = match review.name().ok_or("its oldObject has no name").and_then(stored_name) {
            Ok(name) => name.to_owned(),
            Err(why) => return settled(OwnerDecision::Unreadable(why)),
        };
        if !is_global {
            let owns_nothing = matches!(owner.phase(), Some(EMPTY | RELEASED));
            return settled(if owns_nothing { OwnerDecision::OwnsNothing } else { OwnerDecision::StillOwns(name) });
        }
        let cascade = review.cascade(object);
        let Some(stays) = owner.note_for(cascade, object.is_terminating()).filter(|_| !review.dry_run()) else {
            return settled(match cascade {
                Cascade::Background => OwnerDecision::InOrder,
                Cascade::Orphan => OwnerDecision::LetsGo,
                // This holds for a terminating owner as well: a second deletion may still ask the garbage collector
                // to delete all objects.
                Cascade::Foreground => OwnerDecision::Foreground(name),
            });
        };
        let Some(uid) = object.uid() else { return settled(OwnerDecision::Unreadable("its oldObject has no uid")) };
        let decision = if stays { OwnerDecision::LetsGo } else { OwnerDecision::InOrder };
        let written = Err(unanswered());
        Ok(Self { decision, note: Some(Note { name, uid: uid.to_owned(), stays, written }) })
    }

    /// Returns the request to the one cluster; `None` if none is needed.
    pub fn send(&self) -> Option<Send> {
        let Note { name, uid, stays, .. } = self.note.as_ref()?;
        let path = format!("/apis/{GROUP}/{VERSION}/{GLOBAL_OWNERS}/{}", percent_encode(name));
        // The UID excludes another object of the same name.
        let metadata = json!({"uid": uid, "annotations": {CASCADE_ANNOTATION: stays.then_some(ORPHAN)}});
        let body = json!({"metadata": metadata}).to_string().into_bytes();
        Some(Send { id: QueryId(0), cluster: None, verb: Verb::Merge, path, body })
    }

    /// Takes the answer to the request.
    pub fn answer(&mut self, answer: Answer<'_>) {
        if let Some(note) = &mut self.note {
            note.written = response(answer).and_then(|(status, body)| match status {
                200 => Ok(()),
                _ => Err(failure(status, body, "patch globalowners of globalowner.metacontroller.io")),
            });
        }
    }

    /// Decides. A request without a successful answer leads to a refusal.
    pub fn decide(self) -> OwnerDecision {
        match self.note {
            Some(Note { name, written: Err(why), .. }) => OwnerDecision::Unnoted(name, why),
            Some(Note { written: Ok(()), .. }) | None => self.decision,
        }
    }
}

impl OwnerDecision {
    /// Returns true if the review may go on.
    pub fn allowed(&self) -> bool {
        matches!(self, Self::NotADeletion | Self::NoOwner | Self::InOrder | Self::LetsGo | Self::OwnsNothing)
    }

    /// Returns the message of a refusal, for people; `None` if the review is allowed.
    pub fn message(&self) -> Option<String> {
        (!self.allowed()).then(|| self.to_string())
    }

    /// Returns the causes of a refusal, for programs; none if the review is allowed.
    pub fn causes(&self) -> Causes {
        let cause = match self {
            Self::NotADeletion | Self::NoOwner | Self::InOrder | Self::LetsGo | Self::OwnsNothing => {
                return Causes::default();
            }
            Self::Foreground(_) => Cause::ForegroundDeletion,
            Self::StillOwns(_) => Cause::StillOwns,
            Self::Unnoted(_, why) => why.cause(),
            Self::Unreadable(_) => Cause::ReviewInvalid,
            Self::Elsewhere => Cause::OutOfScope,
        };
        Causes::one(cause, &self.to_string())
    }

    /// Returns the decision as one word of a closed set, fit for a metric's label.
    pub fn label(&self) -> &'static str {
        match self {
            Self::NotADeletion => "not-a-deletion",
            Self::NoOwner => "no-owner",
            Self::InOrder => "in-order",
            Self::LetsGo => "lets-go",
            Self::OwnsNothing => "owns-nothing",
            Self::Foreground(_) => "foreground",
            Self::StillOwns(_) => "still-owns",
            Self::Unnoted(..) | Self::Unreadable(_) | Self::Elsewhere => "undecided",
        }
    }
}

// The name in a serde attribute must be a literal; this check ties it to the constant.
const _: () = assert!(same(CASCADE_ANNOTATION, "dependencies.opendefense.cloud/cascade"));

impl Owner<'_> {
    fn phase(&self) -> Option<&str> {
        self.status.as_ref()?.phase.as_ref().map(Text::as_str)
    }

    /// Returns the new content of the note, if the note must change: true if the objects are to stay. If a
    /// terminating owner has the note, a deletion in the background doesn't remove it.
    fn note_for(&self, cascade: Cascade, is_terminating: bool) -> Option<bool> {
        let noted = self.metadata.annotations.as_ref().and_then(|all| all.cascade.as_ref()).map(Text::as_str);
        match cascade {
            Cascade::Orphan => (noted != Some(ORPHAN)).then_some(true),
            Cascade::Background if !is_terminating => noted.map(|_| false),
            Cascade::Background | Cascade::Foreground => None,
        }
    }
}

/// Prints a refusal with its reason and advice; for an allowed review, its label.
impl fmt::Display for OwnerDecision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Foreground(name) => write!(
                f,
                "cannot delete {GLOBAL_OWNERS}/{name} in the foreground: the garbage collector would delete all owned \
                 objects at once; use --cascade=background (the default) to delete them in order, or --cascade=orphan \
                 to keep them"
            ),
            Self::StillOwns(name) => write!(
                f,
                "cannot delete {GROUP_OWNERS}/{name}: the garbage collector would delete all owned objects at once; \
                 delete its GlobalOwner instead, or remove its entry from the GlobalOwner"
            ),
            Self::Unnoted(name, why) => write!(
                f,
                "cannot delete {GLOBAL_OWNERS}/{name}: the webhook could not note on the owner if its objects are to \
                 stay: the write {why}"
            ),
            Self::Unreadable(why) => unreadable_review(why).fmt(f),
            Self::Elsewhere => f.write_str(
                "somebody called the webhook by the URL of a logical cluster about an owner; find out who calls it, \
                 and change the path key",
            ),
            Self::NotADeletion | Self::NoOwner | Self::InOrder | Self::LetsGo | Self::OwnsNothing => {
                f.write_str(self.label())
            }
        }
    }
}

#[cfg(test)]
mod tests;

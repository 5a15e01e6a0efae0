//! Whether a GlobalOwner or a GroupOwner may be deleted in this way: what it owns must go in order.
//!
//! The garbage collector deletes what an owner leaves behind all at once. It does so before the owner is gone where the
//! owner is deleted in the foreground, and at once where a GroupOwner goes that still owns. So a GlobalOwner is deleted
//! in the background, where the controller takes what it owns away in order, and a GroupOwner last of all.
//!
//! That what it owns is to stay (`--cascade=orphan`), an API server says only by a finalizer, which the garbage collector
//! may take off before anybody has seen it. So it is noted on the GlobalOwner before the deletion goes on. An API server
//! asks again where the object changed meanwhile; at the commit the note says what was asked for.

use std::fmt;

use serde::Deserialize;

use serde_json::json;

use crate::answers::{UNANSWERED, failure, response};
use crate::locks::{Send, Verb};
use crate::query::{Answer, QueryId, percent_encode};
use crate::review::{Operation, Review, ReviewError, same, unreadable_review};
use crate::target::stored_name;
use crate::text::Text;

/// The API group of both.
pub const GROUP: &str = "globalowner.metacontroller.io";
/// Its version.
pub const VERSION: &str = "v1alpha1";
/// The resource of GlobalOwners.
pub const GLOBAL_OWNERS: &str = "globalowners";
/// The resource of GroupOwners.
pub const GROUP_OWNERS: &str = "groupowners";
/// The phase of a GroupOwner whose objects are gone.
pub const EMPTY: &str = "Empty";
/// The phase of a GroupOwner whose objects were let go of.
pub const RELEASED: &str = "Released";

/// The annotation on a GlobalOwner that is deleted, which says what becomes of what it owns.
pub const CASCADE_ANNOTATION: &str = "dependencies.opendefense.cloud/cascade";
/// Its value where that is to stay.
pub const ORPHAN: &str = "Orphan";

/// The finalizers by which an API server knows a deletion in the foreground, and one that leaves all behind.
const FOREGROUND_FINALIZER: &str = "foregroundDeletion";
const ORPHAN_FINALIZER: &str = "orphan";

/// A review that is being decided: [`send`](Self::send) what there is, [`answer`](Self::answer) it, and
/// [`decide`](Self::decide).
#[derive(Debug)]
pub struct OwnerEvaluation {
    decision: OwnerDecision,
    note: Option<Note>,
}

/// What is to be written on a GlobalOwner before its deletion goes on.
#[derive(Debug)]
struct Note {
    name: String,
    uid: String,
    /// Whether what it owns is to stay; else the note is taken off.
    stays: bool,
    written: Result<(), String>,
}

/// What is decided of a review at the path of owners.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(
    clippy::exhaustive_enums,
    reason = "depguard's other crates decide by each case: none shall pass them by unseen"
)]
pub enum OwnerDecision {
    /// Nothing is deleted.
    NotADeletion,
    /// Neither a GlobalOwner nor a GroupOwner.
    NoOwner,
    /// A GlobalOwner that goes once what it owns is gone or let go of.
    InOrder,
    /// A GlobalOwner that goes and leaves behind what it owns, which is noted on it.
    LetsGo,
    /// A GroupOwner that owns nothing any more.
    OwnsNothing,
    /// A GlobalOwner of this name, in the foreground.
    Foreground(String),
    /// A GroupOwner of this name that may still own.
    StillOwns(String),
    /// A GlobalOwner of this name on which it could not be noted what is asked for, and why.
    Unnoted(String, String),
    /// The review can't be read, and why.
    Unreadable(&'static str),
    /// The URL by which it came was made for a logical cluster, where there are no owners.
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
    #[serde(borrow)]
    options: Option<Options<'a>>,
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
    finalizers: Option<Vec<Text<'a>>>,
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

/// The DeleteOptions, as far as they say what becomes of dependents.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Options<'a> {
    #[serde(borrow)]
    propagation_policy: Option<Text<'a>>,
    orphan_dependents: Option<bool>,
}

/// What is to become of what an owner owns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Cascade {
    Background,
    Foreground,
    Orphan,
}

impl OwnerEvaluation {
    /// Begins to decide by the bytes that `review` was parsed from.
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
        let Request { old_object, options } = serde_json::from_slice::<Envelope<'_>>(bytes)?.request;
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
        let cascade = Cascade::of(options.as_ref(), &owner);
        let Some(stays) = owner.note_for(cascade, object.is_terminating()).filter(|_| !review.dry_run()) else {
            return settled(match cascade {
                Cascade::Background => OwnerDecision::InOrder,
                Cascade::Orphan => OwnerDecision::LetsGo,
                // Also while it is terminating: a second deletion may still ask the collector to take all.
                Cascade::Foreground => OwnerDecision::Foreground(name),
            });
        };
        let Some(uid) = object.uid() else { return settled(OwnerDecision::Unreadable("its oldObject has no uid")) };
        let decision = if stays { OwnerDecision::LetsGo } else { OwnerDecision::InOrder };
        let written = Err(UNANSWERED.to_owned());
        Ok(Self { decision, note: Some(Note { name, uid: uid.to_owned(), stays, written }) })
    }

    /// What is to be sent to the one cluster, and answered; `None`: nothing.
    pub fn send(&self) -> Option<Send> {
        let Note { name, uid, stays, .. } = self.note.as_ref()?;
        let path = format!("/apis/{GROUP}/{VERSION}/{GLOBAL_OWNERS}/{}", percent_encode(name));
        // Another of the same name is another.
        let metadata = json!({"uid": uid, "annotations": {CASCADE_ANNOTATION: stays.then_some(ORPHAN)}});
        let body = json!({"metadata": metadata}).to_string().into_bytes();
        Some(Send { id: QueryId(0), cluster: None, verb: Verb::Merge, path, body })
    }

    /// Takes the answer to what was sent.
    pub fn answer(&mut self, answer: Answer<'_>) {
        if let Some(note) = &mut self.note {
            note.written = response(answer).and_then(|(status, body)| match status {
                200 => Ok(()),
                _ => Err(failure(status, body, "patch globalowners of globalowner.metacontroller.io")),
            });
        }
    }

    /// Decides. What was to be sent and is not answered well refuses.
    pub fn decide(self) -> OwnerDecision {
        match self.note {
            Some(Note { name, written: Err(why), .. }) => OwnerDecision::Unnoted(name, why),
            Some(Note { written: Ok(()), .. }) | None => self.decision,
        }
    }
}

impl Cascade {
    /// As an API server tells it: the options come first, then a finalizer that stands there already.
    fn of(options: Option<&Options<'_>>, owner: &Owner<'_>) -> Self {
        let policy = options.and_then(|options| options.propagation_policy.as_ref()).map(Text::as_str);
        let orphans = options.and_then(|options| options.orphan_dependents);
        let has = |finalizer| owner.metadata.finalizers.iter().flatten().any(|name| name.as_str() == finalizer);
        match (policy.filter(|policy| !policy.is_empty()), orphans) {
            (Some("Background"), _) | (None, Some(false)) => Self::Background,
            (Some("Orphan"), _) | (None, Some(true)) => Self::Orphan,
            (Some(_), _) => Self::Foreground,
            (None, None) if has(FOREGROUND_FINALIZER) => Self::Foreground,
            (None, None) if has(ORPHAN_FINALIZER) => Self::Orphan,
            (None, None) => Self::Background,
        }
    }
}

impl OwnerDecision {
    /// Whether the review may go on.
    pub fn allowed(&self) -> bool {
        matches!(self, Self::NotADeletion | Self::NoOwner | Self::InOrder | Self::LetsGo | Self::OwnsNothing)
    }

    /// Why it was refused, for people; `None` where it was allowed.
    pub fn message(&self) -> Option<String> {
        (!self.allowed()).then(|| self.to_string())
    }

    /// One word of a closed set, fit for a metric's label.
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

// The name in a serde attribute must be a literal; this holds it to the constant.
const _: () = assert!(same(CASCADE_ANNOTATION, "dependencies.opendefense.cloud/cascade"));

impl Owner<'_> {
    fn phase(&self) -> Option<&str> {
        self.status.as_ref()?.phase.as_ref().map(Text::as_str)
    }

    /// What the note must be changed to say, if it must: whether what it owns is to stay. Whoever once let go of it while
    /// it went has done so.
    fn note_for(&self, cascade: Cascade, is_terminating: bool) -> Option<bool> {
        let noted = self.metadata.annotations.as_ref().and_then(|all| all.cascade.as_ref()).map(Text::as_str);
        match cascade {
            Cascade::Orphan => (noted != Some(ORPHAN)).then_some(true),
            Cascade::Background if !is_terminating => noted.map(|_| false),
            Cascade::Background | Cascade::Foreground => None,
        }
    }
}

/// Why it was refused, and what to do; for what was allowed, the word of it.
impl fmt::Display for OwnerDecision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Foreground(name) => write!(
                f,
                "cannot delete {GLOBAL_OWNERS}/{name} in the foreground: the garbage collector would take all that it owns \
                 at once; use --cascade=background (the default), which removes it in order, or --cascade=orphan, which \
                 lets go of it"
            ),
            Self::StillOwns(name) => write!(
                f,
                "cannot delete {GROUP_OWNERS}/{name}: the garbage collector would take all that it owns at once; delete its \
                 GlobalOwner instead, or take its entry out of there"
            ),
            Self::Unnoted(name, why) => write!(
                f,
                "cannot delete {GLOBAL_OWNERS}/{name}: it could not be noted on it whether what it owns is to stay: the write \
                 {why}"
            ),
            Self::Unreadable(why) => f.write_str(&unreadable_review(why)),
            Self::Elsewhere => f.write_str(
                "the webhook was called by the URL of a logical cluster about an owner; look at who calls it, and change the \
                 path key",
            ),
            Self::NotADeletion | Self::NoOwner | Self::InOrder | Self::LetsGo | Self::OwnsNothing => f.write_str(self.label()),
        }
    }
}

#[cfg(test)]
mod tests;

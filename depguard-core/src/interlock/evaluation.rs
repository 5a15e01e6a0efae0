//! Requests of the evaluations of both sides, the forms of their answers, and the verdicts.

use super::note::Note;
use super::object_key::{ObjectKey, RegisterName, Revision};
use crate::protocol::problem::Unresolved;

/// Request of an [`Insert`](super::Insert) or a [`Delete`](super::Delete).
///
/// An evaluation returns the same request again and again until the answer arrives. Each read must be a consistent read
/// that is sent after the evaluation returned the request, and never the answer to an earlier one.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[expect(clippy::exhaustive_enums, reason = "a caller handles each variant")]
pub enum Ask {
    /// Write of a note to a register by a [`RegisterWrite`](super::RegisterWrite), alone or with other notes.
    Record(RegisterName, Note),
    /// GET of a target.
    Target(ObjectKey),
    /// GET of a dependent; for a creation, of the object of its name.
    Dependent(ObjectKey),
    /// LIST of the dependents of the target that is to be deleted.
    Dependents,
}

/// Answer to a GET of one object.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[expect(clippy::exhaustive_enums, reason = "a GET ends in one of these ways")]
pub enum Observation {
    /// The object is stored.
    Stored {
        /// Its state.
        revision: Revision,
        /// True if the object has a `deletionTimestamp`. A caller that accepts references to such an object says false.
        is_terminating: bool,
    },
    /// No object has this name. (If the whole kind is missing, the answer is `Unknown`.)
    Absent,
    /// It could not be found out, for this reason: a whole sentence.
    Unknown(Unresolved),
}

/// Answer to the LIST of dependents.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[expect(clippy::exhaustive_enums, reason = "a LIST ends in one of these ways")]
pub enum Listing {
    /// No dependent refers to the target.
    Empty,
    /// At least one dependent forbids the deletion.
    Referrers,
    /// It could not be found out, for this reason: a whole sentence.
    Unknown(Unresolved),
}

/// Result of an evaluation.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[expect(clippy::exhaustive_enums, reason = "a review ends in one of these ways")]
pub enum Verdict {
    /// The request may be carried out.
    Allowed,
    /// The request must not be carried out.
    Refused(Refusal),
}

/// Reason of a refusal.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[expect(clippy::exhaustive_enums, reason = "each program words every refusal")]
pub enum Refusal {
    /// A request of the other side is under way, or was a short time ago.
    AgainSoon,
    /// This target doesn't exist.
    Missing(ObjectKey),
    /// This target is being deleted.
    Terminating(ObjectKey),
    /// A dependent refers to the target.
    Referenced,
    /// An object of the name that is to be created is stored already.
    NameTaken,
    /// The caller's own [check](super::Insert::checked) of the targets refused.
    Failed,
    /// Something could not be found out, for this reason: a whole sentence.
    Unknown(Unresolved),
}

/// The most proofs that marks of the other side are void, in a row.
pub(super) const MAX_ROUNDS: u32 = 4;

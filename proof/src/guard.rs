//! Guards and assumptions of the interlock. A world may do without one; a counterexample then shows the need for it.

/// Part of the protocol, or of what the protocol assumes. The model takes a guard out around the real code: it answers
/// a request by an earlier read, gives two evaluations one nonce, or edits what is written. The code itself has no
/// switches.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Guard {
    /// A register is written by the version that was read.
    WriteByVersion,
    /// Each evaluation of a deletion has a nonce of its own, and takes down only its own flag.
    FlagByEvaluation,
    /// Each evaluation of a creation has a nonce of its own, so intents never replace each other.
    IntentByEvaluation,
    /// The targets are read after the intents were stored.
    TargetReadAfterIntent,
    /// The dependents are listed after the flag was stored.
    ListAfterFlag,
    /// A flag is proven void by a GET of the target that was sent after the flag was read.
    FlagReadBeforeProof,
    /// An intent is proven void by a GET of the dependent that was sent after the intent was read.
    IntentReadBeforeProof,
    /// A refused evaluation takes its marks down.
    TakeDown,
    /// Merged notes are judged against the register as it will be written.
    JudgedAsWritten,
    /// The cleaner knows a creation by its UID, not by its name.
    StoredByUid,
    /// The cleaner doesn't take the intent of an update away because the UID is stored.
    UpdateNotByUid,
    /// The cleaner takes the time after it read the register.
    TimeAfterRead,
    /// The cleaner writes by the version that it read.
    CleanByVersion,
    /// A closed shared mark is kept for as long as any mark.
    SharedKeptClosed,
    /// The read of a register on whose shared mark an evaluation relies was sent after the review arrived.
    SharedReadAfterReview,
    /// A register that was made anew is closed.
    ClosedWhenNew,
    /// A terminating target refuses references.
    TerminatingRefuses,
    /// A creation whose name another object has is refused. It is not allowed without an intent.
    TakenNameRefuses,
    /// Marks are kept for longer than any request lives.
    KeptLongerThanRequests,
    /// An API server asks again if the target has changed since the review of its deletion.
    ReviewedAgain,
    /// Nothing is promised about a rule until all replicas have known the rule for *twice* the time that marks are kept.
    WaitTwiceAfterRule,
    /// Both sides are reviewed.
    Reviews,
    /// A dependent goes with its target only if each of its owners is the target.
    EachOwnerCounts,
    /// A dependent goes with its target only if it names the owner in a version that is served.
    OwnerIsServed,
    /// A dependent without a namespace doesn't go with a target in a namespace.
    OwnerInReach,
    /// No dependent goes with a target by a deletion that orphans.
    OrphaningCounts,
    /// A terminating target whose deletion orphans excuses no reference.
    TerminatingOrphanRefuses,
    /// An update that changes the owners is reviewed, and what the old ones excused counts from then on.
    OwnersReviewed,
    /// A target that is gone may have been the owner that an update takes away.
    GoneOwnerCounts,
    /// The deletion of a terminating target is reviewed if it orphans.
    OrphaningReviewedAgain,
    /// An update that changes the owners passes if the dependent did not go with its target before, either.
    LetGoPasses,
    /// A register that was made anew is opened at once only if the controller sees, after it has made the register, that
    /// no creation is reviewed.
    OpenedAtOnceOnlyUnused,
    /// A replica answers only at a path of its own registers' generation.
    GenerationInPath,
    /// The registers of the former generation are deleted before API servers learn the path of the next.
    FormerRegistersGo,
}

impl Guard {
    /// All guards.
    pub const ALL: [Self; 34] = [
        Self::WriteByVersion,
        Self::FlagByEvaluation,
        Self::IntentByEvaluation,
        Self::TargetReadAfterIntent,
        Self::ListAfterFlag,
        Self::FlagReadBeforeProof,
        Self::IntentReadBeforeProof,
        Self::TakeDown,
        Self::JudgedAsWritten,
        Self::StoredByUid,
        Self::UpdateNotByUid,
        Self::TimeAfterRead,
        Self::CleanByVersion,
        Self::SharedKeptClosed,
        Self::SharedReadAfterReview,
        Self::ClosedWhenNew,
        Self::TerminatingRefuses,
        Self::TakenNameRefuses,
        Self::KeptLongerThanRequests,
        Self::ReviewedAgain,
        Self::WaitTwiceAfterRule,
        Self::Reviews,
        Self::EachOwnerCounts,
        Self::OwnerIsServed,
        Self::OwnerInReach,
        Self::OrphaningCounts,
        Self::TerminatingOrphanRefuses,
        Self::OwnersReviewed,
        Self::GoneOwnerCounts,
        Self::OrphaningReviewedAgain,
        Self::LetGoPasses,
        Self::OpenedAtOnceOnlyUnused,
        Self::GenerationInPath,
        Self::FormerRegistersGo,
    ];
}

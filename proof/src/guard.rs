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
    /// Marks are kept for longer than any request lives.
    KeptLongerThanRequests,
    /// An API server asks again if the target has changed since the review of its deletion.
    ReviewedAgain,
    /// Nothing is promised about a rule until all replicas have known the rule for *twice* the time that marks are kept.
    WaitTwiceAfterRule,
    /// Both sides are reviewed.
    Reviews,
}

impl Guard {
    /// All guards.
    pub const ALL: [Self; 21] = [
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
        Self::KeptLongerThanRequests,
        Self::ReviewedAgain,
        Self::WaitTwiceAfterRule,
        Self::Reviews,
    ];
}

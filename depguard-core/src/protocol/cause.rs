//! Causes of refusals: a closed set of words for programs, each with its prospect.

/// The cause of a refusal: `details.causes[].reason` of the answer, and the same word in logs and metrics.
///
/// Causes that last come first in the order, so that they are named before those that pass.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Cause {
    /// Other objects refer to the object.
    StillReferenced,
    /// A target of the object's references is not there, or is being deleted.
    RefNotFound,
    /// The kind of a target of the object's references is not served.
    InvalidKind,
    /// A lock forbids the request.
    ObjectLocked,
    /// The object is a lock that holds, and the requester may not change or delete it.
    LockGuarded,
    /// The lock to be stored has an error.
    LockInvalid,
    /// The owner to be stored has an error.
    OwnerInvalid,
    /// The GroupOwner may still own objects.
    StillOwns,
    /// The GlobalOwner is to be deleted in the foreground.
    ForegroundDeletion,
    /// A rule can't be evaluated.
    RuleInvalid,
    /// It can't be told what a dependent refers to: it is too large, or its selector is invalid.
    DependentInvalid,
    /// The API server does not serve a kind in the version, or not at all.
    KindNotServed,
    /// An API server does not let the webhook's user read or write.
    ReadForbidden,
    /// A server answered with something that is no answer to the request.
    ReadUnusable,
    /// The review lacks a part that every API server sends, or that part is invalid.
    ReviewInvalid,
    /// The review is larger than the webhook reads.
    ReviewTooLarge,
    /// The caller's URL is not for this object.
    OutOfScope,
    /// The lock table is full or broken.
    LockTableUnusable,
    /// The review is the one that the controller asks for, to see if API servers call the webhook.
    DispatchCanary,
    /// The webhook has not loaded the rules yet.
    RulesNotLoaded,
    /// The webhook can't prove that its rules are current.
    RulesNotCurrent,
    /// A read or a write failed, or was not answered in time.
    ReadFailed,
    /// Other writers change the same object at the same time.
    Contended,
    /// Too many reviews wait for API servers.
    TooManyReviews,
    /// The review did not arrive in time.
    ReviewTooSlow,
    /// The connection broke while the review arrived.
    ReviewBrokenOff,
}

/// The prospect of a refusal if nobody does anything.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "a cause passes by itself or it does not")]
pub enum Prospect {
    /// The refusal stays until somebody acts.
    Lasts,
    /// The refusal passes by itself: the same request is worth repeating.
    Passes,
}

impl Cause {
    /// All causes.
    pub const ALL: [Self; 26] = [
        Self::StillReferenced,
        Self::RefNotFound,
        Self::InvalidKind,
        Self::ObjectLocked,
        Self::LockGuarded,
        Self::LockInvalid,
        Self::OwnerInvalid,
        Self::StillOwns,
        Self::ForegroundDeletion,
        Self::RuleInvalid,
        Self::DependentInvalid,
        Self::KindNotServed,
        Self::ReadForbidden,
        Self::ReadUnusable,
        Self::ReviewInvalid,
        Self::ReviewTooLarge,
        Self::OutOfScope,
        Self::LockTableUnusable,
        Self::DispatchCanary,
        Self::RulesNotLoaded,
        Self::RulesNotCurrent,
        Self::ReadFailed,
        Self::Contended,
        Self::TooManyReviews,
        Self::ReviewTooSlow,
        Self::ReviewBrokenOff,
    ];

    /// Returns the cause as one word: `StillReferenced`.
    pub fn word(self) -> &'static str {
        match self {
            Self::StillReferenced => "StillReferenced",
            Self::RefNotFound => "RefNotFound",
            Self::InvalidKind => "InvalidKind",
            Self::ObjectLocked => "ObjectLocked",
            Self::LockGuarded => "LockGuarded",
            Self::LockInvalid => "LockInvalid",
            Self::OwnerInvalid => "OwnerInvalid",
            Self::StillOwns => "StillOwns",
            Self::ForegroundDeletion => "ForegroundDeletion",
            Self::RuleInvalid => "RuleInvalid",
            Self::DependentInvalid => "DependentInvalid",
            Self::KindNotServed => "KindNotServed",
            Self::ReadForbidden => "ReadForbidden",
            Self::ReadUnusable => "ReadUnusable",
            Self::ReviewInvalid => "ReviewInvalid",
            Self::ReviewTooLarge => "ReviewTooLarge",
            Self::OutOfScope => "OutOfScope",
            Self::LockTableUnusable => "LockTableUnusable",
            Self::DispatchCanary => "DispatchCanary",
            Self::RulesNotLoaded => "RulesNotLoaded",
            Self::RulesNotCurrent => "RulesNotCurrent",
            Self::ReadFailed => "ReadFailed",
            Self::Contended => "Contended",
            Self::TooManyReviews => "TooManyReviews",
            Self::ReviewTooSlow => "ReviewTooSlow",
            Self::ReviewBrokenOff => "ReviewBrokenOff",
        }
    }

    /// Returns the prospect of a refusal with this cause.
    pub fn prospect(self) -> Prospect {
        match self {
            Self::StillReferenced
            | Self::RefNotFound
            | Self::InvalidKind
            | Self::ObjectLocked
            | Self::LockGuarded
            | Self::LockInvalid
            | Self::OwnerInvalid
            | Self::StillOwns
            | Self::ForegroundDeletion
            | Self::RuleInvalid
            | Self::DependentInvalid
            | Self::KindNotServed
            | Self::ReadForbidden
            | Self::ReadUnusable
            | Self::ReviewInvalid
            | Self::ReviewTooLarge
            | Self::OutOfScope
            | Self::LockTableUnusable
            | Self::DispatchCanary => Prospect::Lasts,
            Self::RulesNotLoaded
            | Self::RulesNotCurrent
            | Self::ReadFailed
            | Self::Contended
            | Self::TooManyReviews
            | Self::ReviewTooSlow
            | Self::ReviewBrokenOff => Prospect::Passes,
        }
    }

    /// Returns true if a refusal with this cause passes by itself.
    pub fn passes(self) -> bool {
        self.prospect() == Prospect::Passes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_cause_is_listed_by_its_name_and_lasting_ones_come_first() {
        for (index, cause) in Cause::ALL.into_iter().enumerate() {
            assert_eq!((cause as usize, cause.word()), (index, format!("{cause:?}").as_str()));
        }
        assert!(Cause::ALL.is_sorted_by_key(|cause| cause.passes()));
    }
}
